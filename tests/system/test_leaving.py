"""A normal close is not logged as a failure."""

import pytest
import trio

import supervisor
from actors.testing import VirtualClock

RUNS = 30  # trio shuffles who goes first, so one run says little


@supervisor.agent("stubborn")
async def stubborn(_: supervisor.Turn) -> None:
    with trio.CancelScope(shield=True):
        await trio.sleep(60.0)


async def leave_with_a_turn_that_will_not_end() -> None:
    async with supervisor.open(agents=[stubborn]) as sup:
        session = await sup.create("stubborn")
        await session.send("take your time")


def test_a_turn_that_outlives_the_supervisor_does_not_crash_its_session(
    caplog: pytest.LogCaptureFixture,
) -> None:
    for _ in range(RUNS):
        trio.run(leave_with_a_turn_that_will_not_end, clock=VirtualClock())

    assert [record.message for record in caplog.records if record.name == "actors"] == []
