"""What all commands stand on: options, targets, exit codes, and how work is run."""
