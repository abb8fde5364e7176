"""Hooks where sessions and inputs come in: asked in time, with the right data, and heeded."""

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
    InputRefused,
    Limits,
    NotRunning,
    PermissionDenied,
    Permissions,
    Session,
    SessionNotFound,
    Stop,
    Supervisor,
    SupervisorError,
)
from supervisor.core import events as ev
from supervisor.core.ids import SessionId
from supervisor.sessions.router import SessionRouter
from tests.support.fake_agents import AgentAction, AgentRun, FakeAgent, records, waiting_texts
from tests.support.fake_hooks import RecordingHook, check_stopped_by_hook, hang, refused, slow_hook

# Making a session ---------------------------------------------------------------------------------


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
async def test_a_session_that_is_denied_is_never_made(
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


# Bringing one back --------------------------------------------------------------------------------


@pytest.mark.parametrize("way", ["resume", "send", "prompt"])
async def test_a_stopped_session_comes_back_with_the_consent_of_hooks(
    sup: Supervisor, way: str
) -> None:
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


async def test_a_session_that_stops_while_hooks_look_at_an_input_is_not_brought_back_unasked(
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


# Input --------------------------------------------------------------------------------------------


async def test_input_hooks_run_before_acceptance(sup: Supervisor, session: Session) -> None:
    ask = RecordingHook()
    seen: list[int] = []
    sup.hooks.add("input_submitted", ask)

    async def count(_: HookEvent) -> None:
        seen.append(len(await records(session, "input_accepted")))

    sup.hooks.add("input_submitted", count)
    receipt = await session.send(
        "hello", attachments=[{"a": 1}], when_busy="interrupt", ttl_seconds=60.0
    )

    assert seen == [0]
    assert (ask.only.session_id, ask.only.turn_id) == (session.id, None)
    assert dict(ask.only.data) == {
        "input_id": receipt.input_id,
        "text": "hello",
        "attachments": ({"a": 1},),
        "when_busy": "interrupt",
        "source": "user",
        "ttl_seconds": 60.0,
    }


async def test_steering_is_shown_as_an_input_too(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    ask = RecordingHook()
    sup.hooks.add("input_submitted", ask)
    await session.steer("left")

    assert (ask.only.data["text"], ask.only.data["when_busy"]) == ("left", "steer")


async def test_an_input_of_an_agent_to_its_child_has_source_parent(
    sup: Supervisor, session: Session, run: AgentRun, fake_agent: FakeAgent
) -> None:
    child = await run.do(run.turn.spawn("fake", "errand"))
    ask = RecordingHook()
    sup.hooks.add("input_submitted", ask)
    await run.do(child.send("more"))

    assert (ask.only.session_id, ask.only.data["source"]) == (child.id, "parent")


@pytest.mark.parametrize("way", ["send", "prompt", "steer"])
async def test_a_denied_input_leaves_no_trace(
    sup: Supervisor, session: Session, run: AgentRun, way: str
) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Deny("rude")))
    before = await records(session)
    await refused(getattr(session, way)("secret"), InputRefused, "RecordingHook", "rude")
    await settle()

    assert await records(session) == before
    assert await waiting_texts(session) == []
    assert not run.over.is_set()


async def test_a_denied_input_may_be_sent_again_under_the_same_key(
    sup: Supervisor, session: Session
) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Deny("not yet")), once=True)
    await refused(session.send("hello", idempotency_key="k"), InputRefused)
    receipt = await session.send("hello", idempotency_key="k")

    assert receipt.status == "started"


async def test_a_hook_that_stops_at_an_input_ends_the_session_and_its_turn(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Stop("enough")))
    await refused(session.send("more"), InputRefused, "enough")
    await check_stopped_by_hook(session, "enough")

    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "interrupted"
    assert len(await records(session, "input_accepted")) == 1


async def test_a_hook_shortens_the_time_an_input_may_wait(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Change(ttl_seconds=10.0)))
    receipt = await session.send("later")
    await trio.sleep(11.0)

    (settled,) = [
        one
        for one in await records(session, "input_settled")
        if one.body["input_id"] == receipt.input_id
    ]
    assert settled.body["outcome"] == "expired"


@pytest.mark.parametrize("longer", [61.0, None, -1.0, float("nan"), "1"])
async def test_a_hook_never_makes_an_input_wait_longer(
    sup: Supervisor, session: Session, run: AgentRun, longer: object
) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Change(ttl_seconds=longer)))
    await session.send("later", ttl_seconds=60.0)
    (waiting,) = await session.inputs()

    assert waiting.expires_at == pytest.approx(waiting.accepted_at + 60.0)


async def test_a_hook_cannot_change_the_users_text(sup: Supervisor, session: Session) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Change(text="something else")), required=True)
    await refused(session.send("hello"), InputRefused, "text")


