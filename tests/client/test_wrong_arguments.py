"""Wrong values for every argument: the same errors in both APIs."""

from __future__ import annotations

import inspect
import math
from collections.abc import Awaitable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

import supervisor
from supervisor import SupervisorError
from tests.support.served_supervisor import Kind, Session, Sup, opened

from .test_same_signatures import names, told

# What no argument can be, and what one cannot be that is said to be of such a type.
WRONG: list[object] = [object(), b"bytes", {5: "a"}, "\ud800"]
WRONG_AS: dict[str, list[object]] = {
    "int": ["x", True, -1, math.nan],
    "float": ["x", True, 10**30, math.nan],
    "str": [5, ""],
    "bool": ["x", 5],
    "Literal": ["x", 5],
    "Sequence": ["x", 5, [5]],
    "Mapping": ["x", [], {"a": 5}],
    "Limits": [{}, {"wings": 2}],
}


def wrong(annotation: str) -> Iterator[object]:
    yield from WRONG
    for word, values in WRONG_AS.items():
        if word in annotation:
            yield from values


METHODS = [
    (kind, method)
    for kind in (supervisor.Supervisor, supervisor.Session)
    for method in sorted(names(kind) - {"id"})
]


def parameters(kind: type, method: str) -> list[inspect.Parameter]:
    return list(inspect.signature(getattr(kind, method)).parameters.values())[1:]


def needed_by(kind: type, method: str) -> list[str]:
    return [
        one.name
        for one in parameters(kind, method)
        if one.default is one.empty and one.kind is not one.VAR_KEYWORD
    ]


def arguments_of(kind: type, method: str) -> Iterator[tuple[str, str]]:
    """Its arguments and the options that it takes, each with its annotation."""
    for one in parameters(kind, method):
        if one.kind is not one.VAR_KEYWORD:
            yield one.name, str(one.annotation)
            continue
        for name, annotation in supervisor.Options.__annotations__.items():
            yield name, str(annotation)


@attrs.frozen
class Scene:
    """A busy session with a request and a queued input, and a suspended session."""

    sup: Sup
    busy: Session
    idle: Session
    right: dict[str, Any]

    def of(self, kind: type, method: str) -> Sup | Session:
        if kind is supervisor.Supervisor:
            return self.sup
        return self.idle if method in ("append", "prompt") else self.busy


async def scene_in(sup: Sup) -> Scene:
    busy, idle = await sup.create("scripted"), await sup.create("echo")
    await busy.send("ask rm")
    waiting = await busy.send("say hello")
    while not (requests := await sup.permissions()):
        await trio.lowlevel.checkpoint()
    right = {
        "agent": "echo",
        "text": "hello",
        "key": "echo:mail:anna",
        "id": idle.id,
        "path": "/nonexistent/file",
        "request_id": requests[0].id,
        "decision": "allow_once",
        "input_id": waiting.input_id,
        "position": 0,
        "role": "user",
        "at": 1,
        "rule_id": "r_nothing",
        "seq": 1,
    }
    return Scene(sup, busy, idle, right)


async def came_of(scene: Scene, kind: type, method: str, given: dict[str, Any]) -> object:
    try:
        asked = getattr(scene.of(kind, method), method)(**given)
        if isinstance(asked, AbstractAsyncContextManager):
            async with asked:
                pass
        elif isinstance(asked, Awaitable):
            await asked
    except SupervisorError as error:
        return told(error)
    return "it was taken"


async def all_mistakes(kind: Kind, folder: Path) -> dict[str, object]:
    """Return the outcome of each wrong value, by call."""
    said: dict[str, object] = {}
    await trio.Path(folder).mkdir()
    async with opened(kind, folder, settings=supervisor.Settings(exit_seconds=0.0)) as sup:
        scene = await scene_in(sup)
        for owner, method in METHODS:
            needed = {name: scene.right[name] for name in needed_by(owner, method)}
            for argument, annotation in arguments_of(owner, method):
                for value in wrong(annotation):
                    call = f"{owner.__name__}.{method}({argument}={value!a:.40})"
                    given = {**needed, argument: value}
                    said[call] = await came_of(scene, owner, method, given)
    return said


async def test_wrong_arguments_raise_the_same_errors_in_both_apis(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(folder)  # should one of them be taken for the name of a file
    embedded = await all_mistakes("embedded", folder / "embedded")
    remote = await all_mistakes("briefly", folder / "briefly")

    assert len(embedded) > 1_000
    for call, said in embedded.items():
        assert remote[call] == said, call
