"""A commit is stored but the writer crashes before its answer: the outcome is still reported."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import pytest
import trio

from actors.testing import settle
from supervisor import Session, Supervisor, SupervisorError
from supervisor.store.memory import MemoryStore
from supervisor.store.port import Write
from tests.support.fake_agents import AgentRun, records
from tests.support.fake_store import FailingStore


@pytest.fixture
def _no_crashes() -> None:
    """Allow the writer and its callers to crash."""


def fail_late_once(store: FailingStore, monkeypatch: pytest.MonkeyPatch, *, spared: int) -> None:
    real, left = store.commit, [None] * spared

    async def commit(writes: Sequence[Write]) -> list[SupervisorError | None]:
        if left:
            left.pop()
            return await real(writes)
        monkeypatch.setattr(store, "commit", real)
        await MemoryStore.commit(store, writes)
        raise OSError("the disk is gone, after all was kept")

    monkeypatch.setattr(store, "commit", commit)


async def test_a_permission_request_cancelled_by_a_failed_start_leaves_the_inbox(
    store: FailingStore,
    sup: Supervisor,
    session: Session,
    run: AgentRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run.begin(run.turn.ask("may I?", tool="bash"))
    await settle()
    store._claim(session.id)  # as another supervisor would: the next commit here is fenced
    fail_late_once(store, monkeypatch, spared=1)

    with suppress(SupervisorError):
        await session.set(title="found out")
    await trio.sleep(60)

    assert (await records(session, "permission_answered"))[-1].body["decision"] == "cancelled"
    assert await sup.permissions() == ()
