"""The section on tensor cores: their share of kernel time, why work ran without them, and names against hardware."""
