"""What is known of GPUs without a capture: kernel names, occupancy and peak rates."""
