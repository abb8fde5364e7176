"""The transcript of a session as blocks: pure, without a terminal and without a clock.

`model.py` turns records and deltas into the blocks of `blocks.py`, `lines.py` lays a block out as
lines of cells, `printer.py` prints a transcript that flows.
"""
