"""Time, as sessions have it: a clock, a pulse that stands still with the process, and timers."""
