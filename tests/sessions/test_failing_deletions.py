"""Deletions during which the writer crashes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from supervisor import Session, SessionNotFound, StoreDegraded, Supervisor
from supervisor.sessions.writer_requests import MAX_REQUESTS
from tests.support.fake_agents import FakeAgent

Work = Callable[..., Awaitable[Any]]


@pytest.fixture
def break_store(sup: Supervisor, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that makes a method of the store raise an unknown error a few times."""

    def replace(method: str, *, times: int, moment: str = "before") -> None:
        store, failures = sup._services.store, iter(range(times))
        work: Work = getattr(store, method)

        async def fail(*args: object) -> object:
            fails = next(failures, None) is not None
            result = await work(*args) if moment == "after" or not fails else None
            if fails:
                raise OSError("the disk is gone")
            return result

        monkeypatch.setattr(store, method, fail)

    return replace


async def check_deleted(sup: Supervisor, session: Session) -> None:
    with pytest.raises(SessionNotFound):
        await session.info()
    assert sup._parts.admission.tree.find(session.id) is None
    assert sup._parts.registry.find_slot(session.id) is None


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("method", ["delete", "purge_deleted", "commit"])
async def test_a_deletion_survives_a_crash_of_the_writer(
    sup: Supervisor,
    fake_agent: FakeAgent,
    break_store: Callable[..., None],
    method: str,
    moment: str,
) -> None:
    root = await sup.create("fake")
    child = await root.spawn("fake", "work")
    (await fake_agent.next_run()).finish()
    await child.stop()
    break_store(method, times=1, moment=moment)

    await sup.delete(child.id)
    await sup.delete(root.id)

    await check_deleted(sup, child)
    await check_deleted(sup, root)


async def test_a_deletion_is_refused_with_a_type_when_the_store_stays_broken(
    sup: Supervisor, session: Session, break_store: Callable[..., None]
) -> None:
    break_store("delete", times=MAX_REQUESTS)

    with pytest.raises(StoreDegraded, match="the disk is gone"):
        await sup.delete(session.id)

    await sup.delete(session.id)
    await check_deleted(sup, session)


async def test_a_stored_deletion_without_a_reply_succeeds(
    sup: Supervisor, session: Session, break_store: Callable[..., None]
) -> None:
    break_store("delete", times=MAX_REQUESTS, moment="after")

    await sup.delete(session.id)

    await check_deleted(sup, session)
