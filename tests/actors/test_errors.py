import inspect

import pytest

import actors
from actors import (
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
    _errors,
)

ONE_OF_EACH: list[ActorError] = [
    MailboxFull("a", "message", capacity=3),
    ActorStopped("a"),
    AskTimeout("a", timeout_seconds=2.5),
    AskSelf("a", verb="ask", instead="call the method"),
    GaveUp("g", culprit="a", how="crashed", max_restarts=3, within_seconds=5.0),
    NameTaken("a", where="g"),
    UnknownActor("a", where="g", hint="look elsewhere"),
    BadSpec("capacity", "0 is too small", hint="give more"),
]


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)
def test_every_error_has_a_message_and_a_hint(error: ActorError) -> None:
    assert error.hint
    assert str(error) == f"{error.args[0]} (hint: {error.hint})"


@pytest.mark.parametrize("error", ONE_OF_EACH, ids=lambda error: type(error).__name__)
def test_every_error_is_in_the_drawn_tree(error: ActorError) -> None:
    assert f"── {type(error).__name__} " in str(_errors.__doc__)


def test_every_error_is_exported() -> None:
    errors = {
        name
        for name, kind in inspect.getmembers(_errors, inspect.isclass)
        if issubclass(kind, ActorError) and kind is not ActorError
    }

    assert errors == {type(error).__name__ for error in ONE_OF_EACH}
    assert errors <= set(actors.__all__)


@pytest.mark.parametrize(
    ("error", "builtin"),
    [(AskTimeout, TimeoutError), (UnknownActor, LookupError), (BadSpec, ValueError)],
)
def test_an_error_is_also_the_matching_builtin_error(
    error: type[ActorError], builtin: type[Exception]
) -> None:
    assert issubclass(error, builtin)


def test_stop_actor_is_not_an_actor_error() -> None:
    assert not issubclass(StopActor, ActorError)


def test_a_copy_of_gave_up_has_the_same_cause() -> None:
    first = GaveUp("g", culprit="a", how="crashed", max_restarts=3, within_seconds=5.0)
    first.__cause__ = KeyError("x")

    again = first.copy()

    assert again is not first
    assert (str(again), again.__cause__) == (str(first), first.__cause__)
