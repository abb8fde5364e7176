"""What a session notices by itself: timers that are due, and silence that has become too long."""
