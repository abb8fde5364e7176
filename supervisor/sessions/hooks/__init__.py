"""Hooks: code of users that is asked before something happens, or told after it.

`points` is the table of where that is, and of what may be changed there; `hook` what users give
and get; `run` one call of a hook, contained; `observers` the queue of those who are only told;
`dispatch` puts them together: `Hooks`, which users have as `sup.hooks`. `gates` is where sessions
ask them, and `told` what observers hear.
"""

from .dispatch import DEADLINE_SECONDS, Hooks
from .hook import Callback, Change, Denied, Deny, Hook, HookEvent, Stop
from .observers import MAX_WAITING
from .points import POINTS, BlockingPoint, ObservedPoint, Point, PointName
from .run import MAX_NESTING, MAX_ZOMBIES

__all__ = [
    "DEADLINE_SECONDS",
    "MAX_NESTING",
    "MAX_WAITING",
    "MAX_ZOMBIES",
    "POINTS",
    "BlockingPoint",
    "Callback",
    "Change",
    "Denied",
    "Deny",
    "Hook",
    "HookEvent",
    "Hooks",
    "ObservedPoint",
    "Point",
    "PointName",
    "Stop",
]
