"""Agents that are async functions in our own process."""
# ruff: noqa: ANN401 - rubbish has every type

from __future__ import annotations

import functools
import gc
import warnings
from contextlib import suppress
from typing import Any

import pytest
import trio

import supervisor
from actors.testing import settle
from supervisor import ConfigError, PythonAgent, Turn
from supervisor.core import agent_events
from supervisor.drivers.runtime import DriverRuntime
from tests.support.driver_context import FakeDriverContext
from tests.support.function_agents import Function, Run, only_its_turn, outcome_of, python_harness

# What an agent raises --------------------------------------------------------------------


class Own(BaseException):
    """A BaseException that is not an Exception."""


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise ValueError("I will not say")


class Deadly(Exception):
    def __str__(self) -> str:
        raise SystemExit(3)


def nested(depth: int) -> ExceptionGroup[Exception]:
    group: ExceptionGroup[Exception] = ExceptionGroup("innermost", [ValueError("deep")])
    for _ in range(depth):
        group = ExceptionGroup("around", [group])
    return group


@pytest.mark.parametrize(
    ("error", "shown"),
    [
        (ValueError("no such luck"), "ValueError: no such luck"),
        (ValueError(), "ValueError"),
        (SystemExit(2), "SystemExit: 2"),
        (KeyboardInterrupt(), "KeyboardInterrupt"),
        (GeneratorExit(), "GeneratorExit"),
        (StopAsyncIteration(), "StopAsyncIteration"),
        (Own("mine"), "Own: mine"),
        (ExceptionGroup("one", [ValueError("inner")]), "ValueError: inner"),
        (BaseExceptionGroup("two", [Own(), ValueError()]), "BaseExceptionGroup: two"),
        (nested(5), "ValueError: deep"),
        (Unspeakable(), "Unspeakable"),
        (ValueError("half a character: \ud800"), "ValueError: half a character: \ufffd"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_exception_of_an_agent_fails_only_its_turn(error: BaseException, shown: str) -> None:
    async def raising(_: Turn) -> None:
        raise error

    result = only_its_turn(raising)

    assert isinstance(result, supervisor.TurnResult), result
    assert result.outcome == "failed"
    assert (result.error or "").startswith(shown)


@pytest.mark.parametrize("error", [Deadly(), nested(3000)], ids=["deadly to show", "very deep"])
def test_an_exception_that_cannot_be_shown_fails_only_its_turn(
    error: Exception,
) -> None:
    async def raising(_: Turn) -> None:
        raise error

    assert outcome_of(only_its_turn(raising)) == "failed"


async def test_a_long_error_text_is_cut(run: Run) -> None:
    async def raising(_: Turn) -> None:
        raise ValueError("x" * 1_000_000)

    ended = await run(raising)

    assert len(ended.error or "") == 2000


async def a_cancelled_that_is_over() -> trio.Cancelled:
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            return cancelled
    raise AssertionError


def test_a_foreign_cancelled_fails_the_turn_and_not_the_supervisor() -> None:
    async def raising(_: Turn) -> None:
        raise await a_cancelled_that_is_over()

    assert outcome_of(only_its_turn(raising)) == "failed"


def test_a_group_with_a_foreign_cancelled_fails_only_the_turn() -> None:
    async def raising(_: Turn) -> None:
        raise BaseExceptionGroup("", [await a_cancelled_that_is_over(), ValueError()])

    assert outcome_of(only_its_turn(raising)) == "failed"


async def test_an_error_during_an_interrupt_ends_the_turn_interrupted_with_it(
    runtime: DriverRuntime,
) -> None:
    async def tidying_badly(_: Turn) -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("while tidying up")

    harness = python_harness(tidying_badly, runtime)
    turn = harness.order("go")
    await settle()
    harness.driver.cancel_turn(turn, "ask")
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert (ended.outcome, ended.error) == ("interrupted", "ValueError: while tidying up")


# What an agent returns -------------------------------------------------------------------


async def test_the_returned_text_is_the_text_of_the_turn(run: Run) -> None:
    async def returning(turn: Turn) -> str:
        await turn.say("thinking aloud")
        return "the answer"

    ended = await run(returning)

    assert (ended.outcome, ended.text) == ("completed", "the answer")


async def test_a_returned_text_that_was_not_said_is_written(run: Run) -> None:
    async def returning(_: Turn) -> str:
        return "the answer"

    context = FakeDriverContext()
    await run(returning, context)

    assert context.output == [("turn_1", "agent_text", "the answer")]


async def test_a_returned_text_that_was_said_is_written_once(run: Run) -> None:
    async def returning(turn: Turn) -> str:
        await turn.say("the ")
        await turn.say("answer")
        return "the answer"

    context = FakeDriverContext()
    await run(returning, context)

    assert context.received_text(context.all(agent_events.TurnEnded)[0].turn) == "the answer"


async def test_the_said_text_is_the_result_when_nothing_is_returned(run: Run) -> None:
    async def saying(turn: Turn) -> None:
        await turn.think("hm")
        await turn.say("well")

    assert (await run(saying)).text == "well"


async def test_an_empty_returned_text_is_the_result(run: Run) -> None:
    async def returning(turn: Turn) -> str:
        await turn.say("never mind")
        return ""

    ended = await run(returning)

    assert (ended.outcome, ended.text) == ("completed", "")


async def test_a_lone_surrogate_in_the_returned_text_is_replaced(run: Run) -> None:
    async def returning(_: Turn) -> str:
        return "a\ud800b"

    assert (await run(returning)).text == "a\ufffdb"


async def test_an_answer_that_is_too_large_fails_the_turn(run: Run) -> None:
    async def returning(_: Turn) -> str:
        return "x" * 1000

    ended = await run(returning, FakeDriverContext(max_turn_bytes=999))

    assert (ended.outcome, ended.text) == ("failed", "")
    assert "OutputTooLarge" in (ended.error or "")


@pytest.mark.parametrize("rubbish", [7, b"bytes", 1.5, True, ["a"], object(), ValueError("?")])
async def test_an_agent_that_returns_no_text_fails_with_the_type(run: Run, rubbish: object) -> None:
    async def returning(_: Turn) -> object:
        return rubbish

    ended = await run(returning)

    assert (ended.outcome, ended.text) == ("failed", "")
    assert type(rubbish).__name__ in (ended.error or "")


async def test_an_agent_that_returns_a_coroutine_fails_with_that_type(run: Run) -> None:
    async def forgetful(turn: Turn) -> object:
        return turn.say("hello")

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        ended = await run(forgetful)
        gc.collect()

    assert ended.outcome == "failed"
    assert "coroutine" in (ended.error or "")


# Agents that will not be interrupted ------------------------------------------------------


async def test_an_agent_that_was_interrupted_before_it_began_is_not_called(
    runtime: DriverRuntime, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[Turn] = []

    async def begin(turn: Turn) -> None:
        begun.append(turn)

    harness = python_harness(begin, runtime)

    async def read_slowly(_: object) -> tuple[()]:
        with trio.CancelScope(shield=True):  # as a thread of the store does
            await trio.sleep(60.0)
        return ()

    monkeypatch.setattr(harness.context, "history", read_slowly)
    turn = harness.order("go")
    await settle()
    harness.driver.cancel_turn(turn, "ask")
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert (ended.outcome, begun) == ("interrupted", [])


async def test_a_late_interrupt_does_not_reach_the_next_agent(runtime: DriverRuntime) -> None:
    async def wait_if_asked(turn: Turn) -> None:
        if turn.text == "wait":
            await trio.sleep(60.0)

    first, second = (python_harness(wait_if_asked, runtime) for _ in range(2))
    over = first.order("go")
    await first.context.heard(agent_events.TurnEnded)
    second.order("wait")  # in the nursery that the first agent has released

    first.driver.cancel_turn(over, "ask")
    ended = await second.context.heard(agent_events.TurnEnded)

    assert ended.outcome == "completed"


async def test_an_agent_that_finishes_despite_an_interrupt_completes(
    runtime: DriverRuntime,
) -> None:
    async def stubborn(turn: Turn) -> str:
        with suppress(trio.Cancelled):  # the last thing that an agent should do
            await trio.sleep_forever()
        return "done all the same"

    harness = python_harness(stubborn, runtime)
    turn = harness.order("go")
    await settle()
    harness.driver.cancel_turn(turn, "ask")
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert (ended.outcome, ended.text) == ("completed", "done all the same")


async def test_an_agent_that_swallows_a_cancellation_gets_it_again(
    runtime: DriverRuntime,
) -> None:
    async def stubborn(turn: Turn) -> None:
        with suppress(trio.Cancelled):
            await trio.sleep_forever()
        await turn.say("not heard")
        await turn.say("never said")

    harness = python_harness(stubborn, runtime)
    turn = harness.order("go")
    await settle()
    harness.driver.cancel_turn(turn, "ask")
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert ended.outcome == "interrupted"
    assert "never said" not in harness.context.received_text(turn)


async def test_an_agent_that_shields_itself_briefly_ends_as_interrupted(
    runtime: DriverRuntime,
) -> None:
    async def tidy(turn: Turn) -> None:
        with trio.CancelScope(shield=True):
            await trio.sleep(3.0)
            await turn.say("tidied up")
        await trio.sleep_forever()

    harness = python_harness(tidy, runtime)
    turn = harness.order("go")
    await settle()
    harness.driver.cancel_turn(turn, "ask")
    ended = await harness.context.heard(agent_events.TurnEnded)

    assert (ended.outcome, ended.text, trio.current_time()) == ("interrupted", "tidied up", 3.0)


async def test_an_agent_that_shields_itself_for_ever_blocks_only_its_session() -> None:
    release = trio.Event()

    async def deaf(_: Turn) -> None:
        with trio.CancelScope(shield=True):
            await release.wait()

    async with supervisor.open(":memory:", agents=[PythonAgent("deaf", deaf)]) as sup:
        session, other = await sup.create("deaf"), await sup.create("deaf")
        await session.send("first")
        await settle()  # the agent runs
        report = await session.interrupt()
        receipt = await session.send("second")
        await other.send("elsewhere")
        await settle()
        assert (report.stopped, report.unreachable) == (0, 1)
        assert receipt.status == "queued"
        assert (await other.info()).phase == "running"

        release.set()
        await settle()

        assert (await session.info()).turns == 2


async def test_an_interrupt_cancels_all_tasks_of_the_agents_nursery(
    runtime: DriverRuntime,
) -> None:
    ended: list[int] = []

    async def work(number: int) -> None:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(number)

    async def many_hands(_: Turn) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(work, 1)
            nursery.start_soon(work, 2)

    harness = python_harness(many_hands, runtime)
    turn = harness.order("go")
    await settle()
    harness.driver.cancel_turn(turn, "ask")

    assert (await harness.context.heard(agent_events.TurnEnded)).outcome == "interrupted"
    assert sorted(ended) == [1, 2]


async def test_an_error_in_one_task_of_the_agent_fails_the_turn(run: Run) -> None:
    async def stumble() -> None:
        raise ValueError("stumbled")

    async def many_hands(_: Turn) -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(trio.sleep_forever)
            nursery.start_soon(stumble)

    ended = await run(many_hands)

    assert (ended.outcome, ended.error) == ("failed", "ValueError: stumbled")


# Making agents -----------------------------------------------------------------------------


async def _function(_: Turn, *extra: object) -> None: ...


class Obliging:
    async def __call__(self, turn: Turn) -> str:
        return "called"

    async def method(self, turn: Turn) -> str:
        return "called"


@pytest.mark.parametrize(
    "function",
    [Obliging(), Obliging().method, functools.partial(Obliging.method, Obliging())],
    ids=["an object", "a method", "a partial"],
)
async def test_any_async_callable_can_be_an_agent(run: Run, function: Function) -> None:
    assert (await run(function)).text == "called"


def test_the_decorator_makes_an_agent_with_name_and_function() -> None:
    made = supervisor.agent("mine")(_function)

    assert isinstance(made, PythonAgent)
    assert (made.name, made.function) == ("mine", _function)


def test_the_decorator_without_a_name_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"^@supervisor\.agent needs a name") as refused:
        supervisor.agent(_function)  # type: ignore[arg-type] # a common mistake

    assert refused.value.hint == 'write @supervisor.agent("name")'


@pytest.mark.parametrize("name", ["", "  ", "x y", "-x", "x" * 65, None, 7, b"mine"])
def test_an_agent_without_a_name_is_refused(name: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        supervisor.agent(name)(_function)

    assert refused.value.hint


def _sync(turn: Turn) -> str:
    return "no"


async def _generator(turn: Turn) -> Any:
    yield "no"


@pytest.mark.parametrize(
    "function", [_sync, lambda turn: None, _generator, Obliging, "text", None, 7]
)
def test_an_agent_that_is_not_an_async_function_is_refused(function: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        supervisor.agent("mine")(function)

    assert "async def" in refused.value.hint


@pytest.mark.parametrize(
    "agents",
    [
        [_function],
        [supervisor.agent],
        [supervisor.agent("mine")],
        ["echo"],
        [None],
        [supervisor.agent("mine")(_function), supervisor.agent("mine")(_function)],
        [supervisor.agent("echo")(_function)],
    ],
    ids=["bare", "the decorator", "undecorated", "a name", "nothing", "twice", "built in"],
)
async def test_open_refuses_invalid_agents_and_duplicate_names(agents: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        async with supervisor.open(":memory:", agents=agents):
            pytest.fail("it was opened")

    assert refused.value.hint


async def test_a_function_without_a_turn_parameter_fails_its_turn(run: Run) -> None:
    async def forgetful() -> None: ...

    ended = await run(forgetful)

    assert "TypeError" in (ended.error or "")
