"""Common base of the public handles `Ref` and `Group`.

Handles are defined below the runtime classes that they control, so that imports have no cycle: a
handle calls its child through a protocol (`Watched` here, `ActorControl`, `GroupControl`).
"""

from __future__ import annotations

from typing import Literal, Protocol, TypeAlias

from ._restart import Exit

State: TypeAlias = Literal["starting", "running", "restarting", "stopping", "stopped"]


class Watcher(Protocol):
    """An actor that watches others."""

    def notify_ended(self, other: Watched, news: object, reason: Exit) -> None: ...


class Watched(Protocol):
    """An actor or group whose end can be watched."""

    def add_watcher(self, watcher: Watcher) -> None: ...
    def remove_watcher(self, watcher: Watcher) -> None: ...


class Handle:
    """Base of `Ref` and `Group`: a name, and the child that it controls."""

    __slots__ = ("__weakref__", "_child", "name")

    name: str
    _child: Watched
