"""Errors as problems: one table, every class in it, and the same class again at the other end."""

from __future__ import annotations

from collections.abc import Iterator
from http import HTTPStatus

import pytest

from supervisor import ConfigError, ImportFailed, InputRefused, SpawnRefused, SupervisorError
from supervisor.core.step import ResumeNeedsHooks
from supervisor.decode import DecodeError, InvalidField
from supervisor.http_server.problems import (
    REQUEST_STATUSES,
    STATUSES,
    RequestRefused,
    error_of,
    problem_of,
    problem_of_invalid_fields,
)
from supervisor.store.sqlite.query import InvalidQuery, QueryLimitExceeded

ALLOWED = {400, 401, 403, 404, 405, 406, 408, 409, 413, 415, 422, 429, 431, 503}


def classes(kind: type[SupervisorError] = SupervisorError) -> Iterator[type[SupervisorError]]:
    yield kind
    for below in kind.__subclasses__():
        yield from classes(below)


def made(kind: type[SupervisorError]) -> SupervisorError:
    if kind is SpawnRefused:
        return SpawnRefused("no", hint="wait", limit="max_children", used=5, allowed=5)
    if kind is RequestRefused:
        return RequestRefused("bad_json", "no", hint="send JSON")
    return kind("no", hint="do otherwise")


# Packages whose errors reach this interface; packages above it have their own.
BELOW = ("supervisor.core", "supervisor.store", "supervisor.drivers", "supervisor.sessions")
# Internal errors that never reach a caller, and those of `understudy query`, which has no route.
# Imported here, so that the list does not depend on the tests that run before.
WITHIN = (ResumeNeedsHooks, InvalidQuery, QueryLimitExceeded)
OURS = sorted(
    (
        one
        for one in classes()
        if one.__module__.startswith((*BELOW, "supervisor.api")) and one not in WITHIN
    ),
    key=lambda one: one.code,
)


@pytest.mark.parametrize("kind", OURS)
def test_every_error_is_in_the_table(kind: type[SupervisorError]) -> None:
    assert kind in STATUSES or kind is RequestRefused


def test_only_a_bug_is_a_500() -> None:
    statuses = {*STATUSES.values(), *REQUEST_STATUSES.values()}

    assert statuses - {HTTPStatus.INTERNAL_SERVER_ERROR} <= ALLOWED
    assert [code for code, status in REQUEST_STATUSES.items() if status == 500] == [
        "internal_error"
    ]


@pytest.mark.parametrize("kind", OURS)
def test_a_problem_becomes_the_same_error_class_and_text(
    kind: type[SupervisorError],
) -> None:
    error = made(kind)

    again = error_of(problem_of(error).to_json(), status=problem_of(error).status)

    assert type(again) is kind
    assert (again.code, str(again)) == (error.code, str(error))


def test_the_exhausted_limit_survives_the_problem() -> None:
    problem = problem_of(made(SpawnRefused)).to_json()
    again = error_of(problem, status=429)

    assert (problem["limit"], problem["used"], problem["allowed"]) == ("max_children", 5, 5)
    assert isinstance(again, SpawnRefused)
    assert (again.limit, again.used, again.allowed) == ("max_children", 5, 5)


@pytest.mark.parametrize(
    ("limit", "seconds"), [("max_children", 1), ("max_depth", None), ("permissions", None)]
)
def test_retry_after_is_sent_only_for_transient_errors(limit: str, seconds: int | None) -> None:
    problem = problem_of(SpawnRefused("no", hint="wait", limit=limit))

    assert problem.retry_after_seconds == seconds


def test_a_line_number_appears_once() -> None:
    error = ImportFailed("no JSON", hint="mend it", line=3)

    again = error_of(problem_of(error).to_json(), status=422)

    assert isinstance(again, ImportFailed)
    assert (again.line, again.args[0]) == (3, "line 3: no JSON")


def test_http_faults_have_the_codes_of_the_embedding_api() -> None:
    one = InvalidField("$.text", "is blank", "send some text", InputRefused.code)
    other = InvalidField("$.agent", "is missing", "give it", ConfigError.code)

    assert problem_of_invalid_fields(DecodeError((one,))).code == InputRefused.code
    assert problem_of_invalid_fields(DecodeError((one, other))).code == ConfigError.code


def test_a_secret_in_an_error_is_redacted() -> None:
    error = ConfigError("name is 'ghp_0123456789abcdefghijABCDEFGHIJ'", hint="give another")

    assert "0123456789" not in problem_of(error).detail


@pytest.mark.parametrize("plain", [None, [], {}, "nonsense", {"code": 5, "detail": "x"}])
def test_a_foreign_body_becomes_request_refused(plain: object) -> None:
    error = error_of(plain, status=502)

    assert isinstance(error, RequestRefused)
    assert "502" in str(error)


def test_an_unknown_code_keeps_its_text() -> None:
    error = error_of({"code": "new_thing", "detail": "no", "hint": "wait"}, status=409)

    assert (error.code, str(error)) == ("new_thing", "no (hint: wait)")
