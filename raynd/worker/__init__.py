"""What runs on a device: the command interpreter, its backend, kernels and transport. Never imports Ray or the driver."""
