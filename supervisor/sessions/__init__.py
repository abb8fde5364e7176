"""Session actors on trio, around the pure core.

`services` is the record of leaf services that all sessions share. `actor` runs one session, with
its `log`, `timers`, `agent_runner` and `driver_context`; `slot` is the state of a session that
outlives its actor. `registry` starts actors and handles their exits, and `router` sends requests
and events to them. `lifecycle` and `spawn` create, replace, resume and archive sessions; `keys` is
the index of keys. `admission` applies limits across the tree. `inbox` lists pending permission
requests, `flusher` writes streamed output, and `hooks/` runs the users' hooks.
"""
