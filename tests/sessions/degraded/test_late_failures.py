"""A commit that was kept and whose writer died before it could say so: everybody hears of it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
import trio

from actors.testing import settle
from supervisor import Session, Supervisor, SupervisorError
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Write
from tests.sessions.cast import Scene, records
from tests.sessions.degraded.frail import FrailStore


@pytest.fixture
def _nobody_crashes() -> None:
    """Here the writer does, and whoever has asked it."""


def fail_late_once(store: FrailStore, monkeypatch: pytest.MonkeyPatch, *, spared: int) -> None:
    real, left = store.commit, [None] * spared

    async def commit(writes: Sequence[Write]) -> list[SupervisorError | None]:
        if left:
            left.pop()
            return await real(writes)
        monkeypatch.setattr(store, "commit", real)
        await MemoryStore.commit(store, writes)
        raise OSError("the disk is gone, after all was kept")

    monkeypatch.setattr(store, "commit", commit)


async def test_a_question_that_was_cancelled_by_a_start_that_failed_is_not_shown(
    store: FrailStore,
    sup: Supervisor,
    session: Session,
    scene: Scene,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    scene.begin(scene.turn.ask("may I?", tool="bash"))
    await settle()
    store._claim(session.id)  # as another supervisor would: the next commit here is fenced
    fail_late_once(store, monkeypatch, spared=1)

    with suppress(SupervisorError):
        await session.set(title="found out")
    await trio.sleep(60)

    assert (await records(session, "permission_answered"))[-1].body["decision"] == "cancelled"
    assert await sup.permissions() == ()
