"""The training loop: its steps and phases, and what NVTX ranges enclose."""
