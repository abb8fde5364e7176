"""A small actor runtime on trio, with the supervision of Erlang/OTP.

    async with actors.open_actors() as system:
        ref = await system.start(Counter, name="counter")
        ref.tell(Poke())
        total = await ref.ask(Add(3))

An `Actor` handles one message at a time. A `Ref` is the handle on an actor for all other code;
it outlives restarts. A `Group` (`open_actors` returns the root group) starts children in order,
restarts them by a strategy, and stops them in reverse order. `actors.testing` runs all of it
under seeded schedules and virtual time.
"""

from ._actor import Actor
from ._child import Ended
from ._errors import (
    ActorError,
    ActorStopped,
    AskSelf,
    AskTimeout,
    BadSpec,
    GaveUp,
    MailboxFull,
    NameTaken,
    StopActor,
    UnknownActor,
)
from ._group import Group, GroupStatistics
from ._message import NOT_NOW, Ask, Later, OpenAsk, Pause, Tracked
from ._ref import Ref, Statistics
from ._restart import Crashed, Exit, Finished, Killed, RestartPolicy, Stopped
from ._spec import ChildSpec, GroupSpec
from ._system import open_actors

__all__ = [
    "NOT_NOW",
    "Actor",
    "ActorError",
    "ActorStopped",
    "Ask",
    "AskSelf",
    "AskTimeout",
    "BadSpec",
    "ChildSpec",
    "Crashed",
    "Ended",
    "Exit",
    "Finished",
    "GaveUp",
    "Group",
    "GroupSpec",
    "GroupStatistics",
    "Killed",
    "Later",
    "MailboxFull",
    "NameTaken",
    "OpenAsk",
    "Pause",
    "Ref",
    "RestartPolicy",
    "Statistics",
    "StopActor",
    "Stopped",
    "Tracked",
    "UnknownActor",
    "open_actors",
]
