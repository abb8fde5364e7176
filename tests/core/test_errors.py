"""The errors of the supervisor: one tree, each with a code and a hint."""

import pytest

from supervisor.core import errors
from supervisor.core.errors import SpawnRefused, SupervisorError


def all_kinds() -> list[type[SupervisorError]]:
    return [
        kind
        for kind in vars(errors).values()
        if isinstance(kind, type) and issubclass(kind, SupervisorError)
    ]


def test_an_error_code_is_the_class_name_in_snake_case() -> None:
    assert errors.SessionNotFound.code == "session_not_found"
    assert errors.Fenced.code == "fenced"


def test_error_codes_are_unique() -> None:
    codes = [kind.code for kind in all_kinds()]

    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("kind", all_kinds())
def test_every_error_is_in_the_drawn_tree(kind: type[SupervisorError]) -> None:
    assert errors.__doc__ is not None
    assert kind.__name__ in errors.__doc__


def test_an_error_text_contains_its_hint() -> None:
    error = errors.QueueFull("session s1 has 10 of 10 inputs waiting", hint="cancel one")

    assert str(error) == "session s1 has 10 of 10 inputs waiting (hint: cancel one)"


def test_a_refused_spawn_names_limit_used_and_allowed() -> None:
    refusal = SpawnRefused("full", hint="close one", limit="max_children", used=5, allowed=5)

    assert (refusal.limit, refusal.used, refusal.allowed) == ("max_children", 5, 5)
    assert refusal.code == "spawn_refused"
