"""The remote client: a supervisor in another process, with the names of the embedding API.

    async with supervisor.connect() as sup:
        session = await sup.create("echo")
        result = await session.prompt("hello")

`connect` finds the daemon; `transport` sends requests, through one of the clients that
`http_client` describes; `feed` follows streams; `supervisor` and `session` have the methods of the
embedding API.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from .connect import connect, connect_blocking, connect_once
from .supervisor import RemoteSupervisor
from .transport import AnswerLost, DaemonBusy, NoDaemon

if TYPE_CHECKING:
    from .feed import RemoteGlobalFeed, RemoteWatcher
    from .session import RemoteSession

# Imported on their first use: some commands do without trio, which feeds need, and most do without
# the methods of a session.
_MODULE_OF = {"RemoteGlobalFeed": "feed", "RemoteWatcher": "feed", "RemoteSession": "session"}

__all__ = [
    "AnswerLost",
    "DaemonBusy",
    "NoDaemon",
    "RemoteGlobalFeed",
    "RemoteSession",
    "RemoteSupervisor",
    "RemoteWatcher",
    "connect",
    "connect_blocking",
    "connect_once",
]


def __getattr__(name: str) -> object:
    module = _MODULE_OF.get(name)
    if module is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f".{module}", __name__), name)
