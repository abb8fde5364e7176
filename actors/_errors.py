"""The errors of this package, classed by fault.

    ActorError                 every error of this package; has a `hint`
    ├── MailboxFull            the receiver is behind: wait, or send less (`.message` comes back)
    ├── ActorStopped           the receiver is stopping or has ended: look it up again
    ├── AskTimeout             the receiver took too long (a TimeoutError too)
    ├── AskSelf                the caller would wait for itself: a mistake in the program
    ├── GaveUp                 the receiver crashed more often than its supervisor allows
    ├── NameTaken              the caller chose a name that a live actor has
    ├── UnknownActor           the caller named an actor that does not exist (a LookupError too)
    └── BadSpec                the caller's description of a child is wrong in `.field`

`StopActor` is not an error: an actor raises it to end normally.
"""

from __future__ import annotations

import math
from typing import Any, get_args


class ActorError(Exception):
    """Base of this package's errors: `str(error)` is the problem, `hint` what to do."""

    def __init__(self, problem: str, *, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.args[0]} (hint: {self.hint})"


class MailboxFull(ActorError):
    """The mailbox lane of actor `name` holds `capacity` messages; `message` was not delivered."""

    def __init__(self, name: str, message: Any, *, capacity: int) -> None:
        super().__init__(
            f"{name} already has {capacity} messages waiting",
            hint="send it again later, slow down, or start the actor with more capacity",
        )
        self.name = name
        self.message = message
        self.capacity = capacity


class ActorStopped(ActorError):
    """The actor accepts no more messages, or ended before it answered.

    `was_in_hand`: the actor had begun to handle the message, and its effects are unknown. Otherwise
    the message was not handled.
    """

    def __init__(
        self,
        name: str,
        *,
        problem: str = "is stopping or has ended",
        hint: str = "it does not come back: start another actor",
        was_in_hand: bool = False,
    ) -> None:
        super().__init__(f"{name} {problem}", hint=hint)
        self.name = name
        self.was_in_hand = was_in_hand


class AskTimeout(ActorError, TimeoutError):
    """The actor did not answer in time.

    It may still handle the message, but the answer is dropped.
    """

    def __init__(self, name: str, *, timeout_seconds: float) -> None:
        super().__init__(
            f"{name} did not answer within {timeout_seconds:g} s",
            hint="the message may still be handled; ask again or raise timeout_seconds",
        )
        self.name = name
        self.timeout_seconds = timeout_seconds


class AskSelf(ActorError):
    """An actor was about to wait for itself, which would never end."""

    def __init__(self, name: str, *, verb: str, instead: str) -> None:
        super().__init__(f"{name} cannot {verb} itself and wait for it", hint=instead)
        self.name = name


class GaveUp(ActorError):
    """The supervisor stopped restarting: restarts came faster than the intensity allows.

    `name` is the actor or group that was given up, `culprit` the child that ended once too often,
    `how` the way it ended, and `__cause__` the exception behind it, if there is one. `handled` is
    True once a waiter or a watcher has received the error; then `open_actors` does not raise it.
    """

    def __init__(
        self, name: str, *, culprit: str, how: str, max_restarts: int, within_seconds: float
    ) -> None:
        super().__init__(
            f"{name} was given up: {culprit} {how} after {max_restarts}"
            f" restart{'' if max_restarts == 1 else 's'} within {within_seconds:g} s",
            hint="fix the cause of its end, or raise max_restarts or within_seconds",
        )
        self.name = name
        self.culprit = culprit
        self.how = how
        self.max_restarts = max_restarts
        self.within_seconds = within_seconds
        self.handled = False

    def copy(self) -> GaveUp:
        """Return an equal exception, to be raised in one more waiting task."""
        twin = GaveUp(
            self.name,
            culprit=self.culprit,
            how=self.how,
            max_restarts=self.max_restarts,
            within_seconds=self.within_seconds,
        )
        twin.__cause__ = self.__cause__
        return twin


class NameTaken(ActorError):
    """A live child of the supervisor already has this name."""

    def __init__(self, name: str, *, where: str) -> None:
        super().__init__(
            f"{where} already has a child called {name!r}",
            hint="choose another name, or stop the child that has it",
        )
        self.name = name


class UnknownActor(ActorError, LookupError):
    """The group has no child of that name, live or declared."""

    def __init__(self, name: str, *, where: str, hint: str) -> None:
        super().__init__(f"{where} has no child called {name!r}", hint=hint)
        self.name = name


class BadSpec(ActorError, ValueError):
    """A child, group or time-out is described with an invalid value."""

    def __init__(self, field: str, problem: str, *, hint: str) -> None:
        super().__init__(f"{field}: {problem}", hint=hint)
        self.field = field


class StopActor(Exception):
    """Exception that `receive` or `on_start` raises to end the actor normally.

    An `Ask` in hand when it is raised fails with `ActorStopped`. The restart kind decides if the
    actor is restarted: a `permanent` actor is.
    """


# Checks of values; each error names the field ---------------------------------------------


def _is_number(value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return not math.isnan(float(value))
    except OverflowError:  # an int beyond all floats cannot be added to a clock
        return False


def refuse_unless_number(field: str, value: float, *, least: float, finite: bool) -> None:
    """Raise `BadSpec` unless `value` is a number (not a bool, not NaN) of at least `least`."""
    if not _is_number(value) or not value >= least or (finite and math.isinf(value)):
        bound = f"a {'finite ' if finite else ''}number of at least {least:g}"
        raise BadSpec(field, f"{value!r} is not {bound}", hint=f"give {field} {bound}")


def refuse_unless_count(field: str, value: int, *, least: int) -> None:
    """Raise `BadSpec` unless `value` is a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        bound = f"a whole number of at least {least}"
        raise BadSpec(field, f"{value!r} is not {bound}", hint=f"give {field} {bound}")


def refuse_unless_one_of(field: str, value: str, choices: object) -> None:
    """Raise `BadSpec` unless `value` is one of the values of a `Literal`."""
    allowed = get_args(choices)
    if not isinstance(value, str) or value not in allowed:
        listed = ", ".join(allowed)
        raise BadSpec(
            field, f"{value!r} is not one of {listed}", hint=f"choose {field} from {listed}"
        )
