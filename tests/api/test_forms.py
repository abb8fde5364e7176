"""Forms are the signatures of the embedding API, and what else is asked is asked at the door."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from supervisor import Options, Session, Supervisor
from supervisor.api.describing.forms import Form, body, form_of, query, query_of
from supervisor.api.routes import OPERATIONS
from supervisor.api.wire.reading import Unreadable

FORMS = {operation.name: operation.form for operation in OPERATIONS}


@pytest.mark.parametrize(
    ("name", "method"),
    [
        ("create", Supervisor.create),
        ("list", Supervisor.list),
        ("cleanup", Supervisor.cleanup),
        ("import", Supervisor.import_),
        ("send", Session.send),
        ("steer", Session.steer),
        ("stop", Session.stop),
        ("fork", Session.fork),
        ("append", Session.append),
        ("repair", Session.repair),
        ("replay", Session.replay),
        ("change", Session.set),
    ],
)
def test_a_form_has_the_arguments_of_its_method(name: str, method: Callable[..., Any]) -> None:
    arguments = inspect.signature(method).parameters.keys() - {"self"}

    assert FORMS[name].names() == arguments


@pytest.mark.parametrize("name", ["spawn", "get_or_create", "new"])
def test_options_are_arguments_too(name: str) -> None:
    assert Options.__annotations__.keys() <= FORMS[name].names()


def test_what_is_not_given_is_not_passed_on() -> None:
    assert form_of(Session.send).read({"text": "a"}) == {"text": "a"}


def test_what_has_no_default_must_be_given() -> None:
    with pytest.raises(Unreadable, match=r"\$\.agent: is missing; \$\.text: is missing"):
        form_of(Session.spawn).read({})


def test_an_argument_may_be_left_out_or_of_another_kind() -> None:
    form = form_of(Session.send, without=("text",), kinds={"ttl_seconds": str})

    assert "text" not in form.names()
    assert form.read({"when_busy": "steer"}) == {"when_busy": "steer"}


def test_a_check_is_asked_only_of_what_has_the_right_type() -> None:
    with pytest.raises(Unreadable) as raised:
        form_of(Session.send).read({"text": 5, "ttl_seconds": -1})

    assert [fault.code for fault in raised.value.faults] == ["config_error", "input_refused"]


def test_a_form_without_fields_takes_nothing() -> None:
    assert Form().read({}) == {}
    with pytest.raises(Unreadable):
        Form().read({"x": 1})


@pytest.mark.parametrize(
    ("text", "made"),
    [("1", True), ("true", True), ("0", False), ("false", False)],
)
def test_a_flag_in_a_query_is_one_of_four_words(text: str, made: bool) -> None:  # noqa: FBT001
    assert query(follow=(bool, False)).read_query([("follow", text)]) == {"follow": made}


@pytest.mark.parametrize("text", ["True", "yes", "", "2"])
def test_any_other_word_is_no_flag(text: str) -> None:
    with pytest.raises(Unreadable, match="follow"):
        query(follow=(bool, False)).read_query([("follow", text)])


def test_a_number_in_a_query_is_read_as_what_is_wanted() -> None:
    form = query_of(Supervisor.list)

    made = form.read_query([("limit", "5"), ("created_after", "1.5e3"), ("tag", "7")])

    assert made == {"limit": 5, "created_after": 1500.0, "tag": "7"}


def test_a_form_of_its_own_has_defaults_and_needs() -> None:
    form = body(path=str, dry_run=(bool, True))

    assert [field.is_needed for field in form.fields] == [True, False]
