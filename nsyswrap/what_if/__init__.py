"""What a change would save: the dependency graph of a sample of the run, simulated with some of its times changed."""
