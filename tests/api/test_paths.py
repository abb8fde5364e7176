"""Whatever is wrong with one argument, the answer says which one it was."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from supervisor import Supervisor
from supervisor.api.operation import Operation
from supervisor.api.params import Param, Params
from supervisor.api.routes import OPERATIONS
from supervisor.decode import DecodeError

GOOD = {"agent": "echo", "text": "hi", "key": "echo:a:b", "role": "user", "path": "/nowhere"}
GOOD |= {"decision": "allow_once", "q": "x"}
NUMBERS: list[Any] = [-1, -1.5, 2**62, 1e300, True]
OTHERS: list[Any] = ["", " ", [], {}, [""], {"": ""}, "x" * 5_000, "\x00"]
ASKED = [one for one in OPERATIONS if one.params.fields and not one.is_stream]


async def ask(
    client: httpx.AsyncClient, operation: Operation, path: str, given: dict[str, Any]
) -> httpx.Response:
    if operation.has_body:
        return await client.request(operation.method, path, json=given)
    query = {name: str(value) for name, value in given.items()}
    return await client.request(operation.method, path, params=query)


def is_refused(field: Param, value: object) -> bool:
    """Whether the type or the constraint refuses it, so that the embedding API has to as well."""
    form = Params((field,))
    try:
        return form.invalid_values(form.decode_body({field.name: value}), root="$") is not None
    except DecodeError:
        return True


@pytest.mark.parametrize("operation", ASKED, ids=lambda one: f"{one.method} {one.path}")
async def test_a_refused_argument_is_named(
    client: httpx.AsyncClient, sup: Supervisor, operation: Operation
) -> None:
    session = await sup.create("scripted")
    await session.send("sleep 600")
    waiting = (await session.send("say later")).input_id
    path = operation.path.replace("{id}", session.id).replace("{input}", waiting)
    path = re.sub(r"{\w+}", "req_none", path)
    needed = {one.name: GOOD.get(one.name, 1) for one in operation.params.fields if one.is_required}

    for field in operation.params.fields:
        for bad in (*NUMBERS, *OTHERS):
            answer = await ask(client, operation, path, {**needed, field.name: bad})
            assert answer.status_code < 500
            if operation.has_body and is_refused(field, bad):
                assert answer.status_code == 422, (field.name, bad, answer.text)
            # That the file is not there is nothing that could be seen at the door.
            if answer.status_code == 422 and "is not a file" not in answer.text:
                assert answer.json()["paths"], (field.name, bad, answer.text)
                assert field.name in answer.json()["paths"][0]["path"]


async def test_every_invalid_value_of_a_request_has_its_path(
    client: httpx.AsyncClient, sup: Supervisor
) -> None:
    session = await sup.create("echo")
    body = {"text": " ", "ttl_seconds": 0, "idempotency_key": ""}

    answer = await client.post(f"/v1/sessions/{session.id}/inputs", json=body)

    assert answer.status_code == 422
    paths = {one["path"] for one in answer.json()["paths"]}
    assert paths == {"$.text", "$.ttl_seconds", "$.idempotency_key"}


async def test_an_invalid_value_comes_before_an_unknown_session(client: httpx.AsyncClient) -> None:
    answer = await client.post("/v1/sessions/ses_nowhere/inputs", json={"text": ""})

    assert (answer.status_code, answer.json()["paths"][0]["path"]) == (422, "$.text")
