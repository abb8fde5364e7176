from __future__ import annotations

from collections.abc import Callable
from contextvars import ContextVar

import pytest
import trio

from actors import (
    NOT_NOW,
    Actor,
    ActorStopped,
    Ask,
    Group,
    Killed,
    Later,
    MailboxFull,
    OpenAsk,
    Pause,
    Ref,
    RestartPolicy,
    StopActor,
    Stopped,
    open_actors,
)
from actors.testing import explore, settle

WHERE: ContextVar[str] = ContextVar("WHERE", default="nowhere")


class Work(Ask[str]):
    """An ask that is answered by the function in it."""

    def __init__(self, work: Callable[[Worker], object]) -> None:
        self.work = work


class Worker(Actor):
    """Calls the functions it is sent; `slow` ones only in its own task."""

    def __init__(self, handled: list[str]) -> None:
        self.handled = handled

    async def on_start(self) -> None:
        WHERE.set("worker")

    async def receive(self, message: object) -> object:
        self.handled.append("own task")
        return self._handle(message)

    def receive_now(self, message: object) -> object:
        if message == "slow":
            return NOT_NOW
        self.handled.append("sender")
        return self._handle(message)

    def _handle(self, message: object) -> object:
        return message.work(self) if isinstance(message, Work) else None


class NotedAsk(OpenAsk):
    def __init__(self, work: Callable[[Worker], object]) -> None:
        super().__init__(Work(work))
        self.answers: list[object] = []

    def answer(self, value: object) -> None:
        self.answers.append(value)

    def fail(self, error: BaseException) -> None:
        self.answers.append(error)


@pytest.fixture
def handled() -> list[str]:
    return []


@pytest.fixture
async def worker(system: Group, handled: list[str]) -> Ref:
    ref = await system.start(
        lambda: Worker(handled), name="worker", restart=RestartPolicy("permanent"), capacity=2
    )
    await settle()
    return ref


def crash(_: Worker) -> None:
    raise RuntimeError("broken")


async def test_a_waiting_actor_handles_a_delivered_message_at_once(
    worker: Ref, handled: list[str]
) -> None:
    worker.deliver("a")

    assert handled == ["sender"]
    assert worker.statistics().handled == 1


async def test_a_delivered_message_is_handled_in_the_context_of_the_actor(worker: Ref) -> None:
    WHERE.set("sender")
    ask = NotedAsk(lambda _: WHERE.get())

    worker.deliver(ask)

    assert ask.answers == ["worker"]
    assert WHERE.get() == "sender"


async def test_a_delivered_message_does_not_overtake_a_waiting_one(
    worker: Ref, handled: list[str]
) -> None:
    worker.tell("a")
    worker.deliver("b", urgent=True)
    assert handled == []

    await settle()

    assert handled == ["own task", "own task"]


async def test_an_actor_may_leave_a_delivered_message_to_its_own_task(
    worker: Ref, handled: list[str]
) -> None:
    worker.deliver("slow")
    assert (handled, worker.statistics().waiting) == ([], 1)

    await settle()

    assert handled == ["own task"]
    assert worker.statistics().handled == 1


async def test_a_full_mailbox_refuses_a_delivered_message(worker: Ref) -> None:
    worker.tell("a")
    worker.tell("b")

    with pytest.raises(MailboxFull):
        worker.deliver("c")


async def test_a_stopped_actor_refuses_a_delivered_message(worker: Ref, handled: list[str]) -> None:
    worker.stop_nowait()

    with pytest.raises(ActorStopped):
        worker.deliver("a")
    assert handled == []


async def test_a_crash_in_a_delivery_is_that_of_the_actor(worker: Ref, handled: list[str]) -> None:
    ask = NotedAsk(crash)

    worker.deliver(ask)
    await settle()

    assert [str(answer) for answer in ask.answers] == ["broken"]
    assert worker.statistics().restarts == 1
    worker.deliver("a")
    assert handled == ["sender", "sender"]


async def test_a_delivered_message_may_end_the_actor(system: Group) -> None:
    def finish(_: Worker) -> None:
        raise StopActor

    ref = await system.start(lambda: Worker([]))
    await settle()

    ref.deliver(Work(finish))

    await ref.wait_stopped()


async def test_a_message_sent_inside_a_delivery_waits_in_the_mailbox(
    worker: Ref, system: Group, handled: list[str]
) -> None:
    others: list[str] = []
    other = await system.start(lambda: Worker(others), name="other")
    await settle()

    def send(_: Worker) -> None:
        worker.deliver("to itself")
        other.deliver("to another")

    worker.deliver(Work(send))
    assert (handled, others) == (["sender"], [])

    await settle()

    assert (handled, others) == (["sender", "own task"], ["own task"])


