"""The only room that knows how things are kept.

`port` says what a store can do, `memory` does it in memory, `writer` is the one actor through
which everything is written, and `codec` turns rows and records into bytes and back.
"""
