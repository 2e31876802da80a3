"""What runs on a device: commands, kernels and transport. Never imports Ray or the driver."""