async def test_a_delivered_message_may_begin_a_pause(worker: Ref, handled: list[str]) -> None:
    pause: Pause[str] = Pause()
    ask = NotedAsk(lambda _: pause)
    worker.deliver(ask)
    worker.deliver("next")
    await settle()
    assert (ask.answers, handled) == ([], ["sender"])

    pause.end("done")
    assert ask.answers == ["done"]
    await settle()

    assert handled == ["sender", "own task"]


async def test_a_pause_that_is_over_before_its_delivery_returns_is_answered(worker: Ref) -> None:
    def end_early(_: Worker) -> Pause[str]:
        pause: Pause[str] = Pause()
        pause.end("early")
        return pause

    ask = NotedAsk(end_early)
    worker.deliver(ask)

    assert ask.answers == ["early"]


async def test_a_pause_that_crashed_before_its_delivery_returns_fails_once(worker: Ref) -> None:
    def crash_early(_: Worker) -> Pause[str]:
        pause: Pause[str] = Pause()
        pause.crash(RuntimeError("broken"))
        return pause

    ask = NotedAsk(crash_early)
    worker.deliver(ask)
    await settle()

    assert [str(answer) for answer in ask.answers] == ["broken"]
    assert worker.statistics().restarts == 1


async def test_a_later_answer_reaches_an_open_ask(worker: Ref) -> None:
    later: Later[str] = Later()
    ask = NotedAsk(lambda _: later)
    worker.deliver(ask)
    assert ask.answers == []

    later.answer("late")

    assert ask.answers == ["late"]


async def test_an_open_ask_in_a_closing_mailbox_fails(worker: Ref) -> None:
    ask = NotedAsk(crash)
    worker.tell("a")
    worker.tell(ask)

    worker.stop_nowait()

    assert [type(answer) for answer in ask.answers] == [ActorStopped]


async def test_an_actor_that_stops_itself_in_a_delivery_ends_as_stopped(worker: Ref) -> None:
    ask = NotedAsk(lambda actor: actor.ref.stop_nowait())

    worker.deliver(ask)

    assert ask.answers == [None]
    assert isinstance(await worker.wait_stopped(), Stopped)


# The task of the actor is cancelled while a sender handles a message --------------------------


def cancel_then(result: object) -> Callable[[Worker], object]:
    def work(actor: Worker) -> object:
        actor.ref.stop_nowait(within_seconds=0.0)
        return result

    return work


async def test_an_actor_cancelled_in_a_delivery_still_answers(worker: Ref) -> None:
    ask = NotedAsk(cancel_then("done"))

    worker.deliver(ask)

    assert ask.answers == ["done"]
    assert isinstance(await worker.wait_stopped(), Stopped)


async def test_an_actor_cancelled_in_a_delivery_drops_the_pause_that_follows(worker: Ref) -> None:
    pause: Pause[str] = Pause()
    ask = NotedAsk(cancel_then(pause))

    worker.deliver(ask)

    assert pause.is_over
    assert [type(answer) for answer in ask.answers] == [ActorStopped]
    assert isinstance(await worker.wait_stopped(), Killed)


async def test_a_program_cancelled_in_a_delivery_cancels_its_actors() -> None:
    pause: Pause[str] = Pause()
    with trio.CancelScope() as program:
        async with open_actors() as system:
            ref = await system.start(lambda: Worker([]))
            await settle()

            def cancel_program(_: Worker) -> Pause[str]:
                program.cancel()
                return pause

            ref.deliver(Work(cancel_program))
    assert program.cancelled_caught
    assert pause.is_over


async def test_a_delivery_from_a_foreign_thread_changes_nothing(
    worker: Ref, handled: list[str]
) -> None:
    with pytest.raises(RuntimeError):
        await trio.to_thread.run_sync(worker.deliver, "a")

    assert handled == []
    worker.deliver("b")
    assert handled == ["sender"]


def test_some_seeds_let_every_message_pass_through_a_mailbox() -> None:
    ways: set[tuple[str, ...]] = set()

    async def main() -> None:
        handled: list[str] = []
        async with open_actors() as system:
            ref = await system.start(lambda: Worker(handled))
            await settle()
            ref.deliver("a")
            await settle()
        ways.add(tuple(handled))

    assert explore(main, seeds=20) == []
    assert ways == {("sender",), ("own task",)}
