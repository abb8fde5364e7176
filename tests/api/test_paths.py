"""Whatever is wrong with one argument, the answer says which one it was."""

from __future__ import annotations

import re
from typing import Any

import httpx
import pytest

from supervisor import Supervisor
from supervisor.api.operation import Operation
from supervisor.api.routes import OPERATIONS

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
            # That the file is not there is nothing that could be seen at the door.
            if answer.status_code == 422 and "is not a file" not in answer.text:
                assert answer.json()["paths"], (field.name, bad, answer.text)
                assert field.name in answer.json()["paths"][0]["path"]
