"""The remote client: a supervisor in another process, with the names of the embedding API.

    async with supervisor.connect() as sup:
        session = await sup.create("echo")
        result = await session.prompt("hello")

`connect` finds the daemon; `transport` sends requests, through `http_client` or `pool`; `feed`
follows streams; `supervisor` and `session` have the methods of the embedding API.
"""

from .connect import connect, connect_once
from .feed import RemoteGlobalFeed, RemoteWatcher
from .session import RemoteSession
from .supervisor import RemoteSupervisor
from .transport import AnswerLost, DaemonBusy, NoDaemon

__all__ = [
    "AnswerLost",
    "DaemonBusy",
    "NoDaemon",
    "RemoteGlobalFeed",
    "RemoteSession",
    "RemoteSupervisor",
    "RemoteWatcher",
    "connect",
    "connect_once",
]
