"""Log lines about the ends of actors."""

import logging

import pytest
import trio

from actors import (
    Crashed,
    Exit,
    Finished,
    Group,
    Killed,
    RestartPolicy,
    Stopped,
)
from actors.testing import settle
from tests.support.fake_actors import (
    Action,
    ActorLog,
    FakeActor,
    IntendedCrash,
    crash,
    fake_actor,
    finish,
    hang,
    lines_with,
    work,
)


@pytest.mark.parametrize(
    ("action", "level"), [(crash, logging.ERROR), (finish, logging.INFO)], ids=["crash", "finish"]
)
async def test_an_end_is_logged_at_the_matching_level(
    system: Group, caplog: pytest.LogCaptureFixture, action: Action, level: int
) -> None:
    caplog.set_level(logging.INFO, "actors")
    ref = await system.start(FakeActor, name="a", restart="temporary")

    ref.tell(action)
    await ref.wait_stopped()

    assert [record.levelno for record in caplog.records] == [level]


async def test_a_crash_during_a_stop_is_logged(
    system: Group, caplog: pytest.LogCaptureFixture
) -> None:
    async def crash_late() -> None:
        await trio.sleep(1)
        raise IntendedCrash

    ref = await system.start(FakeActor, name="a")
    ref.tell(crash_late)
    await settle()
    await ref.stop()

    assert "IntendedCrash" in caplog.text


@pytest.mark.parametrize(
    ("action", "exit_"), [(crash, Crashed), (finish, Finished), (hang, Killed), (work(1), Stopped)]
)
@pytest.mark.parametrize("restart", ["permanent", "transient", "temporary"])
async def test_no_actor_that_ends_during_a_stop_is_restarted(
    system: Group, actor_log: ActorLog, action: Action, exit_: type[Exit], restart: str
) -> None:
    async def do_it_later() -> None:
        await trio.sleep(1)
        await action()

    policy = RestartPolicy(restart)  # type: ignore[arg-type]
    ref = await system.start(fake_actor(actor_log), name="a", restart=policy, shutdown_seconds=3.0)
    ref.tell(do_it_later)
    await settle()
    await ref.stop()

    assert isinstance(await ref.wait_stopped(), exit_)
    assert lines_with(actor_log, "starts") == ["a starts"]


async def test_a_crash_in_a_cancelled_start_is_logged(
    system: Group, caplog: pytest.LogCaptureFixture
) -> None:
    async def fail_when_cancelled() -> None:
        try:
            await trio.sleep_forever()
        finally:
            raise ValueError("in the clean-up")

    with trio.move_on_after(1.0):
        await system.start(fake_actor(on_start=fail_when_cancelled))

    assert "in the clean-up" in caplog.text
