"""What operators are told: log lines, and what happens to sessions in them."""
