"""nsyswrap: where a PyTorch program's GPU time went, why it starved, and whether tensor cores were used."""

__version__ = "0.1.0"
