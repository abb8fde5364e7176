"""Programs, and all that they start: contained, bounded, and gone when they should be.

`port` says what a driver has of a process; `contained` is the real thing, under a guardian.
"""
