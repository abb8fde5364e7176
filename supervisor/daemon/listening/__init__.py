"""Where the daemon listens, and how connections are looked after."""
