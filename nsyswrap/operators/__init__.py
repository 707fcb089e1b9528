"""From each kernel to the operator of PyTorch that launched it: its module, its line, its work, how near the peak."""
