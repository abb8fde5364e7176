"""Agent processes and their descendants: contained, with bounded output, killed at the end.

`processes` is the port that drivers use; `contained` implements it with a guardian per process.
"""
