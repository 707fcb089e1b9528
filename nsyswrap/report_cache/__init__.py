"""A finished report beside its capture: a second command on the same capture reads it and analyzes nothing."""
