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


def test_a_code_is_the_name_in_the_spelling_of_the_wire() -> None:
    assert errors.SessionNotFound.code == "session_not_found"
    assert errors.Fenced.code == "fenced"


def test_no_two_kinds_share_a_code() -> None:
    codes = [kind.code for kind in all_kinds()]

    assert len(codes) == len(set(codes))


@pytest.mark.parametrize("kind", all_kinds())
def test_every_kind_is_in_the_picture_of_the_tree(kind: type[SupervisorError]) -> None:
    assert errors.__doc__ is not None
    assert kind.__name__ in errors.__doc__


def test_what_a_person_reads_says_what_to_do_next() -> None:
    error = errors.QueueFull("session s1 has 10 of 10 inputs waiting", hint="cancel one")

    assert str(error) == "session s1 has 10 of 10 inputs waiting (hint: cancel one)"


def test_a_refused_spawn_names_the_limit_and_how_much_of_it_is_used() -> None:
    refusal = SpawnRefused("full", hint="close one", limit="max_children", used=5, allowed=5)

    assert (refusal.limit, refusal.used, refusal.allowed) == ("max_children", 5, 5)
    assert refusal.code == "spawn_refused"
