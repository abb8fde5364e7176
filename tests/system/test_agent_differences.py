"""Known differences between agents, and how a session handles each.

Each agent is a plain script (`raw_agent.py`), supervised like a real one.
"""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import attrs
import pytest
import trio

import supervisor
from supervisor import (
    Decision,
    InvalidDecision,
    Ladder,
    PermissionRequest,
    Session,
    Settings,
    Supervisor,
)

AGENT = Path(__file__).parents[1] / "support" / "raw_agent.py"
PATIENCE_SECONDS = 30.0


@attrs.frozen
class AgentHarness:
    """A session whose agent imitates one known agent."""

    sup: Supervisor
    session: Session
    log: Path

    @property
    def noted(self) -> list[str]:
        return self.log.read_text().splitlines() if self.log.exists() else []

    async def question(self) -> PermissionRequest:
        while not (asked := await self.sup.permissions()):  # noqa: ASYNC110 - a short poll
            await trio.sleep(0.01)
        return asked[0]

    async def bodies(self, kind: str) -> list[dict[str, object]]:
        turns = await self.session.history()
        return [dict(one.body) for turn in turns for one in turn.records if one.kind == kind]


@asynccontextmanager
async def harness(
    manner: str,
    folder: Path,
    *,
    terms: Settings = Settings(),  # noqa: B008 - it is frozen
) -> AsyncIterator[AgentHarness]:
    log = folder / "log"
    agent = supervisor.acp("raw", [sys.executable, "-I", str(AGENT), manner, str(log)])
    with trio.fail_after(PATIENCE_SECONDS):
        async with supervisor.open(":memory:", agents=[agent], settings=terms) as sup:
            yield AgentHarness(sup, await sup.create("raw"), log)


async def prompted(harness: AgentHarness, *, decision: Decision) -> supervisor.TurnResult:
    """Return the end of a turn whose one permission request gets this answer."""
    async with trio.open_nursery() as nursery:

        async def answer() -> None:
            await harness.sup.answer((await harness.question()).id, decision)

        nursery.start_soon(answer)
        return await harness.session.prompt("go")


# Turns ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("manner", "outcome", "reason", "error"),
    [
        ("has_its_own_codes", "failed", None, "bad request (code 400)"),
        ("says_the_models_error", "failed", "end_turn", "unexpected status 400 Bad Request"),
        ("says_nothing", "failed", "end_turn", "the agent ended its turn without output"),
        ("has_its_own_words", "completed", "end_turn", None),
        ("tells_no_beginnings", "completed", "end_turn", None),
        ("answers_twice", "completed", "end_turn", None),
    ],
)
async def test_a_turn_of_each_agent_ends_with_its_outcome_twice(
    tmp_path: Path, manner: str, outcome: str, reason: str | None, error: str | None
) -> None:
    async with harness(manner, tmp_path) as at:
        for _ in range(2):
            result = await at.session.prompt("go")

            assert (result.outcome, result.stop_reason) == (outcome, reason)
            assert result.error == error
        assert (await at.session.info()).badge == "idle"


async def test_a_busy_agent_never_gets_a_second_prompt(tmp_path: Path) -> None:
    async with harness("takes_its_time", tmp_path) as at:
        await at.session.send("one")
        for mode in ("queue", "steer", "interrupt"):
            await at.session.send(mode, when_busy=mode)
        while (await at.session.info()).turns < 4 or (await at.session.info()).turn_id:  # noqa: ASYNC110
            await trio.sleep(0.02)

        assert at.noted == []
        assert [body["text"] for body in await at.bodies("turn_ended")] == ["begun, ended"] * 4


async def test_requests_of_unknown_methods_are_refused(tmp_path: Path) -> None:
    async with harness("has_its_own_words", tmp_path) as at:
        await at.session.prompt("go")

        assert at.noted == ["-32601"]
        [warning] = await at.bodies("warning")
        assert "of_a_new_kind" in str(warning["text"])


