"""The pages about HTTP say what the code has, no more and no less."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from types import NoneType
from typing import get_args

import pytest

from supervisor.api.operation import Operation
from supervisor.api.params import MAX_PAGE, MAX_WAIT_SECONDS
from supervisor.api.routes import OPERATIONS
from supervisor.api.routes.control import STOP_SECONDS
from supervisor.api.sse import KEEPALIVE_SECONDS, WRITE_SECONDS
from supervisor.http_server.body import BODY_SECONDS, MAX_BODY_BYTES, MAX_DEPTH, parse_json
from supervisor.http_server.gate import MAX_HEADER_BYTES
from supervisor.http_server.problems import REQUEST_STATUSES, STATUSES

DOCS = Path(__file__).parents[2] / "docs"
REFERENCE = (DOCS / "reference/http.md").read_text()
HOW_TO = (DOCS / "how-to/http.md").read_text()

# Forms that are a method's whole signature, with too many arguments for a table.
WHOLE = {
    "create": "the arguments of `Supervisor.create`",
    "get_or_create": "`key`, and those of `Supervisor.create`",
    "new": "`key`, and those of `Supervisor.create`",
    "spawn": "the arguments of `Session.spawn`",
    "list": "the arguments of `Supervisor.list`",
}


def takes(operation: Operation) -> str:
    names = ", ".join(f"`{field.name}`" for field in operation.params.fields)
    return WHOLE.get(operation.name, names or "nothing")


def answers(operation: Operation) -> str:
    answer = operation.result_kind
    if operation.is_stream:
        return "events"
    if answer is NoneType:
        return "text" if operation.other_media_types else "nothing"
    inside = [one.__name__ for one in get_args(answer)]
    return f"a page of `{inside[0]}`" if inside else f"`{answer.__name__}`"


def route_rows() -> list[str]:
    return [
        f"| `{one.method} {one.path}` | {one.summary} | {takes(one)}"
        f" | {one.status} {answers(one)} |"
        for one in OPERATIONS
    ]


def code_rows() -> list[str]:
    codes = {
        **{kind.code: status for kind, status in STATUSES.items()},
        **REQUEST_STATUSES,
    }
    return [f"| `{code}` | {int(status)} |" for code, status in sorted(codes.items())]


def rows_of(page: str, shape: str) -> list[str]:
    return [line for line in page.splitlines() if re.match(shape, line)]


def test_the_reference_has_every_route_and_no_other() -> None:
    assert rows_of(REFERENCE, r"\| `(GET|POST|PATCH|DELETE) ") == route_rows()


def test_the_reference_has_every_code_with_its_status() -> None:
    assert rows_of(REFERENCE, r"\| `\w+` \| \d+ \|") == code_rows()


@pytest.mark.parametrize(
    "said",
    [
        f"{MAX_BODY_BYTES // 1024 // 1024} MiB",
        f"{MAX_HEADER_BYTES // 1024} KiB",
        f"{MAX_DEPTH} deep",
        f"{BODY_SECONDS:g} seconds",
        f"{KEEPALIVE_SECONDS:g} seconds",
        f"{WRITE_SECONDS:g} seconds",
        f"{MAX_WAIT_SECONDS:g} seconds",
        f"{STOP_SECONDS:g} seconds",
        f"{MAX_PAGE:,} at most",
    ],
)
def test_the_reference_has_the_bounds(said: str) -> None:
    assert said in REFERENCE


def commands() -> list[list[str]]:
    """Every command in the how-to that asks something, as a shell would see it."""
    blocks = re.findall(r"^```sh\n(.*?)^```", HOW_TO, re.DOTALL | re.MULTILINE)
    lines = "\n".join(blocks).replace("\\\n", " ").splitlines()
    return [shlex.split(line, comments=True) for line in lines if "http://localhost" in line]


def option(words: list[str], name: str) -> str | None:
    return words[words.index(name) + 1] if name in words else None


@pytest.mark.parametrize("words", commands(), ids=" ".join)
def test_every_request_of_the_how_to_is_valid(words: list[str]) -> None:
    (address,) = [word for word in words if word.startswith("http://localhost")]
    path, _, query = address.removeprefix("http://localhost").partition("?")
    path = re.sub(r"\$(\w+)", "some_id", path)
    given = option(words, "-d")
    method = option(words, "-X") or ("GET" if given is None else "POST")

    (operation,) = [
        one
        for one in OPERATIONS
        if one.method == method and re.fullmatch(re.sub(r"{\w+}", r"\\w+", one.path), path)
    ]
    if operation.has_body:
        operation.params.decode_body({} if given is None else parse_json(given.encode()))
    else:
        operation.params.decode_query(tuple(pair.split("=")) for pair in query.split("&") if pair)  # type: ignore[misc]


def test_the_how_to_has_requests() -> None:
    assert len(commands()) >= 8
