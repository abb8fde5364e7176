"""The same methods, parameters and errors in both APIs."""

from __future__ import annotations

import inspect
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import trio

import supervisor
from supervisor import SupervisorError
from supervisor.client import RemoteSession, RemoteSupervisor
from tests.support.served_supervisor import KINDS, Kind, Session, Sup, opened

PAIRS = [(supervisor.Supervisor, RemoteSupervisor), (supervisor.Session, RemoteSession)]
# What another process cannot be given; and what the daemon does by itself.
ONLY_EMBEDDED = {"hooks", "introspect", "reload", "tool_access"}


def names(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")} - ONLY_EMBEDDED


@pytest.mark.parametrize(("embedded", "remote"), PAIRS)
def test_the_client_has_every_public_method(embedded: type, remote: type) -> None:
    assert names(remote) == names(embedded)


@pytest.mark.parametrize(("embedded", "remote"), PAIRS)
def test_every_method_has_the_same_parameters(embedded: type, remote: type) -> None:
    for name in names(embedded):
        if callable(getattr(embedded, name)):
            theirs = inspect.signature(getattr(embedded, name)).parameters
            ours = inspect.signature(getattr(remote, name)).parameters
            assert list(map(str, ours.values())) == list(map(str, theirs.values())), name


async def test_tags_may_be_any_iterable(kind: Kind, folder: Path) -> None:
    async with opened(kind, folder) as sup:
        session = await sup.create("echo", tags=(tag for tag in "ab"))  # type: ignore[arg-type]
        await session.set(tags={"c": 1}.keys())  # type: ignore[arg-type]

        assert (await session.info()).tags == ("c",)


Ask = Callable[[Sup, Session], Awaitable[Any]]

# Mistakes that raise the same error on both sides, word for word.
MISTAKES: dict[str, Ask] = {
    "agent unknown": lambda sup, _: sup.create("nobody"),
    "agent blank": lambda sup, _: sup.create(" "),
    "agent of a key blank": lambda sup, _: sup.get_or_create("echo:a:b", agent=""),
    "agent no text": lambda sup, _: sup.create(5),  # type: ignore[arg-type]
    "key short": lambda sup, _: sup.create("echo", key="a:b"),
    "key no text": lambda sup, _: sup.get_or_create(7),  # type: ignore[arg-type]
    "tags no list": lambda sup, _: sup.create("echo", tags="abc"),
    "cap too high": lambda sup, _: sup.create("echo", queue_cap=5000),
    "word unknown": lambda sup, _: sup.create("echo", steer_fallback="x"),  # type: ignore[arg-type]
    "limits no limits": lambda sup, _: sup.create("echo", limits={"turns": 1}),  # type: ignore[arg-type]
    "custom no mapping": lambda sup, _: sup.create("echo", custom=[]),  # type: ignore[arg-type]
    "seconds beyond 64 bits": lambda sup, _: sup.create("echo", quiet_after_seconds=10**30),
    "option unknown": lambda sup, _: sup.new("echo:a:b", wings=None),  # type: ignore[call-arg]
    "session unknown": lambda sup, _: sup.get("s_nobody"),
    "session no id": lambda sup, _: sup.get("../etc"),
    "delete unknown": lambda sup, _: sup.delete("s_nobody"),
    "reset unknown": lambda sup, _: sup.reset("echo:a:b"),
    "list badly": lambda sup, _: sup.list(limit=0),
    "list cursor": lambda sup, _: sup.list(cursor="what"),
    "list no text": lambda sup, _: sup.list(agent=5),  # type: ignore[arg-type]
    "list phase": lambda sup, _: sup.list(phase="bored"),
    "list number as text": lambda sup, _: sup.list(limit="5"),  # type: ignore[arg-type]
    "list tag no text": lambda sup, _: sup.list(tag=5),  # type: ignore[arg-type]
    "list half": lambda sup, _: sup.list(text="\ud800"),
    "tree unknown": lambda sup, _: sup.tree("s_nobody"),
    "search blank": lambda sup, _: sup.search(" "),
    "search half": lambda sup, _: sup.search("\ud800"),
    "search no text": lambda sup, _: sup.search(5),  # type: ignore[arg-type]
    "search session": lambda sup, _: sup.search("x", session="../etc"),
    "answer unknown": lambda sup, _: sup.answer("r_nothing", "allow_once"),
    "answer no id": lambda sup, _: sup.answer("no such thing", "allow_once"),
    "import nothing": lambda sup, _: sup.import_("/nonexistent/file"),
    "import format": lambda sup, _: sup.import_("/dev/null", "yaml"),  # type: ignore[arg-type]
    "backup nowhere": lambda sup, _: sup.backup("/nonexistent/folder/copy.db"),
    "cleanup badly": lambda sup, _: sup.cleanup(keep_last=-1),
    "text blank": lambda _, session: session.send("  "),
    "text too large": lambda _, session: session.send("x" * 70_000),
    "text no text": lambda _, session: session.send(5),  # type: ignore[arg-type]
    "text half": lambda _, session: session.send("\ud800"),
    "attachments none": lambda _, session: session.send("x", attachments=None),  # type: ignore[arg-type]
    "ttl no number": lambda _, session: session.send("x", ttl_seconds="1"),  # type: ignore[arg-type]
    "spawn ttl": lambda _, session: session.spawn("echo", "x", ttl_seconds=0),
    "ttl below": lambda _, session: session.send("x", ttl_seconds=-1),
    "when unknown": lambda _, session: session.send("x", when_busy="never"),  # type: ignore[arg-type]
    "steer idle": lambda _, session: session.steer("x"),
    "result unknown": lambda _, session: session.result("in_nothing"),
    "result no id": lambda _, session: session.result("no such thing"),
    "edit unknown": lambda _, session: session.edit_input("in_nothing", "x"),
    "move unknown": lambda _, session: session.move_input("in_nothing", 0),
    "move below": lambda _, session: session.move_input("in_nothing", -1),
    "cancel unknown": lambda _, session: session.cancel_input("in_nothing"),
    "spawn unknown": lambda _, session: session.spawn("nobody", "x"),
    "spawn blank": lambda _, session: session.spawn("echo", " "),
    "replace with nothing": lambda _, session: session.interrupt(replace_with=" "),
    "edit strangely": lambda _, session: session.edit_input("\x1b[2J", "x"),
    "rule strangely": lambda _, session: session.remove_rule("\x1b[2J"),
    "fork strangely": lambda _, session: session.fork(at_turn=5),  # type: ignore[arg-type]
    "fork nameless": lambda _, session: session.fork(name=" "),
    "scope unknown": lambda _, session: session.interrupt("world"),  # type: ignore[arg-type]
    "stop when": lambda _, session: session.stop(when="later"),  # type: ignore[arg-type]
    "resume other": lambda sup, _: sup.session("s_nobody").resume(),
    "append role": lambda _, session: session.append("cat", "x"),  # type: ignore[arg-type]
    "archive live": lambda _, session: session.archive(),
    "set limits": lambda _, session: session.set(limits={"wings": 2}),
    "set title": lambda _, session: session.set(title=""),
    "rule unknown": lambda _, session: session.remove_rule("r_nothing"),
    "export format": lambda _, session: session.export("pdf"),  # type: ignore[arg-type]
    "replay none": lambda _, session: session.replay(0),
    "replay far": lambda _, session: session.replay(9999),
    "fork turn": lambda _, session: session.fork(at_turn="turn_nothing"),
    "repair live": lambda _, session: session.repair(),
}


def told(error: SupervisorError) -> dict[str, str]:
    """Return the text of an error without ids, which differ between runs."""
    return {
        "class": type(error).__name__,
        "code": error.code,
        "words": re.sub(r"\b(?:s|in|turn|call|req)_[a-z0-9]{12}\b", "ID", str(error.args[0])),
        "hint": error.hint,
    }


async def mistaken(kind: Kind, folder: Path) -> dict[str, dict[str, str]]:
    """Return the error of each wrong call."""
    raised: dict[str, dict[str, str]] = {}
    await trio.Path(folder).mkdir()
    async with opened(kind, folder) as sup:
        session = await sup.create("echo")
        for mistake, make in MISTAKES.items():
            with pytest.raises(SupervisorError) as caught:
                await make(sup, session)
            raised[mistake] = told(caught.value)
    return raised


async def test_every_wrong_call_raises_the_same_error(folder: Path) -> None:
    embedded, *others = [await mistaken(kind, folder / kind) for kind in KINDS]

    for mistake, error in embedded.items():
        assert [other[mistake] for other in others] == [error] * len(others), mistake
        assert error["hint"]
        assert error["words"].isprintable()


async def test_hooks_are_not_available_in_the_client(folder: Path) -> None:
    async with opened("remote", folder) as sup:
        with pytest.raises(supervisor.ConfigError, match="cannot be sent"):
            sup.hooks  # noqa: B018 - that it is asked for is the point
