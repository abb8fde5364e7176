"""Live feeds as server-sent events."""
