"""A sweep: one program over a grid of settings, what each cell measured, and what follows from all of them."""
