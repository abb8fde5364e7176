"""Forms are the signatures of the embedding API, and what else is asked is asked at the door."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import pytest

from supervisor import Options, Session, Supervisor
from supervisor.api.params import Params, body_params, body_params_of, query_params, query_params_of
from supervisor.api.routes import OPERATIONS
from supervisor.decode import DecodeError

FORMS = {operation.name: operation.params for operation in OPERATIONS}


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
def test_params_have_the_arguments_of_their_method(name: str, method: Callable[..., Any]) -> None:
    arguments = inspect.signature(method).parameters.keys() - {"self"}

    assert FORMS[name].names() == arguments


@pytest.mark.parametrize("name", ["spawn", "get_or_create", "new"])
def test_unpacked_options_are_params(name: str) -> None:
    assert Options.__annotations__.keys() <= FORMS[name].names()


def test_an_absent_argument_is_not_passed_on() -> None:
    assert body_params_of(Session.send).decode_body({"text": "a"}) == {"text": "a"}


def test_an_argument_without_default_is_required() -> None:
    with pytest.raises(
        DecodeError, match=r"\$\.agent: required field missing; \$\.text: required field missing"
    ):
        body_params_of(Session.spawn).decode_body({})


def test_an_argument_may_be_left_out_or_of_another_kind() -> None:
    form = body_params_of(Session.send, without=("text",), kinds={"ttl_seconds": str})

    assert "text" not in form.names()
    assert form.decode_body({"when_busy": "steer"}) == {"when_busy": "steer"}


def test_a_constraint_is_checked_only_for_the_right_type() -> None:
    with pytest.raises(DecodeError) as raised:
        body_params_of(Session.send).decode_body({"text": 5, "ttl_seconds": -1})

    assert [fault.code for fault in raised.value.invalid_fields] == [
        "config_error",
        "input_refused",
    ]


def test_a_value_of_the_embedding_api_is_not_checked_by_the_decoder() -> None:
    given = {"text": " ", "ttl_seconds": -1.0}

    form = body_params_of(Session.send)

    assert form.decode_body(given) == given
    refused = form.invalid_values(given, root="$")
    assert refused is not None
    assert [fault.path for fault in refused.invalid_fields] == ["$.text", "$.ttl_seconds"]


def test_a_value_that_only_http_restricts_is_checked_by_the_decoder() -> None:
    with pytest.raises(DecodeError, match="path is 'relative'"):
        body_params(path=str).decode_body({"path": "relative"})


def test_empty_params_accept_no_argument() -> None:
    assert Params().decode_body({}) == {}
    with pytest.raises(DecodeError):
        Params().decode_body({"x": 1})


@pytest.mark.parametrize(
    ("text", "made"),
    [("1", True), ("true", True), ("0", False), ("false", False)],
)
def test_a_flag_in_a_query_is_one_of_four_words(text: str, made: bool) -> None:  # noqa: FBT001
    assert query_params(follow=(bool, False)).decode_query([("follow", text)]) == {"follow": made}


@pytest.mark.parametrize("text", ["True", "yes", "", "2"])
def test_another_word_is_not_a_flag(text: str) -> None:
    with pytest.raises(DecodeError, match="follow"):
        query_params(follow=(bool, False)).decode_query([("follow", text)])


def test_a_number_in_a_query_gets_the_type_of_its_param() -> None:
    form = query_params_of(Supervisor.list)

    made = form.decode_query([("limit", "5"), ("created_after", "1.5e3"), ("tag", "7")])

    assert made == {"limit": 5, "created_after": 1500.0, "tag": "7"}


def test_own_params_have_defaults_and_required_names() -> None:
    form = body_params(path=str, dry_run=(bool, True))

    assert [field.is_required for field in form.fields] == [True, False]
