import gc
import weakref

import pytest
import trio

from actors import Actor, ActorStopped, Ask, Group, Pause, Ref, StopActor, Tracked
from actors.testing import settle


class Order(Ask[str]):
    """An ask that is answered at the end of a pause."""


class Clerk(Actor):
    """Pause at each order and each "think"; note every other message."""

    pauses: list[Pause[str]]
    noted: list[object]

    async def on_start(self) -> None:
        self.pauses, self.noted = CLERKS.setdefault(self.ref.name, ([], []))

    async def receive(self, message: object) -> object:
        if isinstance(message, Order) or message == "think":
            pause: Pause[str] = Pause()
            self.pauses.append(pause)
            return pause
        self.noted.append(message)
        return None


# What the incarnations of a clerk have seen, by name: a test looks at it from outside.
CLERKS: dict[str, tuple[list[Pause[str]], list[object]]] = {}


@pytest.fixture
async def clerk(system: Group) -> Ref:
    CLERKS.clear()
    return await system.start(Clerk, name="clerk")


def pauses() -> list[Pause[str]]:
    return CLERKS["clerk"][0]


def noted() -> list[object]:
    return CLERKS["clerk"][1]


async def ask_into(answers: list[object], ref: Ref) -> None:
    try:
        answers.append(await ref.ask(Order()))
    except Exception as error:  # noqa: BLE001 - the test looks at it
        answers.append(error)


async def answers_to_ask(clerk: Ref, nursery: trio.Nursery) -> list[object]:
    """Ask the clerk, which pauses; return the list that gets the answer or the error."""
    answers: list[object] = []
    nursery.start_soon(ask_into, answers, clerk)
    await settle()
    return answers


async def test_a_paused_actor_takes_no_message_before_its_answer(
    clerk: Ref, nursery: trio.Nursery
) -> None:
    answers = await answers_to_ask(clerk, nursery)
    clerk.tell("next")
    clerk.tell("urgent", urgent=True)
    await settle()
    assert (answers, noted()) == ([], [])

    pauses()[0].end("done")
    await settle()

    assert answers == ["done"]
    assert noted() == ["urgent", "next"]


async def test_an_actor_serves_messages_that_arrive_after_a_pause(
    clerk: Ref, nursery: trio.Nursery
) -> None:
    await answers_to_ask(clerk, nursery)
    pauses()[0].end("done")
    await settle()

    clerk.tell("next")
    await settle()

    assert noted() == ["next"]


async def test_a_pause_of_a_told_message_ends_with_an_answer(clerk: Ref) -> None:
    clerk.tell("think")
    clerk.tell("next")
    await settle()
    assert noted() == []

    pauses()[0].end("ignored")
    await settle()

    assert noted() == ["next"]


async def test_a_crash_in_a_pause_restarts_the_actor_and_reaches_the_asker(
    clerk: Ref, nursery: trio.Nursery
) -> None:
    answers = await answers_to_ask(clerk, nursery)
    clerk.tell("next")
    problem = RuntimeError("broken")

    pauses()[0].crash(problem)
    await settle()

    assert answers == [problem]
    assert clerk.statistics().restarts == 1
    assert noted() == ["next"]


async def test_a_pause_may_end_the_actor(clerk: Ref) -> None:
    clerk.tell("think")
    await settle()

    pauses()[0].crash(StopActor())

    await clerk.wait_stopped()


async def test_a_stop_waits_for_the_end_of_a_pause(clerk: Ref, nursery: trio.Nursery) -> None:
    answers = await answers_to_ask(clerk, nursery)
    clerk.stop_nowait()
    await settle()
    assert clerk.statistics().state == "stopping"

    pauses()[0].end("done")
    await clerk.wait_stopped()

    assert answers == ["done"]


async def test_a_pause_is_over_when_its_incarnation_is_cancelled(
    clerk: Ref, nursery: trio.Nursery
) -> None:
    answers = await answers_to_ask(clerk, nursery)
    [pause] = pauses()

    clerk.stop_nowait(within_seconds=0.0)
    await clerk.wait_stopped()

    assert pause.is_over
    assert isinstance(answers[0], ActorStopped)
    pause.end("too late")
    pause.crash(RuntimeError("too late"))


async def test_a_pause_that_ends_while_its_task_is_being_cancelled_changes_nothing(
    clerk: Ref, nursery: trio.Nursery
) -> None:
    answers = await answers_to_ask(clerk, nursery)

    clerk.stop_nowait(within_seconds=0.0)  # the task has not run since
    pauses()[0].end("too late")
    await clerk.wait_stopped()

    assert isinstance(answers[0], ActorStopped)


class Early(Actor):
    """End each pause before it is returned."""

    async def receive(self, message: object) -> object:
        pause: Pause[str] = Pause()
        if message == "crash":
            pause.crash(StopActor())
        else:
            pause.end("early")
        return pause


async def test_a_pause_may_be_over_before_receive_returns_it(system: Group) -> None:
    ref = await system.start(Early)

    assert await ref.ask(Order()) == "early"
    ref.tell("crash")
    await ref.wait_stopped()


class WeakPause(Pause[str]):
    """A pause that can be referenced weakly: it has no slots of its own."""


async def test_an_idle_actor_does_not_keep_its_last_pause(system: Group) -> None:
    pauses: list[WeakPause] = []

    class Pauser(Actor):
        async def receive(self, _: object) -> object:
            pauses.append(WeakPause())
            return pauses[-1]

    ref = await system.start(Pauser)
    ref.tell("think")
    await settle()
    kept = weakref.ref(pauses[0])
    pauses.pop().end("done")
    await settle()

    gc.collect()

    assert kept() is None


# Tracked messages ---------------------------------------------------------------------------


class Parcel(Tracked):
    def __init__(self) -> None:
        self.errors: list[Exception] = []

    def lost(self, error: Exception) -> None:
        self.errors.append(error)


async def test_a_tracked_message_learns_that_the_mailbox_closed_with_it(clerk: Ref) -> None:
    parcel = Parcel()
    clerk.tell("think")
    clerk.tell(parcel)
    await settle()

    clerk.stop_nowait(within_seconds=0.0)
    await clerk.wait_stopped()

    assert [type(error) for error in parcel.errors] == [ActorStopped]


async def test_a_tracked_message_survives_a_restart(clerk: Ref) -> None:
    parcel = Parcel()
    clerk.tell("think")
    clerk.tell(parcel)
    await settle()

    pauses()[0].crash(RuntimeError("broken"))
    await settle()

    assert noted() == [parcel]
    assert parcel.errors == []
