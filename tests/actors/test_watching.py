import pytest
import trio

from actors import (
    ActorStopped,
    BadSpec,
    Crashed,
    Ended,
    Finished,
    GaveUp,
    Group,
    Killed,
    Ref,
    RestartPolicy,
    Stopped,
    UnknownActor,
    open_actors,
)
from actors.testing import settle
from tests.support.fake_actors import (
    ActorLog,
    FakeActor,
    crash,
    fake_actor,
    fake_actor_specs,
    finish,
    hang,
    work,
)


class Watcher(FakeActor):
    """Keep the Ended messages."""

    def __init__(self, news: list[Ended]) -> None:
        super().__init__()
        self.news = news

    async def receive(self, message: object) -> object:
        if isinstance(message, Ended):
            self.news.append(message)
            return None
        return await super().receive(message)


@pytest.fixture
def news() -> list[Ended]:
    return []


@pytest.fixture
async def watcher(system: Group, news: list[Ended]) -> Ref:
    return await system.start(lambda: Watcher(news), name="watcher", capacity=1)


@pytest.fixture
async def star(system: Group) -> Ref:
    return await system.start(FakeActor, name="star", restart="temporary", shutdown_seconds=1.0)


@pytest.mark.parametrize(("action", "reason"), [(finish, Finished), (crash, Crashed)])
async def test_a_watcher_gets_the_ref_and_the_reason(
    watcher: Ref, star: Ref, news: list[Ended], action: object, reason: type
) -> None:
    watcher.watch(star)

    star.tell(action)
    await settle()

    assert [item.ref for item in news] == [star]
    assert isinstance(news[0].reason, reason)


async def test_a_watcher_is_notified_of_a_stop_and_of_a_kill(
    watcher: Ref, star: Ref, system: Group, news: list[Ended]
) -> None:
    stubborn = await system.start(FakeActor, shutdown_seconds=0)
    stubborn.tell(hang)
    watcher.watch(star)
    watcher.watch(stubborn)
    await settle()

    await star.stop()
    await stubborn.stop()
    await settle()

    assert [item.reason for item in news] == [Stopped(), Killed()]


async def test_a_restart_does_not_notify_watchers(
    system: Group, watcher: Ref, news: list[Ended]
) -> None:
    phoenix = await system.start(FakeActor)
    watcher.watch(phoenix)

    phoenix.tell(crash)
    await settle()

    assert phoenix.statistics().restarts == 1
    assert news == []


async def test_watching_an_ended_actor_notifies_at_once(
    watcher: Ref, star: Ref, news: list[Ended]
) -> None:
    await star.stop()

    watcher.watch(star)
    await settle()

    assert [item.reason for item in news] == [Stopped()]


async def test_watching_twice_notifies_once(watcher: Ref, star: Ref, news: list[Ended]) -> None:
    watcher.watch(star)
    watcher.watch(star)

    await star.stop()
    await settle()

    assert len(news) == 1


async def test_a_watch_can_be_removed(watcher: Ref, star: Ref, news: list[Ended]) -> None:
    watcher.watch(star)
    watcher.unwatch(star)

    await star.stop()
    await settle()

    assert news == []


async def test_removing_an_unknown_watch_has_no_effect(watcher: Ref, star: Ref) -> None:
    watcher.unwatch(star)


async def test_an_ended_message_needs_no_room(watcher: Ref, star: Ref, news: list[Ended]) -> None:
    watcher.watch(star)
    watcher.tell(work(1))
    await settle()
    watcher.tell("full")

    await star.stop()

    assert watcher.statistics().waiting == 2
    await trio.sleep(2)
    assert len(news) == 1


async def test_an_ended_message_comes_after_earlier_messages(
    system: Group, actor_log: ActorLog
) -> None:
    class Reader(FakeActor):
        async def receive(self, message: object) -> object:
            if isinstance(message, Ended):
                self.note("hears of the end")
            return await super().receive(message)

    reader = await system.start(lambda: Reader(actor_log), name="reader")

    async def speak_and_end() -> None:
        reader.tell("last words")
        await finish()

    star = await system.start(FakeActor)
    reader.watch(star)
    star.tell(speak_and_end)
    await settle()

    assert actor_log[-2:] == ["reader last words", "reader hears of the end"]


async def test_a_watch_outlives_the_restart_of_the_watcher(
    watcher: Ref, star: Ref, news: list[Ended]
) -> None:
    watcher.watch(star)
    watcher.tell(crash)
    await settle()

    await star.stop()
    await settle()

    assert len(news) == 1


async def test_a_stopped_actor_cannot_watch(watcher: Ref, star: Ref) -> None:
    await watcher.stop()

    with pytest.raises(ActorStopped):
        watcher.watch(star)


async def test_the_end_of_a_watcher_has_no_effect_on_other_watchers(
    watcher: Ref, star: Ref
) -> None:
    watcher.watch(star)
    await watcher.stop()

    await star.stop()

    assert star.statistics().state == "stopped"


async def test_two_actors_may_watch_each_other(system: Group, news: list[Ended]) -> None:
    one = await system.start(lambda: Watcher(news), name="one")
    two = await system.start(lambda: Watcher(news), name="two")
    one.watch(two)
    two.watch(one)

    await one.stop()
    await settle()

    assert [item.ref for item in news] == [one]


async def test_an_actor_that_watches_itself_ends_normally(watcher: Ref) -> None:
    watcher.watch(watcher)

    await watcher.stop()

    assert watcher.statistics().state == "stopped"


async def test_a_group_can_be_watched(
    system: Group, watcher: Ref, news: list[Ended], actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a", "b"))
    watcher.watch(group)

    await group.stop()
    await settle()

    assert [(item.ref, item.reason) for item in news] == [(group, Stopped())]


async def test_a_watcher_gets_gave_up() -> None:
    news: list[Ended] = []
    async with open_actors() as system:
        watcher = await system.start(lambda: Watcher(news))
        star = await system.start(FakeActor, restart=RestartPolicy(max_restarts=0))
        watcher.watch(star)

        star.tell(crash)
        await settle()

    assert isinstance(news[0].reason, GaveUp)


async def test_watchers_get_the_exit_of_each_member_of_a_failed_group(
    system: Group, watcher: Ref, news: list[Ended], actor_log: ActorLog
) -> None:
    group = await system.start_group(fake_actor_specs(actor_log, "a", "b"), max_restarts=0)
    watcher.watch(group["a"])
    watcher.watch(group["b"])

    group["a"].tell(crash)
    await settle()

    reasons = {item.ref.name: type(item.reason) for item in news}
    assert reasons == {"a": GaveUp, "b": Stopped}


async def test_one_actor_may_watch_a_thousand(system: Group, news: list[Ended]) -> None:
    watcher = await system.start(lambda: Watcher(news))
    group = await system.start_group([], stop_order="together")
    for _ in range(1000):
        watcher.watch(await group.start(fake_actor()))

    await group.stop()
    await settle()

    assert len({item.ref for item in news}) == 1000


async def test_watching_something_that_is_not_a_handle_is_refused(system: Group) -> None:
    ref = await system.start(fake_actor())

    with pytest.raises(BadSpec, match="cannot be watched"):
        ref.watch(None)  # type: ignore[arg-type]
    with pytest.raises(UnknownActor):
        system[[]]  # type: ignore[index]
