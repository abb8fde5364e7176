"""A supervisor in another process, by the same names: `supervisor.connect()`.

    async with supervisor.connect() as sup:
        session = await sup.create("echo")
        result = await session.prompt("hello")

`connecting` finds the daemon, `line` asks it one thing at a time, by `asking` or a `pool`;
`watching` follows its streams; `supervisor` and `session` have the methods of the embedding API.
"""

from .connecting import connect, connect_briefly
from .errors import AnswerLost, DaemonBusy, NoDaemon
from .session import RemoteSession
from .supervisor import RemoteSupervisor
from .watching import RemoteEverything, RemoteWatcher

__all__ = [
    "AnswerLost",
    "DaemonBusy",
    "NoDaemon",
    "RemoteEverything",
    "RemoteSession",
    "RemoteSupervisor",
    "RemoteWatcher",
    "connect",
    "connect_briefly",
]
