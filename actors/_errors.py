"""What can go wrong, classed by whose fault it is.

    ActorError                 every error of this package; has a `hint`
    ├── MailboxFull            the receiver is behind: wait, or send less (`.message` comes back)
    ├── ActorStopped           the receiver is stopping or over: look it up again, or let go
    ├── AskTimeout             the receiver took too long (a TimeoutError too)
    ├── AskSelf                the caller would wait for itself: a mistake in the program
    ├── GaveUp                 the receiver crashed more often than its supervisor allows
    ├── NameTaken              the caller chose a name that a live actor already bears
    ├── UnknownActor           the caller named an actor nobody here knows (a LookupError too)
    └── BadSpec                the caller's description of a child is wrong in `.field`

`StopActor` is not an error: raising it is how an actor ends itself normally.
"""

from __future__ import annotations

import math
from typing import Any, get_args


class ActorError(Exception):
    """The root of this package's errors: `str(error)` says what happened, `hint` what to do."""

    def __init__(self, problem: str, *, hint: str) -> None:
        super().__init__(problem)
        self.hint = hint

    def __str__(self) -> str:
        return f"{self.args[0]} (hint: {self.hint})"


class MailboxFull(ActorError):
    """The lane of the actor `name` holds `capacity` messages; here is yours back, as `message`."""

    def __init__(self, name: str, message: Any, *, capacity: int) -> None:
        super().__init__(
            f"{name} already has {capacity} messages waiting",
            hint="send it again later, slow down, or start the actor with more capacity",
        )
        self.name = name
        self.message = message
        self.capacity = capacity


class ActorStopped(ActorError):
    """The actor takes no more messages, or ended before it answered.

    `was_in_hand`: it had begun with the message, and what was done of it is not known. Otherwise
    nothing was.
    """

    def __init__(
        self,
        name: str,
        *,
        problem: str = "is stopping or has ended",
        hint: str = "it will not come back: start another one, or let go",
        was_in_hand: bool = False,
    ) -> None:
        super().__init__(f"{name} {problem}", hint=hint)
        self.name = name
        self.was_in_hand = was_in_hand


class AskTimeout(ActorError, TimeoutError):
    """No answer within the time; the message may still be handled, its answer will be dropped."""

    def __init__(self, name: str, *, timeout_seconds: float) -> None:
        super().__init__(
            f"{name} did not answer within {timeout_seconds:g} s",
            hint="whether it did what was asked is not known; ask again or raise timeout_seconds",
        )
        self.name = name
        self.timeout_seconds = timeout_seconds


class AskSelf(ActorError):
    """An actor was about to wait for itself, which could never end well."""

    def __init__(self, name: str, *, verb: str, instead: str) -> None:
        super().__init__(f"{name} cannot {verb} itself and wait for it", hint=instead)
        self.name = name


class GaveUp(ActorError):
    """Restarts came faster than the intensity allows, so the supervisor stopped trying.

    `name` is the actor or group that was given up, `culprit` the child whose end was one too
    many, `how` that was, and `__cause__` the exception behind it, where there was one.
    `handled` is True once a waiter or a watcher was told; then it stays inside `open_actors`.
    """

    def __init__(
        self, name: str, *, culprit: str, how: str, max_restarts: int, within_seconds: float
    ) -> None:
        super().__init__(
            f"{name} was given up: {culprit} {how} after {max_restarts}"
            f" restart{'' if max_restarts == 1 else 's'} within {within_seconds:g} s",
            hint="mend what makes it end, or allow more with max_restarts and within_seconds",
        )
        self.name = name
        self.culprit = culprit
        self.how = how
        self.max_restarts = max_restarts
        self.within_seconds = within_seconds
        self.handled = False

    def again(self) -> GaveUp:
        """The same news as a fresh exception, for one more waiter in one more task."""
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
    """Two live children of one supervisor may not share a name."""

    def __init__(self, name: str, *, where: str) -> None:
        super().__init__(
            f"{where} already has a child called {name!r}",
            hint="choose another name, or stop the one that bears it first",
        )
        self.name = name


class UnknownActor(ActorError, LookupError):
    """Nobody of that name is, or was declared, here."""

    def __init__(self, name: str, *, where: str, hint: str) -> None:
        super().__init__(f"{where} has no child called {name!r}", hint=hint)
        self.name = name


class BadSpec(ActorError, ValueError):
    """A child, group or time-out was described with a value that cannot be meant."""

    def __init__(self, field: str, problem: str, *, hint: str) -> None:
        super().__init__(f"{field}: {problem}", hint=hint)
        self.field = field


class StopActor(Exception):
    """Raise it in `receive` or `on_start` to end the actor normally.

    An `Ask` in hand when it is raised fails with `ActorStopped`. Whether the actor comes
    back is its restart kind's business: a `permanent` one does.
    """


# What cannot be meant is refused, naming the field ---------------------------------------


def _is_number(value: object) -> bool:
    if not isinstance(value, (int, float)) or isinstance(value, bool):
        return False
    try:
        return not math.isnan(float(value))
    except OverflowError:  # an int beyond all floats cannot be added to a clock
        return False


def refuse_unless_number(field: str, value: float, *, least: float, finite: bool) -> None:
    """Raise `BadSpec` unless `value` is a number (no bool, no NaN) of at least `least`."""
    if not _is_number(value) or not value >= least or (finite and math.isinf(value)):
        bound = f"a {'finite ' if finite else ''}number of at least {least:g}"
        raise BadSpec(field, f"{value!r} is not {bound}", hint=f"give {field} {bound}")


def refuse_unless_count(field: str, value: int, *, least: int) -> None:
    """Raise `BadSpec` unless `value` is a whole number of at least `least`."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        bound = f"a whole number of at least {least}"
        raise BadSpec(field, f"{value!r} is not {bound}", hint=f"give {field} {bound}")


def refuse_unless_one_of(field: str, value: str, choices: object) -> None:
    """Raise `BadSpec` unless `value` is one of the words of a `Literal`."""
    words = get_args(choices)
    if not isinstance(value, str) or value not in words:
        listed = ", ".join(words)
        raise BadSpec(field, f"{value!r} is none of {listed}", hint=f"choose {field} from {listed}")
