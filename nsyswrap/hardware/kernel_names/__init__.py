"""What a kernel name says of tensor cores: rules in order, and the readers of precision, library and operation."""
