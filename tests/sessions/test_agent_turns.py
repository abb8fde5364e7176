"""Agents that misuse their turn: open nurseries, values of other classes, their own session."""

from __future__ import annotations

import enum
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

import pytest
import trio

import supervisor
from actors.testing import VirtualClock, settle
from supervisor import (
    InputRefused,
    Phase,
    Session,
    Supervisor,
    Turn,
    TurnOver,
    TurnResult,
    Usage,
)
from supervisor.core.limits import MAX_INT64
from tests.support.fake_agents import AgentRun, Follow, deltas, records


class Word(enum.StrEnum):
    """A subclass of str."""

    HELLO = "hello"


# Open nurseries -------------------------------------------------------------------------------


async def numbers_from_a_nursery() -> AsyncGenerator[int]:
    async with trio.open_nursery():
        yield 1
        yield 2


class Careless:
    """An agent that leaves a nursery open."""

    def __init__(self) -> None:
        self._left_open: list[object] = []
        self.agent = supervisor.agent("careless")(self._play)

    async def _play(self, turn: Turn) -> None:
        if turn.text == "generator":
            numbers = numbers_from_a_nursery()
            self._left_open.append(numbers)
            await anext(numbers)
        else:
            nursery = trio.open_nursery()
            self._left_open.append(nursery)
            await nursery.__aenter__()
        await turn.say("that went well")


async def prompt_both(way: str) -> tuple[TurnResult, TurnResult, TurnResult]:
    """Return the results of a careless agent, of another agent running meanwhile, and again."""
    async with supervisor.open(agents=[Careless().agent]) as sup:
        careless, other = await sup.create("careless"), await sup.create("scripted")
        busy = await other.send("sleep 1\nsay unmoved")
        first = await careless.prompt(way)
        again = await careless.prompt(way)
        return first, await other.result(busy.input_id), again


@pytest.mark.parametrize("way", ["generator", "by hand"])
def test_an_agent_with_an_open_nursery_fails_only_its_turn(way: str) -> None:
    first, other, again = trio.run(prompt_both, way, clock=VirtualClock())

    assert (first.outcome, again.outcome) == ("failed", "failed")
    assert first.error
    assert (other.outcome, other.text) == ("completed", "unmoved")


# Texts of other classes -----------------------------------------------------------------------


async def test_a_returned_text_of_another_class_is_plain_text(
    session: Session, run: AgentRun
) -> None:
    run.finish(Word.HELLO)
    await settle()

    (message,) = [one for one in await session.transcript() if one.role == "agent"]
    assert (message.text, type(message.text)) == ("hello", str)


async def test_agent_text_of_a_str_subclass_becomes_plain_text(
    session: Session, run: AgentRun, follow: Follow
) -> None:
    seen = await follow(session)

    await run.do(run.turn.say(Word.HELLO))
    await settle()

    (delta,) = deltas(seen)
    assert (delta.text, type(delta.text)) == ("hello", str)


async def test_a_tool_name_of_a_str_subclass_is_accepted(session: Session, run: AgentRun) -> None:
    call = await run.open_call(Word.HELLO, {"word": Word.HELLO})
    await call.close()

    (started,) = await records(session, "tool_call")
    assert (type(started.body["name"]), type(started.body["input"]["word"])) == (str, str)


async def test_a_question_in_texts_of_another_class_is_asked(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    asked = run.begin(run.turn.ask(Word.HELLO, tool=Word.HELLO, kind=Word.HELLO))
    await settle()
    (request,) = await sup.permissions()
    await sup.answer(request.id, "allow_once")

    assert await asked.wait()
    assert (type(request.question), type(request.tool)) == (str, str)


async def test_a_permission_request_with_an_invalid_kind_has_no_kind(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    odd: Any = ["read"]
    asked = run.begin(run.turn.ask("may I?", tool="bash", kind=odd))
    await settle()
    (request,) = await sup.permissions()
    await sup.answer(request.id, "allow_once")

    assert await asked.wait()
    assert (await session.info()).restarts == 0


# Numbers, and ended tool calls ----------------------------------------------------------------


async def test_token_counts_are_capped_at_the_largest_storable_number(
    session: Session, run: AgentRun
) -> None:
    for _ in range(1100):
        run.turn.usage(output_tokens=2**53 - 1)
    run.finish("done")
    await session.wait_idle()

    (ended,) = await records(session, "turn_ended")
    assert ended.body["outcome"] == "completed"
    assert ended.body["usage"]["output_tokens"] == MAX_INT64


def test_added_usage_stays_storable() -> None:
    spent = Usage(MAX_INT64, MAX_INT64, float(MAX_INT64)) + Usage(1, 1, 1e300)

    assert spent == Usage(MAX_INT64, MAX_INT64, float(MAX_INT64))


async def test_a_call_is_not_updated_after_its_end(session: Session, run: AgentRun) -> None:
    call = await run.open_call("bash")
    await call.close()

    with pytest.raises(TurnOver, match="is over"):
        call.call.update("more")


# An agent and its own session -----------------------------------------------------------------


class Selfish:
    """An agent that runs an action on its own session during its turn."""

    def __init__(self, action: Callable[[Session, Turn], Awaitable[object]]) -> None:
        self.agent = supervisor.agent("selfish")(self._play)
        self.came_of_it: object = "nothing"
        self.sup: Supervisor
        self._action = action

    async def _play(self, turn: Turn) -> str:
        if turn.text == "do it":
            session = self.sup.session(turn.session_id)
            try:
                self.came_of_it = await self._action(session, turn)
            except supervisor.SupervisorError as error:
                self.came_of_it = error
        return "over"


async def play_selfish(selfish: Selfish) -> tuple[Session, TurnResult]:
    session = await selfish.sup.create("selfish")
    return session, await session.prompt("do it")


@pytest.mark.parametrize(
    "action",
    [
        lambda session, _: session.prompt("and then?"),
        lambda session, turn: session.result(turn.input_id),
        lambda session, _: session.wait_stopped(),
        lambda session, _: session.wait_idle(),
    ],
    ids=["prompt", "result", "wait_stopped", "wait_idle"],
)
async def test_an_agent_may_not_wait_for_the_end_of_its_own_turn(
    action: Callable[[Session, Turn], Awaitable[object]],
) -> None:
    selfish = Selfish(action)
    async with supervisor.open(agents=[selfish.agent]) as selfish.sup:
        _, result = await play_selfish(selfish)

    assert isinstance(selfish.came_of_it, InputRefused)
    assert selfish.came_of_it.hint
    assert result.outcome == "completed"


async def test_an_agent_may_have_its_own_session_stopped_after_its_turn() -> None:
    selfish = Selfish(lambda session, _: session.stop(when="after_turn"))
    async with supervisor.open(agents=[selfish.agent]) as selfish.sup:
        session, result = await play_selfish(selfish)
        info = await session.wait_stopped()

    assert selfish.came_of_it is None
    assert (result.outcome, info.phase) == ("completed", Phase.STOPPED)
