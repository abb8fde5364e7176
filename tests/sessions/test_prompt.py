"""The single wait of `prompt`: for the result of its turn, or for the reply that refuses it."""

from __future__ import annotations

from typing import cast

import pytest
import trio
import trio.abc

from actors import ActorStopped, OpenAsk, Ref
from actors.testing import settle
from supervisor import InputRefused, Session, SessionNotActive, Supervisor
from supervisor.core import events as ev
from supervisor.core.ids import InputId, TurnId
from supervisor.core.receipts import TurnResult
from supervisor.sessions.idempotency import SessionRequest
from supervisor.sessions.prompt_ask import PromptAsk
from supervisor.sessions.subscribers import PendingResult
from supervisor.store.pending import WriteThrottle
from tests.support.fake_agents import AgentRun, FakeAgent


class WakeUps(trio.abc.Instrument):
    """Counts the steps of one task."""

    def __init__(self, task: trio.lowlevel.Task) -> None:
        self._task = task
        self.steps = 0

    def before_task_step(self, task: trio.lowlevel.Task) -> None:
        self.steps += task is self._task


def throttle(sup: Supervisor) -> WriteThrottle:
    return sup._services.health.throttle


async def prompt_into(results: list[TurnResult], session: Session) -> None:
    results.append(await session.prompt("second"))


async def test_a_prompt_wakes_its_caller_once(sup: Supervisor) -> None:
    session = await sup.create("echo")
    await session.prompt("first")  # starts the agent
    counted = WakeUps(trio.lowlevel.current_task())
    trio.lowlevel.add_instrument(counted)

    result = await session.prompt("hello")

    trio.lowlevel.remove_instrument(counted)
    assert (result.text, counted.steps) == ("hello", 1)


async def test_an_acknowledged_prompt_leaves_the_throttle_before_its_turn_ends(
    sup: Supervisor, session: Session, fake_agent: FakeAgent, nursery: trio.Nursery
) -> None:
    results: list[TurnResult] = []
    nursery.start_soon(prompt_into, results, session)
    run = await fake_agent.next_run()

    assert (throttle(sup).writes, results) == (0, [])

    run.finish()
    await settle()
    assert [result.outcome for result in results] == ["completed"]
    assert throttle(sup).writes == 0


async def test_a_refused_prompt_raises_at_once_and_leaves_the_throttle(
    sup: Supervisor, session: Session, run: AgentRun
) -> None:
    with pytest.raises(InputRefused):
        await session.prompt("second", when_busy="reject")

    assert throttle(sup).writes == 0


async def test_a_prompt_cancelled_before_it_is_sent_is_not_carried_out(
    sup: Supervisor, session: Session
) -> None:
    with trio.CancelScope() as scope:
        scope.cancel()
        await session.prompt("second")
    await settle()

    assert throttle(sup).writes == 0
    assert (await session.info()).turn_id is None


async def test_a_prompt_cancelled_after_it_is_sent_leaves_the_throttle(
    sup: Supervisor, session: Session, fake_agent: FakeAgent
) -> None:
    with trio.move_on_after(1.0) as patience:
        await session.prompt("second")
    (await fake_agent.next_run()).finish()
    await settle()

    assert patience.cancelled_caught
    assert throttle(sup).writes == 0


async def test_a_repeated_prompt_returns_the_result_of_the_first(sup: Supervisor) -> None:
    session = await sup.create("echo")

    first = await session.prompt("hello", idempotency_key="k")
    again = await session.prompt("hello", idempotency_key="k")

    assert again == first


class SilentRef:
    """An actor that has not answered yet."""

    def deliver(self, message: OpenAsk) -> None:
        self.asked = message


async def test_a_prompt_whose_result_comes_first_waits_for_the_reply(
    nursery: trio.Nursery,
) -> None:
    pending, ref = PendingResult(InputId("in_one")), SilentRef()
    event = ev.InputSubmitted(
        input=InputId("in_one"), text="hello", at=1.0, steady_at=1.0, fresh=TurnId("turn_one")
    )
    request = SessionRequest(event)
    ask = PromptAsk(request, pending, WriteThrottle(), None)
    errors: list[Exception] = []

    async def send() -> None:
        try:
            await ask.send(cast("Ref", ref))
        except ActorStopped as error:
            errors.append(error)

    nursery.start_soon(send)
    await settle()
    pending.settle(SessionNotActive("closed", hint="open it"))
    await settle()
    assert errors == []

    ref.asked.fail(ActorStopped("one"))
    await settle()

    assert [type(error) for error in errors] == [ActorStopped]
