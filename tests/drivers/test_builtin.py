"""The built-in agents echo and scripted, through the public API: every step."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
import trio
from hypothesis import given
from hypothesis import strategies as st

import supervisor
from actors.testing import VirtualClock, settle
from supervisor import Permissions, Record, Restart, Session, Supervisor, ToolCall
from supervisor.core.state import Decision


@pytest.fixture
async def sup() -> AsyncIterator[Supervisor]:
    async with supervisor.open(":memory:") as opened:
        yield opened


@pytest.fixture
async def session(sup: Supervisor) -> Session:
    """Yield an idle session of `scripted`."""
    return await sup.create("scripted")


async def records(session: Session, *kinds: str) -> list[Record]:
    return [
        record
        for turn in await session.history()
        for record in turn.records
        if record.kind in kinds
    ]


# Echo --------------------------------------------------------------------------------------


async def test_echo_says_its_input(sup: Supervisor) -> None:
    session = await sup.create("echo")

    result = await session.prompt("to be or not to be")

    assert (result.outcome, result.text) == ("completed", "to be or not to be")


async def test_echo_streams_word_by_word(sup: Supervisor) -> None:
    session = await sup.create("echo")

    async with session.watch() as feed:
        await session.prompt("one two three")
        shown = []
        async for item in feed:
            if isinstance(item, supervisor.Delta):
                shown.append(item.text)
            elif isinstance(item, Record) and item.kind == "turn_ended":
                break

    assert shown == ["one ", "two ", "three"]


@given(text=st.text(st.characters(exclude_categories=["Cs"]), min_size=1).filter(str.strip))
def test_echo_does_not_change_its_input(text: str) -> None:
    async def main() -> supervisor.TurnResult:
        async with supervisor.open(":memory:") as sup:
            return await (await sup.create("echo")).prompt(text)

    assert trio.run(main, clock=VirtualClock()).text == text


# Steps -------------------------------------------------------------------------------------


async def test_say_writes_the_text(session: Session) -> None:
    result = await session.prompt("say hello, world")

    assert result.text == "hello, world"
    assert [record.body["text"] for record in await records(session, "agent_text")] == [
        "hello, world"
    ]


async def test_think_is_recorded_and_not_part_of_the_text(session: Session) -> None:
    result = await session.prompt("think what now\nsay this")

    assert result.text == "this"
    assert [record.body["text"] for record in await records(session, "thought")] == ["what now"]


async def test_sleep_takes_the_given_seconds(session: Session) -> None:
    began = trio.current_time()

    await session.prompt("sleep 90")

    assert trio.current_time() == pytest.approx(began + 90.0)


async def test_tool_makes_a_call_of_the_given_seconds(session: Session) -> None:
    began = trio.current_time()

    await session.prompt("tool bash 2.5")
    call, over = await records(session, "tool_call", "tool_ended")

    assert trio.current_time() == pytest.approx(began + 2.5)
    assert (call.body["name"], over.body["name"]) == ("bash", "bash")
    assert over.body["call_id"] == call.body["call_id"]
    assert (over.body["outcome"], over.body["result"]) == ("completed", "done")


async def test_a_tool_name_may_contain_blanks(session: Session) -> None:
    await session.prompt("tool read a file 0")

    (call,) = await records(session, "tool_call")
    assert call.body["name"] == "read a file"


async def test_a_tool_can_be_interrupted_alone(session: Session) -> None:
    await session.send("tool bash 1000\nsay went on")
    await settle()
    (call,) = await records(session, "tool_call")

    report = await session.interrupt(ToolCall(call.body["call_id"]))
    await settle()

    assert report.stopped == 1
    assert (await session.transcript())[-1].text == "went on"


async def test_a_tool_that_the_session_may_not_use_fails_the_turn(sup: Supervisor) -> None:
    session = await sup.create("scripted", permissions=Permissions(tools=frozenset({"ls"})))

    result = await session.prompt("tool rm 0")

    assert result.outcome == "failed"
    assert "PermissionDenied" in (result.error or "")


@pytest.mark.parametrize(
    ("decision", "said"),
    [("allow_once", "bash: allowed\n"), ("reject_once", "bash: rejected\n")],
)
async def test_ask_waits_in_the_inbox_and_says_the_decision(
    sup: Supervisor, session: Session, decision: Decision, said: str
) -> None:
    await session.send("ask bash")
    await settle()
    (request,) = await sup.permissions()
    assert (request.tool, request.session_id) == ("bash", session.id)

    await sup.answer(request.id, decision)
    await settle()

    assert (await session.transcript())[-1].text == said


async def test_ask_is_rejected_when_its_time_is_over(sup: Supervisor) -> None:
    session = await sup.create("scripted", permission_timeout_seconds=300.0)
    began = trio.current_time()

    result = await session.prompt("ask bash")

    assert result.text == "bash: rejected\n"
    assert trio.current_time() == pytest.approx(began + 300.0)


async def test_fail_fails_the_turn_with_its_text_and_the_session_goes_on(session: Session) -> None:
    result = await session.prompt("say so far\nfail out of ideas\nsay never")

    assert (result.outcome, result.text) == ("failed", "so far")
    assert "out of ideas" in (result.error or "")
    assert (await session.prompt("say next")).text == "next"


async def test_the_agent_is_restarted_after_crash(session: Session) -> None:
    result = await session.prompt("say last words\ncrash\nsay never")
    after = await session.prompt("say reborn")
    info = await session.info()

    assert result.outcome == "lost"
    assert after.text == "reborn"
    assert info.restarts == 1
    assert info.last_failure is not None
    assert info.last_failure.kind == "process_exit"


async def test_crash_stops_a_session_that_is_never_restarted(sup: Supervisor) -> None:
    session = await sup.create("scripted", restart=Restart(policy="never"))

    await session.prompt("crash")
    info = await session.wait_stopped()

    assert (info.phase, info.stop_reason, info.badge) == ("stopped", "agent_crashed", "failed")


async def test_flood_writes_chunks_of_about_a_hundred_bytes(session: Session) -> None:
    result = await session.prompt("flood 700")

    assert len(result.text) == pytest.approx(700 * 100, rel=0.1)
    assert len(await records(session, "agent_text")) > 1


async def test_flood_of_zero_writes_nothing(session: Session) -> None:
    result = await session.prompt("flood 0")

    assert (result.outcome, result.text) == ("completed", "")


async def test_flood_beyond_the_output_limit_fails_the_turn(sup: Supervisor) -> None:
    session = await sup.create("scripted", max_turn_bytes=1000)

    result = await session.prompt("flood 100")

    assert (result.outcome, len(result.text)) == ("failed", 1000)
    assert (await session.prompt("say less")).text == "less"


async def test_use_counts_tokens(session: Session) -> None:
    result = await session.prompt("use 40\nuse 2")

    assert result.usage.output_tokens == 42
    assert (await session.info()).usage.output_tokens == 42


async def test_hang_ignores_an_interrupt_until_the_supervisor_shuts_down() -> None:
    async with supervisor.open(":memory:") as sup:
        session = await sup.create("scripted")
        await session.send("hang\nsay late")
        await settle()  # it hangs
        report = await session.interrupt()
        left_at = trio.current_time()

    assert (report.stopped, report.unreachable, report.ladder_step) == (0, 1, "ask")
    assert report.seconds == pytest.approx(5.0)
    assert trio.current_time() < left_at + 60.0


async def test_hang_blocks_other_turns_of_the_session(session: Session) -> None:
    await session.send("hang")
    await settle()
    await session.interrupt()

    receipt = await session.send("say hello")
    await trio.sleep(1000.0)

    assert receipt.status == "queued"
    assert [waiting.text for waiting in await session.inputs()] == ["say hello"]


@pytest.mark.parametrize("step", ["sleep 1000", "tool bash 1000", "ask bash"])
async def test_every_waiting_step_can_be_interrupted(session: Session, step: str) -> None:
    await session.send(f"say before\n{step}\nsay after")
    await settle()

    report = await session.interrupt()

    assert (report.stopped, report.seconds) == (1, 0.0)
    assert (await session.transcript())[-1].text == "before"


async def test_steering_is_taken_at_the_end_of_a_tool_call(session: Session) -> None:
    await session.send("tool bash 5\nsleep 5")
    await session.steer("softer")
    await trio.sleep(6.0)

    assert [steered.body["how"] for steered in await records(session, "steered")] == ["boundary"]
    assert await session.inputs() == []


async def test_steering_without_a_boundary_becomes_the_next_turn(session: Session) -> None:
    await session.send("sleep 5")
    await session.steer("say softer")
    await trio.sleep(6.0)

    assert await records(session, "steered") == []
    assert (await session.transcript())[-1].text == "softer"


# Scripts -------------------------------------------------------------------------------------


async def test_steps_run_in_order(session: Session) -> None:
    result = await session.prompt("say a\ntool x 0\nsay b\nthink hm\nsay c")

    kinds = ("agent_text", "tool_call", "tool_ended", "thought")
    assert [record.kind for record in await records(session, *kinds)] == [
        "agent_text",
        "tool_call",
        "tool_ended",
        "agent_text",
        "thought",
        "agent_text",
    ]
    assert result.text == "abc"


async def test_blank_lines_and_blanks_around_a_step_are_ignored(session: Session) -> None:
    result = await session.prompt("\n  say a  \r\n\n\t\nsay   b\n")

    assert result.text == "ab"


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("sing", "line 1 of the script begins with 'sing'"),
        ("say a\n\nSAY b", "line 3 of the script begins with 'SAY'"),
        ("tool", "has no seconds"),
        ("tool bash", "has no seconds"),
        ("tool 5", "has no seconds"),
        ("tool bash soon", "'soon' is not a number"),
        ("tool bash -1", "'-1' is not a number"),
        ("sleep", "'' is not a number"),
        ("sleep soon", "'soon' is not a number"),
        ("sleep -1", "'-1' is not a number"),
        ("sleep nan", "'nan' is not a number"),
        ("sleep inf", "'inf' is not a number"),
        ("sleep 1e400", "'1e400' is not a number"),
        ("sleep 1 2", "'1 2' is not a number"),
        ("flood", "'' is not a number"),
        ("flood many", "'many' is not a number"),
        ("flood -1", "'-1' is not a number"),
        ("use", "'' is not a number"),
        ("use -1", "'-1' is not a number"),
        ("use nan", "'nan' is not a number"),
        ("ask", "a tool's name is ''"),
    ],
)
async def test_an_invalid_script_fails_its_turn_with_a_hint(
    session: Session, script: str, said: str
) -> None:
    result = await session.prompt(script)

    assert result.outcome == "failed"
    assert said in (result.error or "")
    assert "hint:" in (result.error or "")
    assert (await session.info()).phase == "idle"


@pytest.mark.parametrize("step", ["flood 1.5", "use 1.5"])
async def test_a_fraction_is_refused_where_a_count_is_needed(session: Session, step: str) -> None:
    assert (await session.prompt(step)).outcome == "failed"


async def test_the_steps_before_an_invalid_one_are_performed(session: Session) -> None:
    result = await session.prompt("say so far\nsing")

    assert (result.outcome, result.text) == ("failed", "so far")


@given(
    script=st.lists(
        st.sampled_from(
            ["say", "think", "tool", "sleep", "flood", "use", "fail", "sing", ""]
        ).flatmap(lambda word: st.text("ab 1.-\t\u2028\x00").map(lambda rest: f"{word} {rest}")),
        min_size=1,
    ).map("\n".join)
)
def test_any_script_ends_its_turn_and_leaves_the_session_idle(script: str) -> None:
    async def main() -> tuple[str, str]:
        async with supervisor.open(":memory:") as sup:
            session = await sup.create("scripted")
            result = await session.prompt(f"say x\n{script}")
            return result.outcome, (await session.info()).phase

    outcome, phase = trio.run(main, clock=VirtualClock())

    assert outcome in ("completed", "failed")
    assert phase == "idle"
