"""What bounds the kernels: the time of each, how far it is from the GPU's peak, and what to try."""
