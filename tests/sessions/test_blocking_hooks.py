"""Blocking hooks before a session is created or resumed."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio

from actors.testing import settle
from supervisor import (
    Change,
    Deny,
    HookEvent,
    Limits,
    PermissionDenied,
    Permissions,
    Session,
    Stop,
    Supervisor,
    SupervisorError,
)
from supervisor.core import events as ev
from supervisor.core.ids import SessionId
from supervisor.sessions.router import SessionRouter
from tests.support.fake_agents import AgentAction, FakeAgent, records
from tests.support.fake_hooks import RecordingHook, check_stopped_by_hook, refused, slow_hook

# Making a session -----------------------------------------------------------------------


async def test_the_session_create_hook_gets_every_option(sup: Supervisor) -> None:
    ask = RecordingHook()
    sup.hooks.add("session_create", ask)
    rights = Permissions(tools=["bash"], mode="deny_all")
    await sup.create(
        "fake",
        key="fake:web:ann",
        name="n",
        title="t",
        tags=["x"],
        custom={"a": "b"},
        workspace="/tmp",  # noqa: S108 - nothing is written
        limits=Limits(turns=7),
        permissions=rights,
    )

    assert (ask.only.session_id, ask.only.turn_id) == (None, None)
    assert dict(ask.only.data) == {
        "agent": "fake",
        "key": "fake:web:ann",
        "name": "n",
        "title": "t",
        "tags": ("x",),
        "custom": {"a": "b"},
        "workspace": "/tmp",  # noqa: S108
        "limits": Limits(turns=7),
        "permissions": rights,
    }


async def test_a_hook_may_change_the_options_of_a_new_session(sup: Supervisor) -> None:
    narrow = Permissions(tools=["read"], mode="deny_all")
    change = Change(
        name="N",
        title="T",
        tags=["a", "b"],
        custom={"k": "v"},
        limits=Limits(max_children=1),
        permissions=narrow,
    )
    sup.hooks.add("session_create", RecordingHook(change))
    info = await (await sup.create("fake", name="n")).info()

    assert (info.name, info.title, info.tags, info.custom) == ("N", "T", ("a", "b"), {"k": "v"})
    assert (info.limits.max_children, info.permissions) == (1, narrow)


async def test_a_hook_sees_the_changes_of_the_previous_hook(sup: Supervisor) -> None:
    second = RecordingHook()
    sup.hooks.add("session_create", RecordingHook(Change(name="one")))
    sup.hooks.add("session_create", second)
    await sup.create("fake")

    assert second.only.data["name"] == "one"


@pytest.mark.parametrize(
    "more",
    [
        Change(limits=Limits(max_children=50)),
        Change(limits=Limits(turns=11)),
        Change(limits=Limits(turns=None)),
        Change(permissions=Permissions(tools=["bash", "rm"])),
        Change(permissions=Permissions(tools=["bash"], mode="approve_all")),
        Change(agent="echo"),
        Change(tags="not a list"),
        "yes",
    ],
    ids=str,
)
@pytest.mark.parametrize("required", [False, True])
async def test_a_hook_never_widens_a_new_session(
    sup: Supervisor, more: object, *, required: bool
) -> None:
    sup.hooks.add("session_create", RecordingHook(more), required=required)
    limits, rights = Limits(turns=10), Permissions(tools=["bash"], mode="approve_reads")
    make = sup.create("fake", limits=limits, permissions=rights)
    if required:
        await refused(make, PermissionDenied, "required")
        return
    info = await (await make).info()

    assert (info.limits, info.permissions, info.agent) == (limits, rights, "fake")


@pytest.mark.parametrize("no", [Deny("not today"), Stop("not today")], ids=["deny", "stop"])
@pytest.mark.parametrize("way", ["create", "get_or_create", "new", "fork"])
async def test_a_denied_session_is_never_created(
    sup: Supervisor, session: Session, no: object, way: str
) -> None:
    sup.hooks.add("session_create", RecordingHook(no))
    key = "fake:web:ann"
    work: dict[str, Callable[[], Awaitable[object]]] = {
        "create": lambda: sup.create("fake", key=key),
        "get_or_create": lambda: sup.get_or_create(key),
        "new": lambda: sup.new(key),
        "fork": session.fork,
    }
    await refused(work[way](), PermissionDenied, "RecordingHook", "not today")

    assert [info.id for info in (await sup.list()).items] == [session.id]
    assert sup._parts.admission.tree.live == {session.id}


async def test_a_key_is_free_again_after_its_session_was_denied(sup: Supervisor) -> None:
    hook = sup.hooks.add("session_create", RecordingHook(Deny("no")), once=True)
    await refused(sup.create("fake", key="fake:web:ann"), PermissionDenied)
    made = await sup.get_or_create("fake:web:ann")

    assert hook.is_removed
    assert (await made.info()).phase == "idle"


async def test_the_holder_of_a_key_stays_when_its_replacement_is_denied(sup: Supervisor) -> None:
    old = await sup.create("fake", key="fake:web:ann")
    sup.hooks.add("session_create", RecordingHook(Deny("no")))
    await refused(sup.new("fake:web:ann"), PermissionDenied)

    assert (await old.info()).phase == "idle"
    assert (await sup.get_or_create("fake:web:ann")).id == old.id


async def test_get_or_create_of_an_existing_session_calls_no_hook(sup: Supervisor) -> None:
    ask = RecordingHook()
    sup.hooks.add("session_create", ask)
    for _ in range(3):
        await sup.get_or_create("fake:web:ann")
        await sup.create("fake", idempotency_key="once")

    assert len(ask.events) == 2


async def test_a_thousand_concurrent_creates_of_a_key_call_the_hook_once(sup: Supervisor) -> None:
    ask = RecordingHook()
    sup.hooks.add("session_create", ask)
    sup.hooks.add("session_create", slow_hook(1.0))
    async with trio.open_nursery() as nursery:
        for _ in range(1000):
            nursery.start_soon(sup.get_or_create, "fake:web:ann")

    assert len(ask.events) == 1


async def test_a_caller_cancelled_during_hooks_leaves_no_partial_session(
    sup: Supervisor,
) -> None:
    sup.hooks.add("session_create", slow_hook(2.0))
    with trio.move_on_after(1.0):
        await sup.create("fake", key="fake:web:ann")
    made = await sup.get_or_create("fake:web:ann")

    assert [info.id for info in (await sup.list()).items] == [made.id]
    assert (await made.info()).phase == "idle"


# Bringing one back ----------------------------------------------------------------------


@pytest.mark.parametrize("way", ["resume", "send", "prompt"])
async def test_resuming_a_session_needs_the_consent_of_hooks(sup: Supervisor, way: str) -> None:
    ask = RecordingHook()
    session = await sup.create("echo")
    sup.hooks.add("session_resume", ask)
    await session.stop()
    await (session.resume() if way == "resume" else getattr(session, way)("again"))

    assert ask.only.session_id == session.id
    assert dict(ask.only.data) == {"agent": "echo", "reason": "user_cancelled"}
    assert (await session.info()).phase != "stopped"


@pytest.mark.parametrize("no", [Deny("stay"), Stop("stay")], ids=["deny", "stop"])
@pytest.mark.parametrize("way", ["resume", "send", "prompt"])
async def test_a_resume_denied_by_a_hook_leaves_the_session_stopped(
    sup: Supervisor, session: Session, no: object, way: str
) -> None:
    sup.hooks.add("session_resume", RecordingHook(no))
    await session.stop()
    before = await records(session)
    await refused(
        session.resume() if way == "resume" else getattr(session, way)("again"),
        PermissionDenied,
        "RecordingHook",
        "stay",
    )

    assert await records(session) == before
    assert (await session.info()).stop_reason == "user_cancelled"


async def test_resume_of_a_live_session_calls_no_hook(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    ask = RecordingHook()
    sup.hooks.add("session_resume", ask)
    await session.resume()
    await session.send("one")
    await session.send("two")
    await session.stop()
    with pytest.raises(SupervisorError):
        await session.send("three", if_stopped="reject")

    assert ask.events == []


async def test_an_input_in_hooks_does_not_resume_a_stopping_session(
    sup: Supervisor, session: Session, nursery: trio.Nursery
) -> None:
    ask = RecordingHook(Deny("stay"))
    sup.hooks.add("session_resume", ask)
    sup.hooks.add("input_submitted", slow_hook(2.0))
    action = AgentAction(session.send("hello"))
    nursery.start_soon(action.run)
    await trio.sleep(1.0)
    await session.stop()
    await refused(action.wait(), PermissionDenied)

    assert (await session.info()).phase == "stopped"


@pytest.mark.parametrize("way", ["resume", "send"])
@pytest.mark.parametrize("answer", [None, Deny("stay")], ids=["yes", "no"])
async def test_a_session_that_stops_before_delivery_is_not_resumed_without_hooks(
    sup: Supervisor, monkeypatch: pytest.MonkeyPatch, way: str, answer: object
) -> None:
    hook = RecordingHook(answer)
    sup.hooks.add("session_resume", hook)
    session = await sup.create("echo")
    real = SessionRouter.ask

    async def ask(
        self: SessionRouter,
        session_id: SessionId,
        event: ev.Event,
        **how: Any,  # noqa: ANN401
    ) -> object:
        if isinstance(event, ev.ResumeRequested | ev.InputSubmitted) and not hook.events:
            await session.stop()
        return await real(self, session_id, event, **how)

    monkeypatch.setattr(SessionRouter, "ask", ask)
    coming_back = session.resume() if way == "resume" else session.send("hello")
    if answer is None:
        await coming_back
    else:
        await refused(coming_back, PermissionDenied, "stay")

    assert hook.only.session_id == session.id
    assert ((await session.info()).phase == "stopped") is (answer is not None)


async def test_a_denying_hook_stops_a_session_resumed_concurrently(
    sup: Supervisor, session: Session, nursery: trio.Nursery
) -> None:
    first, *_ = answers = [AgentAction(session.resume()), AgentAction(session.resume())]
    says = iter([slow_hook(2.0, Stop("not this one")), slow_hook(1.0)])

    def answer(event: HookEvent) -> object:
        return next(says)(event)

    sup.hooks.add("session_resume", answer)
    await session.stop()
    for action in answers:
        nursery.start_soon(action.run)
        await settle()
    await answers[1].wait()
    await refused(first.wait(), PermissionDenied)

    await check_stopped_by_hook(session, "not this one")
