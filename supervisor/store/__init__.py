"""Persistence: the only package that depends on how data is stored.

`port` defines the store protocol, `memory` and `sqlite` implement it, `writer` is the one actor
that writes, and `codec` encodes rows and records.
"""
