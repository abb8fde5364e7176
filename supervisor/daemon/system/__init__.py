"""What the system around the daemon gives and wants: signals, systemd, descriptors."""
