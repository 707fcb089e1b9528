"""Questions asked of a trace; ``register`` lists them."""
