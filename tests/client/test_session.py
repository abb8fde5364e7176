"""Methods of a session, with the embedding API and with the client."""

import sqlite3
from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import TurnScope
from tests.support.served_supervisor import Kind, Sup, busy, opened, seen


async def test_a_prompt_is_answered(sup: Sup) -> None:
    session = await sup.create("echo")

    result = await session.prompt("hello")

    assert (result.text, result.outcome) == ("hello", "completed")


async def test_a_receipt_has_the_input_position(sup: Sup) -> None:
    session = await busy(sup)

    receipt = await session.send("next")

    assert (receipt.status, receipt.position, receipt.session_id) == ("queued", 0, session.id)


async def test_a_result_can_be_fetched_later(sup: Sup) -> None:
    session = await sup.create("echo")
    receipt = await session.send("hello")

    assert (await session.result(receipt.input_id)).text == "hello"
    assert (await session.result(receipt.input_id)).text == "hello"


async def test_the_queue_can_be_listed_and_changed(sup: Sup) -> None:
    session = await busy(sup)
    first, second = [await session.send(text) for text in ("one", "two")]

    await session.edit_input(first.input_id, "uno")
    await session.move_input(second.input_id, 0)

    assert [(one.text, one.position) for one in await session.inputs()] == [("two", 0), ("uno", 1)]
    await session.cancel_input(first.input_id)
    assert [one.text for one in await session.inputs()] == ["two"]


async def test_a_queued_input_can_be_promoted_to_steering(sup: Sup) -> None:
    session = await busy(sup)
    waiting = await session.send("hurry")

    receipt = await session.promote_input(waiting.input_id)

    assert receipt.status == "staged"


async def test_a_turn_can_be_steered(kind: Kind, folder: Path) -> None:
    @supervisor.agent("listener")
    async def listener(turn: supervisor.Turn) -> str:
        while not (notes := turn.steering()):  # noqa: ASYNC110 - that is how agents look
            await trio.sleep(0.001)
        return notes[0]

    async with opened(kind, folder, agents=[listener]) as sup:
        session = await sup.create("listener")
        asked = await session.send("go")

        receipt = await session.steer("shorter, please")

        assert receipt.status == "staged"
        assert (await session.result(asked.input_id)).text == "shorter, please"
        assert (await session.result(receipt.input_id)).text == "shorter, please"


async def test_an_input_that_was_cancelled_has_no_result(sup: Sup) -> None:
    session = await busy(sup)
    receipt = await session.send("next")
    await session.cancel_input(receipt.input_id)

    with pytest.raises(supervisor.InputRefused):
        await session.result(receipt.input_id)


async def test_the_same_key_gives_the_same_receipt(sup: Sup) -> None:
    session = await busy(sup)

    first = await session.send("next", idempotency_key="k")

    assert await session.send("next", idempotency_key="k") == first
    with pytest.raises(supervisor.IdempotencyConflict):
        await session.send("other", idempotency_key="k")


async def test_an_interrupt_ends_the_turn_and_says_so(sup: Sup) -> None:
    session = await busy(sup)

    report = await session.interrupt("turn", reason="changed my mind")

    assert (report.scope, report.matched, report.stopped) == ("turn", 1, 1)
    assert (await session.info()).phase is supervisor.Phase.IDLE


async def test_an_interrupt_can_replace_the_turn(sup: Sup) -> None:
    session = await busy(sup)

    await session.interrupt(replace_with="say instead")

    assert (await seen(session, "agent_text")).body["text"] == "instead"


async def test_an_interrupt_of_a_turn_that_is_over_changes_nothing(sup: Sup) -> None:
    session = await sup.create("echo")
    over = (await session.prompt("hello")).turn_id

    report = await session.interrupt(TurnScope(over))

    assert (report.matched, report.already_over, report.unknown) == (0, 1, 0)
    assert (await session.interrupt(TurnScope("turn_never"))).unknown == 1


async def test_one_tool_call_can_be_interrupted(sup: Sup) -> None:
    session = await busy(sup, "tool bash 60\nsay done\nsleep 60")
    call = (await seen(session, "tool_call")).body["call_id"]

    report = await session.interrupt(supervisor.ToolCall(call))

    assert report.stopped == 1
    assert (await seen(session, "agent_text")).body["text"] == "done"


async def test_a_child_is_spawned_and_waited_for(sup: Sup) -> None:
    parent = await sup.create("echo")

    child = await parent.spawn("echo", "go", role="tester", name="child-agent")

    assert (await child.wait()).text == "go"
    info = await child.info()
    assert (info.parent, info.role, info.name) == (parent.id, "tester", "child-agent")


async def test_a_spawn_without_a_role_has_none(sup: Sup) -> None:
    parent = await sup.create("echo")

    child = await parent.spawn("echo", "go", role=None)

    assert (await child.info()).role is None


async def test_a_refused_spawn_names_the_limit(kind: Kind, folder: Path) -> None:
    settings = supervisor.Settings(limits=supervisor.Limits(max_children=1))
    async with opened(kind, folder, settings=settings) as sup:
        parent = await sup.create("echo")
        await parent.spawn("echo", "go")

        with pytest.raises(supervisor.SpawnRefused) as refusal:
            await parent.spawn("echo", "go")

        error = refusal.value
        assert (error.limit, error.used, error.allowed) == ("max_children", 1, 1)
        assert "close a child" in error.hint or "max_children" in error.hint


async def test_wait_is_refused_for_a_session_that_was_not_spawned(sup: Sup) -> None:
    session = await sup.create("echo")

    with pytest.raises(supervisor.InputRefused, match="was not spawned"):
        await session.wait()


