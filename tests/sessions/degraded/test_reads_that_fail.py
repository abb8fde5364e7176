"""A disk that cannot be read either: the caller hears it, and no session ends by it."""

from __future__ import annotations

from typing import Any

import pytest

from supervisor import Session, StoreDegraded, Supervisor
from tests.sessions.cast import Player, Scene
from tests.sessions.degraded.frail import HINT, PROBLEM, FrailStore


@pytest.fixture
def unreadable(store: FrailStore, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on nothing can be read."""

    async def fail(*_: Any, **__: Any) -> Any:  # noqa: ANN401 - as each of them
        raise StoreDegraded(PROBLEM, hint=HINT)

    for name in ("kept", "records", "read"):
        monkeypatch.setattr(store, name, fail)


async def test_an_input_with_a_key_is_refused_and_the_session_goes_on(
    session: Session, scene: Scene, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("unreadable")

    with pytest.raises(StoreDegraded):
        await session.send("more", idempotency_key="k")

    assert not scene.over.is_set()


async def test_a_turn_goes_on_and_can_be_interrupted(
    session: Session, scene: Scene, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("unreadable")
    await scene.do(scene.turn.say("word"))

    assert (await session.interrupt()).stopped == 1


async def test_a_history_that_cannot_be_read_is_said_so(
    sup: Supervisor, session: Session, player: Player, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue("unreadable")

    with pytest.raises(StoreDegraded):
        await session.history()