async def test_steering_of_an_idle_session_is_still_refused_as_such(
    sup: Supervisor, session: Session
) -> None:
    sup.hooks.add("input_submitted", RecordingHook())
    await refused(session.steer("left"), NotRunning)


async def test_a_repeated_send_is_answered_from_the_record_whatever_hooks_say_now(
    sup: Supervisor, session: Session
) -> None:
    receipt = await session.send("hello", idempotency_key="k")
    ask = RecordingHook(Deny("too late"))
    sup.hooks.add("input_submitted", ask)

    assert await session.send("hello", idempotency_key="k") == receipt


async def test_the_text_that_replaces_a_turn_is_an_input_like_any_other(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    ask = RecordingHook(Deny("rude"))
    sup.hooks.add("input_submitted", ask)
    await refused(session.interrupt(replace_with="secret"), InputRefused, "rude")

    assert ask.texts == ["secret"]
    assert not run.over.is_set()


async def test_an_edited_input_is_looked_at_again(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    receipt = await session.send("please")
    sup.hooks.add("input_submitted", RecordingHook(Deny("rude")))
    await refused(session.edit_input(receipt.input_id, "secret"), InputRefused, "rude")

    assert await waiting_texts(session) == ["please"]


async def test_inputs_that_pass_slow_hooks_side_by_side_are_each_accepted_once(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("input_submitted", slow_hook(1.0))
    began = trio.current_time()
    async with trio.open_nursery() as nursery:
        for number in range(5):
            nursery.start_soon(session.send, str(number))

    assert sorted(await waiting_texts(session)) == ["0", "1", "2", "3", "4"]
    assert trio.current_time() - began == pytest.approx(1.0)


async def test_an_input_of_an_unknown_session_reaches_no_hook(sup: Supervisor) -> None:
    ask = RecordingHook()
    sup.hooks.add("input_submitted", ask)
    await refused(sup.session("s_nobody").send("hello"), SessionNotFound)

    assert ask.events == []


async def test_stopping_a_session_does_not_wait_for_an_input_that_hooks_look_at(
    sup: Supervisor, session: Session, nursery: trio.Nursery
) -> None:
    sup.hooks.add("input_submitted", hang)
    nursery.start_soon(session.send, "hello")
    await trio.sleep(1.0)
    began = trio.current_time()
    await session.stop()

    assert trio.current_time() - began < 1.0


# By other ways --------------------------------------------------------------------------------


async def test_the_input_that_replaces_a_turn_has_the_id_that_hooks_were_shown(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    ask = RecordingHook()
    sup.hooks.add("input_submitted", ask)
    await session.interrupt(replace_with="instead")
    accepted = (await records(session, "input_accepted"))[-1]

    assert (ask.only.data["input_id"], accepted.body["text"]) == (
        accepted.body["input_id"],
        "instead",
    )


async def test_an_edited_input_is_shown_under_its_own_id(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    receipt = await session.send("please")
    ask = RecordingHook()
    sup.hooks.add("input_submitted", ask)
    await session.edit_input(receipt.input_id, "pretty please")

    assert ask.only.data["input_id"] == receipt.input_id


async def test_a_hook_may_shorten_the_ttl_of_a_replacement(
    sup: Supervisor, shielded_session: Session, shielded_run: AgentRun
) -> None:
    sup.hooks.add("input_submitted", RecordingHook(Change(ttl_seconds=10.0)))
    await shielded_session.interrupt(replace_with="instead")
    (waiting,) = await shielded_session.inputs()

    assert waiting.expires_at == pytest.approx(waiting.accepted_at + 10.0)


async def test_an_input_to_a_stopping_session_does_not_resume_it_without_hooks(
    sup: Supervisor, shielded_session: Session, shielded_run: AgentRun, nursery: trio.Nursery
) -> None:
    sup.hooks.add("session_resume", RecordingHook(Deny("stay")))
    nursery.start_soon(shielded_session.stop)
    await trio.sleep(1.0)
    with pytest.raises(SupervisorError):
        await shielded_session.send("again")
    await trio.sleep(100.0)

    assert (await shielded_session.info()).phase == "stopped"


async def test_an_interrupt_without_text_calls_no_hook(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    sup.hooks.add("input_submitted", hang)
    report = await session.interrupt()

    assert (report.stopped, report.seconds) == (1, 0.0)


@pytest.mark.parametrize(
    "text", [5, "", "x" * 100_000, "\ud800"], ids=["int", "blank", "long", "half"]
)
async def test_an_invalid_input_reaches_no_hook(
    sup: Supervisor, session: Session, text: object
) -> None:
    ask = RecordingHook()
    sup.hooks.add("input_submitted", ask)
    with pytest.raises(SupervisorError):
        await session.send(text)  # type: ignore[arg-type]

    assert ask.events == []
