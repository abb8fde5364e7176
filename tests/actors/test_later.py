import pytest
import trio

from actors import Actor, ActorStopped, Ask, AskTimeout, Group, Later, Ref, StopActor
from actors.testing import settle


class Order(Ask[str]):
    """An ask that is answered later."""


class Clerk(Actor):
    """Answer all pending asks when told to."""

    owed: list[Later[str]]

    async def on_start(self) -> None:
        self.owed = []

    async def receive(self, message: object) -> object:
        match message:
            case Order():
                later: Later[str] = Later()
                self.owed.append(later)
                return later
            case "answer":
                for number, later in enumerate(self.owed):
                    later.answer(f"order {number}")
                    later.answer("never this")
            case "fail":
                self.owed[0].fail(ValueError("sold out"))
            case "crash":
                raise RuntimeError("crash")
            case "end":
                raise StopActor
        return None


class AtOnce(Actor):
    async def receive(self, message: object) -> object:
        later: Later[str] = Later()
        later.answer("before it was returned")
        return later


@pytest.fixture
async def clerk(system: Group) -> Ref:
    return await system.start(Clerk)


async def test_an_answer_may_come_after_other_messages_were_handled(
    clerk: Ref, nursery: trio.Nursery
) -> None:
    answers: list[str] = []

    async def order() -> None:
        answers.append(await clerk.ask(Order()))

    nursery.start_soon(order)
    nursery.start_soon(order)
    await settle()
    assert answers == []

    clerk.tell("answer")
    await settle()

    assert sorted(answers) == ["order 0", "order 1"]


async def test_a_deferred_answer_may_be_set_before_receive_returns(system: Group) -> None:
    ref = await system.start(AtOnce)

    assert await ref.ask(Order()) == "before it was returned"


async def test_an_owed_answer_may_be_an_error(clerk: Ref, nursery: trio.Nursery) -> None:
    async def fail_soon() -> None:
        await settle()
        clerk.tell("fail")

    nursery.start_soon(fail_soon)

    with pytest.raises(ValueError, match="sold out"):
        await clerk.ask(Order())


@pytest.mark.parametrize("end", ["crash", "end"])
async def test_an_owed_answer_is_an_error_when_the_actor_ends(
    clerk: Ref, nursery: trio.Nursery, end: str
) -> None:
    async def end_soon() -> None:
        await settle()
        clerk.tell(end)

    nursery.start_soon(end_soon)

    with pytest.raises(ActorStopped, match="effects are unknown"):
        await clerk.ask(Order())


async def test_a_deferred_answer_that_comes_after_the_timeout_is_dropped(clerk: Ref) -> None:
    with pytest.raises(AskTimeout):
        await clerk.ask(Order(), timeout_seconds=1.0)

    clerk.tell("answer")
    await settle()

    assert clerk.statistics().restarts == 0
