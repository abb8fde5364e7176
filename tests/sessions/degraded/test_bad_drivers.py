"""A driver that fails when the store is back is its own session's trouble, not the writer's."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import suppress

import pytest
import trio

import supervisor
from supervisor import Session, Supervisor, SupervisorError
from supervisor.drivers.port import Office, Workshop
from supervisor.drivers.python import PythonDriver
from tests.sessions.cast import Player, Scene, records
from tests.sessions.degraded.frail import FrailStore, check_kept


class Fragile:
    """A kind of agent that cannot be started any more, from some time on."""

    name = "fragile"
    runs_process = False

    def __init__(self) -> None:
        self._player = Player("fragile")
        self.is_broken = False

    def make_driver(self, office: Office, workshop: Workshop) -> PythonDriver:
        if self.is_broken:
            raise RuntimeError("on purpose")
        return self._player.agent.make_driver(office, workshop)


@pytest.fixture
def fragile() -> Fragile:
    return Fragile()


@pytest.fixture
async def sup(player: Player, fragile: Fragile) -> AsyncIterator[Supervisor]:
    async with supervisor.open(agents=[player.agent, fragile]) as opened:
        try:
            yield opened
        finally:
            player.dismiss()


@pytest.fixture
def _nobody_crashes() -> None:
    """Here somebody may: the session whose driver it is."""


async def test_only_the_session_whose_driver_fails_has_trouble(
    store: FrailStore, sup: Supervisor, session: Session, scene: Scene, fragile: Fragile
) -> None:
    bad = await sup.create("fragile")
    await bad.stop()
    store.commits_left = 1  # enough to wake it
    with trio.move_on_after(1), suppress(SupervisorError):
        await bad.resume()
    await session.interrupt()

    fragile.is_broken = True
    await store.get_well()

    assert sup._house.writer.statistics().restarts == 0
    assert scene.over.is_set()
    assert (await records(session, "turn_ended"))[-1].body["outcome"] == "interrupted"
    await check_kept(store, session)