async def test_a_tool_call_with_only_updates_is_recorded(tmp_path: Path) -> None:
    async with harness("tells_no_beginnings", tmp_path) as at:
        await at.session.prompt("go")

        [begun], [ended] = await at.bodies("tool_call"), await at.bodies("tool_ended")
        assert begun["name"] == "ls"
        assert (ended["outcome"], ended["result"]) == ("completed", "README")


# Permission requests --------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("manner", "outcome", "reason", "text"),
    [
        ("goes_on_when_rejected", "completed", "end_turn", "then something else"),
        ("ends_when_rejected", "completed", "end_turn", ""),
        ("is_cancelled_when_rejected", "interrupted", "cancelled", ""),
    ],
)
async def test_a_session_is_usable_after_a_rejection(
    tmp_path: Path, manner: str, outcome: str, reason: str, text: str
) -> None:
    async with harness(manner, tmp_path) as at:
        for _ in range(2):
            result = await prompted(at, decision="reject_once")

            assert (result.outcome, result.stop_reason, result.text) == (outcome, reason, text)
        assert at.noted == ["option reject_once"] * 2


async def test_the_first_of_two_allow_options_is_chosen(tmp_path: Path) -> None:
    async with harness("offers_two_ways_to_allow", tmp_path) as at:
        await prompted(at, decision="allow_once")

        assert at.noted == ["a"]


async def test_an_unoffered_decision_is_refused(tmp_path: Path) -> None:
    async with harness("offers_no_always", tmp_path) as at, trio.open_nursery() as nursery:
        nursery.start_soon(at.session.prompt, "go")
        request = await at.question()

        assert request.options == ("allow_once", "reject_once")
        with pytest.raises(InvalidDecision):
            await at.sup.answer(request.id, "allow_always")
        await at.sup.answer(request.id, "allow_once")


# Ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("manner", "text"),
    [("talks_on_when_cancelled", "begun, late"), ("fails_when_cancelled", "")],
)
async def test_an_interrupt_is_interrupted_for_any_answer_of_the_agent(
    tmp_path: Path, manner: str, text: str
) -> None:
    async with harness(manner, tmp_path) as at:
        await at.session.send("go")
        while at.noted != ["working"]:  # noqa: ASYNC110 - a short poll
            await trio.sleep(0.01)
        report = await at.session.interrupt("turn")

        assert (report.stopped, report.ladder_step) == (1, "ask")
        [ended] = await at.bodies("turn_ended")
        assert (ended["outcome"], ended["text"]) == ("interrupted", text)


async def test_a_withdrawn_permission_request_is_still_answered(tmp_path: Path) -> None:
    async with harness("withdraws_its_question", tmp_path) as at:
        await at.session.send("go")
        await at.question()
        report = await at.session.interrupt("turn")

        assert (report.stopped, report.ladder_step) == (1, "ask")
        assert at.noted in (["cancelled"], ["-32800"])
        assert list(await at.sup.permissions()) == []


async def test_an_agent_that_ignores_end_of_input_is_ended(tmp_path: Path) -> None:
    # It is ended by SIGTERM: the last step would take longer than the test waits.
    ladder = Ladder(close_seconds=0.2, terminate_seconds=PATIENCE_SECONDS)
    async with harness("stays", tmp_path, terms=Settings(ladder=ladder)) as at:
        await at.session.prompt("go")
        with trio.fail_after(ladder.close_seconds + ladder.terminate_seconds / 2):
            await at.session.stop()


# The past -------------------------------------------------------------------------------------


@pytest.mark.parametrize("manner", ["loads", "resumes"])
async def test_replayed_updates_are_ignored_on_load_and_resume(tmp_path: Path, manner: str) -> None:
    async with harness(manner, tmp_path) as at:
        await at.session.prompt("one")
        await at.session.stop()
        await at.session.resume()
        await at.session.prompt("two")
        info = await at.session.info()

        assert [body["text"] for body in await at.bodies("agent_text")] == ["hello", "hello"]
        assert await at.bodies("tool_call") == []
        assert (info.usage.input_tokens, info.usage.cost) == (0, 0.0)
