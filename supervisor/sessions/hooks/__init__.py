"""Hooks: callables of the user, called before something happens or notified after it.

`points` is the table of points, with the fields of their events and the fields that a hook may
change. `hook` has the classes that users see, `hook_run` one contained call of a hook, and
`observers` the queue of notifications. `dispatch` has `Hooks`, which users reach as `sup.hooks`.
`blocking` calls the blocking hooks for sessions; `notifications` turns records into notifications.
"""

from .dispatch import DEADLINE_SECONDS, Hooks
from .hook import Callback, Change, Denied, Deny, Hook, HookEvent, Stop
from .hook_run import MAX_NESTING, MAX_ZOMBIES
from .observers import MAX_WAITING
from .points import POINTS, BlockingPoint, ObservedPoint, Point, PointName

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