async def test_a_session_stops_and_resumes(sup: Sup) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")

    await session.stop()
    assert (await session.wait_stopped()).stop_reason == "user_cancelled"
    await session.resume()

    assert (await session.prompt("again")).text == "again"


async def test_wait_stopped_returns_after_the_stop(sup: Sup) -> None:
    session = await busy(sup)
    ends = []

    async def wait() -> None:
        ends.append((await session.wait_stopped()).phase)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await session.stop()

    assert ends == [supervisor.Phase.STOPPED]


async def test_wait_idle_returns_when_the_last_queued_input_has_run(sup: Sup) -> None:
    session = await sup.create("scripted")
    for text in ("sleep 0.05", "say one", "say two"):
        await session.send(text)

    with trio.fail_after(10):
        info = await session.wait_idle()

    assert (info.phase, info.queued, info.turns) == (supervisor.Phase.IDLE, 0, 3)


async def test_wait_idle_returns_when_the_session_is_stopped(sup: Sup) -> None:
    session = await busy(sup)
    await session.send("next")
    ends = []

    async def wait() -> None:
        ends.append((await session.wait_idle()).phase)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(wait)
        await session.stop()

    assert ends == [supervisor.Phase.STOPPED]


async def test_a_fork_has_the_same_history(sup: Sup) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")

    other = await session.fork()

    assert other.id != session.id
    assert [one.text for one in await other.transcript()] == ["hello", "hello"]


async def test_a_new_chapter_has_no_messages(sup: Sup) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")

    await session.clear()
    await session.append("user", "a note")

    assert [one.text for one in await session.transcript()] == ["a note"]


async def test_a_stopped_session_can_be_archived(sup: Sup) -> None:
    session = await sup.create("echo")
    await session.stop()

    await session.archive()
    with pytest.raises(supervisor.SessionNotActive):
        await session.send("hello")
    await session.unarchive()

    assert not (await session.info()).archived


async def test_attributes_can_be_changed(sup: Sup) -> None:
    session = await sup.create("echo")

    await session.set(title="mine", tags=["a", "b"], custom={"k": "v"}, limits={"tokens": 5})

    info = await session.info()
    assert (info.title, info.tags, dict(info.custom)) == ("mine", ("a", "b"), {"k": "v"})
    assert (info.limits.tokens, info.limits.max_depth) == (5, 3)


async def test_whole_limits_replace_all(sup: Sup) -> None:
    session = await sup.create("echo", limits=supervisor.Limits(tokens=5))

    await session.set(limits=supervisor.Limits(max_depth=1))

    limits = (await session.info()).limits
    assert (limits.tokens, limits.max_depth) == (None, 1)


async def test_why_explains_the_wait_of_a_session(sup: Sup) -> None:
    session = await busy(sup, "ask bash")
    await seen(session, "permission_asked")

    why = await session.why()

    assert (why.waits_for, why.chain[0].session_id) == ("person", session.id)
    assert "waits for person" in str(why)


async def test_history_is_grouped_by_turn(sup: Sup) -> None:
    session = await sup.create("echo")
    result = await session.prompt("hello")

    history = await session.history()

    assert [group.turn_id for group in history][-1] == result.turn_id
    assert history[-1].records[-1].kind == "turn_ended"


@pytest.mark.parametrize("form", ["markdown", "jsonl", "html"])
async def test_a_session_is_exported(sup: Sup, form: str) -> None:
    session = await sup.create("echo", name="mine")
    await session.prompt("hello there")

    assert "hello there" in await session.export(form)  # type: ignore[arg-type] # a word of three


async def test_an_export_can_be_redacted(sup: Sup) -> None:
    session = await sup.create("echo")
    await session.prompt("the password=hunter22 is secret")

    assert "hunter22" not in await session.export("jsonl", redact=True)


async def test_repair_finds_no_problems_in_intact_records(sup: Sup) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")
    await session.stop()

    report = await session.repair()

    assert (report.dry_run, report.problems) == (True, ())


@pytest.mark.parametrize("wish", ["repair", "delete"])
async def test_a_damaged_session_is_repaired_or_deleted(
    kind: Kind, folder: Path, wish: str
) -> None:
    async with opened("embedded", folder) as sup:
        session = await sup.create("echo")
        await session.prompt("hello")
    with sqlite3.connect(folder / "state.db") as connection:
        connection.execute("UPDATE sessions SET row = '{'")
    connection.close()

    async with opened(kind, folder) as sup:
        damaged = await sup.get(session.id)
        with pytest.raises(supervisor.NotStorable):
            await damaged.info()
        assert await sup.exists(session.id)
        assert (await sup.stats()).damaged == (session.id,)
        if wish == "repair":
            assert (await damaged.repair(dry_run=False)).row_made
            assert (await damaged.info()).turns == 1
        else:
            await sup.delete(session.id)
            assert not await sup.exists(session.id)
        assert (await sup.stats()).damaged == ()


async def test_replay_returns_a_past_state(sup: Sup) -> None:
    session = await sup.create("echo")
    await session.prompt("hello")

    assert (await session.replay(1)).phase is supervisor.Phase.STARTING
    with pytest.raises(supervisor.RecordNotFound):
        await session.replay(10_000)


async def test_always_decisions_become_permission_rules(sup: Sup) -> None:
    session = await busy(sup, "ask bash")
    await seen(session, "permission_asked")
    (request,) = await sup.permissions()

    await sup.answer(request.id, "allow_always")

    (rule,) = await session.rules()
    assert (rule.tool, rule.decision) == ("bash", "allow_always")
    await session.remove_rule(rule.id)
    assert await session.rules() == []


async def test_handles_of_one_session_are_equal(sup: Sup) -> None:
    session = await sup.create("echo")

    assert sup.session(session.id) == session
    assert len({sup.session(session.id), session}) == 1
