"""Persistence: the only package that depends on how data is stored.

`port` defines the store protocol, `memory` and `sqlite` implement it, `writer` is the one actor
that writes, and `codec` encodes rows and records.

When the disk is full: `degraded_error` in `sqlite/files.py` turns the error of SQLite into
`StoreDegraded`; `writer.py` keeps the write in the `Backlog` and retries; `StoreHealth` in
`pending.py` holds the state that users see; `sessions/store_health.py` reacts to its changes;
`core/degraded.py` decides which steps may take effect before they are durable, and
`sessions/degraded.py` performs them.
"""
