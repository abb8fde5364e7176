"""Under random schedules, a name has one holder in its scope, which the index knows."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

import pytest
import trio

import supervisor
from actors.testing import explore
from supervisor import Session, Supervisor, SupervisorError
from supervisor.core.names import held_name, name_scope
from supervisor.sessions.names import NameIndex
from supervisor.store import memory
from tests.simulation.timing import random_pause
from tests.simulation.violations import PropertyViolated

NAMES: Final = ("a", "b", "a-2")
KEYS: Final = ("echo:x:1", "echo:x:2")


async def change_names(sup: Supervisor) -> None:
    """Create, rename, archive and delete sessions at once, with few names."""
    sessions: list[Session] = []

    def one() -> Session:
        return random.choice(sessions)

    async def make(made: Awaitable[Session]) -> None:
        sessions.append(await made)

    actions: tuple[Callable[[], Awaitable[object]], ...] = (
        lambda: make(sup.create("echo", name=random.choice(NAMES))),
        lambda: make(sup.new(random.choice(KEYS), name=random.choice(NAMES))),
        lambda: make(one().spawn("echo", "hi", name=random.choice(NAMES))),
        lambda: make(one().fork()),
        lambda: one().set(name=random.choice(NAMES)),
        lambda: one().stop(),
        lambda: one().archive(),
        lambda: one().unarchive(),
        lambda: one().resume(),
        lambda: sup.delete(one().id),
    )

    async def act() -> None:
        for _ in range(5):
            await random_pause()
            with suppress(SupervisorError), trio.move_on_after(random.choice([0.01, 5.0, 5.0])):
                await random.choice(actions)()

    sessions.append(await sup.create("echo"))
    async with trio.open_nursery() as nursery:
        for _ in range(6):
            nursery.start_soon(act)


async def check_names(sup: Supervisor) -> None:
    rows = [stored.row async for stored in sup._services.store.rows()]
    held = {row.id: (name_scope(row), held_name(row)) for row in rows if held_name(row)}
    for key, count in Counter(held.values()).items():
        if count > 1:
            raise PropertyViolated(f"{key} has {count} holders")
    known = sup._parts.admission.names._holders
    if {holders[0]: key for key, holders in known.items()} != held:
        raise PropertyViolated("the index differs from the stored sessions")


async def use_names() -> None:
    async with supervisor.open() as sup:
        await change_names(sup)
        await sup._services.detached_tasks.count.wait_value(0)
        await sup.drain()
        await check_names(sup)


def test_a_name_has_one_holder_under_concurrent_changes() -> None:
    assert explore(use_names, seeds=range(30), max_failures=1, early_timeouts=True) == []


@pytest.mark.parametrize("method", ["apply", "forget"])
def test_an_index_that_forgets_a_step_is_found(
    monkeypatch: pytest.MonkeyPatch, method: str
) -> None:
    # Without the check of the store, which refuses what the index has let pass.
    monkeypatch.setattr(memory, "name_refusal", lambda *_: None)
    monkeypatch.setattr(NameIndex, method, lambda *_, **__: None)

    assert explore(use_names, seeds=range(30), max_failures=1, early_timeouts=True)
