"""Every public method is called in both APIs, and the answers are equal.

Ids and times are another's each time: ids are named by the order in which they come, of a time only
that it is one is compared.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import attrs
import pytest
import trio

import supervisor
from supervisor import (
    Limits,
    Permissions,
    Restart,
    SessionKey,
    Settings,
    Snapshot,
    ToolCall,
    TurnScope,
)
from tests.support.served_supervisor import KINDS, Kind, Session, Sup, opened, seen

from .test_same_signatures import names

TIMES = {"at", "seconds", "accepted_at", "asked_at", "created_at", "updated_at", "last_active_at"}
TIMES |= {"expires_at", "wall_seconds", "bytes", "snippet", "pid"}
TIMES |= {"waiting_since", "turn_started_at"}
KEY = SessionKey("echo", "mail", "anna")


class Told:
    """What was answered, by the method that was asked."""

    def __init__(self, folder: Path) -> None:
        self.answers: dict[str, list[Any]] = {}
        self._folder = str(folder)
        self._ids: dict[str, str] = {}

    def note(self, method: str, answer: Any) -> Any:  # noqa: ANN401 - whatever it is
        self.answers.setdefault(method, []).append(self.plain(answer))
        return answer

    async def ask(self, method: str, work: Awaitable[Any]) -> Any:  # noqa: ANN401 - as above
        answer = await work
        self.note(method, answer)
        return answer

    def plain(self, thing: Any, name: str = "") -> Any:  # noqa: ANN401, PLR0911 - as above
        """Return the value with its types, without ids that differ between runs."""
        if name in TIMES:
            return type(thing).__name__
        if isinstance(thing, Session):
            return "a session", self.plain(thing.id)
        if isinstance(thing, str):
            text = re.sub(r"(\d{4}-\d\d-\d\d )?\d\d:\d\d:\d\d|\d+\.\d+ s\b", "TIME", thing)
            text = text.replace(self._folder, "FOLDER")
            ids = r"\b(?:s|in|turn|call|req)_[a-z0-9]{12}\b"
            return type(thing).__name__, re.sub(ids, self._named, text)
        if attrs.has(type(thing)):
            fields = {one.name: getattr(thing, one.name) for one in attrs.fields(type(thing))}
            return type(thing).__name__, self.plain(fields)
        if isinstance(thing, dict):
            return {str(self.plain(key)): self.plain(one, key) for key, one in thing.items()}
        if isinstance(thing, list | tuple):
            return type(thing).__name__, [self.plain(one) for one in thing]
        if isinstance(thing, frozenset):
            return "frozenset", sorted(thing)
        return type(thing).__name__, thing

    def _named(self, found: re.Match[str]) -> str:
        return self._ids.setdefault(found[0], f"id {len(self._ids)}")


async def the_life_of_one(sup: Sup, told: Told) -> Session:
    note, ask = told.note, told.ask
    session: Session = await ask(
        "create",
        sup.create(
            "scripted",
            name="one",
            title="The first",
            tags=["a", "b"],
            custom={"colour": "red"},
            limits=Limits(max_children=2),
            permissions=Permissions(tools=frozenset({"bash", "read"})),
            restart=Restart(policy="never"),
            idempotency_key="k",
        ),
    )
    await ask("prompt", session.prompt("say hello\nuse 12\nthink hm\ntool bash 0"))
    asked = await ask("send", session.send("ask bash\ntool read 60", idempotency_key="s"))
    await ask("send", session.send("ask bash\ntool read 60", idempotency_key="s"))
    await ask("input", session.input(asked.input_id))
    await seen(session, "permission_asked")
    (request,) = await ask("permissions", sup.permissions())
    await ask("answer", sup.answer(request.id, "allow_always"))
    with pytest.raises(supervisor.PermissionConflict) as refused:
        await sup.answer_question(request.id, "a text")
    note("answer_question", refused.value.hint)
    call = await seen(session, "tool_call", after=(await seen(session, "permission_answered")).seq)
    await ask("steer", session.steer("shorter"))
    later = await ask("send", session.send("say later"))
    other = await ask("send", session.send("say other"))
    await ask("inputs", session.inputs())
    await ask("edit_input", session.edit_input(later.input_id, "say sooner"))
    await ask("move_input", session.move_input(other.input_id, 0))
    await ask("promote_input", session.promote_input(other.input_id))
    await ask("cancel_input", session.cancel_input(later.input_id))
    await ask("inputs", session.inputs())
    note("why", str(await session.why()))
    report = await session.interrupt(ToolCall(call.body["call_id"]), reason="enough")
    note("interrupt", report)
    await ask("result", session.result(asked.input_id))
    await ask("interrupt", session.interrupt(TurnScope(asked.turn_id or "")))
    rules = await ask("rules", session.rules())
    await ask("remove_rule", session.remove_rule(rules[0].id))
    await ask("set", session.set(title="Another", tags=[], limits={"max_depth": 1}))
    await settled(session)
    await ask("info", session.info())
    await ask("transcript", session.transcript())
    return session


async def settled(session: Session) -> None:
    """Wait until nothing is left to be done."""
    while (await session.info()).phase != "idle" or await session.inputs():  # noqa: ASYNC110
        await trio.sleep(0.005)


async def its_end_and_beyond(sup: Sup, session: Session, told: Told, folder: Path) -> None:
    note, ask = told.note, told.ask
    child = await ask("spawn", session.spawn("echo", "go", role="helper", tags=["c"]))
    await ask("wait", child.wait())
    note("wait_idle", (await child.wait_idle()).phase)
    await seen(session, "child_ended")
    await ask("tree", sup.tree(session.id))
    fork = await ask("fork", session.fork())
    await ask("append", fork.append("user", "by hand"))
    await ask("clear", fork.clear())
    await ask("stop", session.stop())
    note("wait_stopped", (await session.wait_stopped()).phase)
    await ask("repair", session.repair())
    await ask("replay", session.replay(3))
    await ask("seen", session.seen(3))
    note("history", [(turn.turn_id, len(turn.records)) for turn in await session.history()])
    await ask("export", session.export("markdown", redact=True))
    path = folder / "out.jsonl"
    path.write_text(await session.export("jsonl"))
    await ask("import_", sup.import_(path, agent="echo"))
    await ask("archive", session.archive())
    await ask("unarchive", session.unarchive())
    await ask("resume", session.resume())
    await ask("info", session.info())


async def the_house(sup: Sup, told: Told, folder: Path) -> None:
    note, ask = told.note, told.ask
    keyed = await ask("get_or_create", sup.get_or_create(KEY, tags=["x"]))
    note("get_or_create", (await sup.get_or_create(str(KEY))) == keyed)
    newer = await ask("new", sup.new(KEY))
    await ask("reset", sup.reset(KEY))
    await ask("get", sup.get(newer.id))
    await ask("resolve", sup.resolve(newer.id[2:], "session"))
    note("session", sup.session(newer.id))
    note("id", newer.id)
    note("exists", [await sup.exists(newer.id), await sup.exists("s_none")])
    await ask("list", sup.list(agent="echo", limit=2))
    note("list", (await sup.list(limit=5_000)).next)
    note("search", (await sup.search("hello")).items)
    note("backup", type(await sup.backup(folder / "copy.db")))
    await ask("delete", sup.delete(newer.id))
    await ask("cleanup", sup.cleanup(older_than_seconds=0.0, dry_run=True))
    await ask("stats", sup.stats())
    await ask("agents", sup.agents())
    async with sup.watch() as everything:
        async for record in everything:
            note("watch", (record.kind, everything.position))
            if everything.position == 20:
                break
    async with keyed.watch(after=1) as feed:
        note("watch", [(await anext(feed)).kind for _ in range(2)])
    async with sup.watch_sessions([keyed.id]) as rows:
        snapshot = await anext(rows)
        assert isinstance(snapshot, Snapshot)
        note("watch_sessions", (snapshot.rows, snapshot.requests, snapshot.store))
    await ask("drain", sup.drain())


async def tell(kind: Kind, folder: Path) -> dict[str, list[Any]]:
    told = Told(folder)
    await trio.Path(folder).mkdir()
    async with opened(kind, folder, settings=Settings(exit_seconds=1.0)) as sup:
        session = await the_life_of_one(sup, told)
        await its_end_and_beyond(sup, session, told, folder)
        await the_house(sup, told, folder)
    return told.answers


async def test_every_method_returns_the_same_in_both_apis(folder: Path) -> None:
    embedded, *others = [await tell(kind, folder / kind) for kind in KINDS]

    assert set(embedded) == names(supervisor.Supervisor) | names(supervisor.Session)
    for method, answers in embedded.items():
        assert [other[method] for other in others] == [answers] * 3, method
