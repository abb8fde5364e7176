"""Instrumentation callbacks see everything, and their errors disturb nothing."""

from __future__ import annotations

import pytest

import supervisor
from supervisor import Supervisor
from supervisor.core.facts import AnyRecord, as_record
from supervisor.sessions.instruments import Instruments


def taps_of(sup: Supervisor) -> Instruments:
    return sup._services.instruments


async def test_every_record_is_reported_once_and_in_order(sup: Supervisor) -> None:
    told: list[AnyRecord] = []
    taps_of(sup).record_callbacks.append(told.append)

    session = await sup.create("echo")
    await session.prompt("hello")

    records = [record for turn in await session.history() for record in turn.records]
    assert [as_record(record) for record in told] == records


async def test_a_deletion_is_reported_with_its_session(sup: Supervisor) -> None:
    told: list[str] = []
    taps_of(sup).deletion_callbacks.append(told.append)
    session = await sup.create("echo")

    await sup.delete(session.id)

    assert told == [session.id]


async def test_commits_are_reported_with_all_their_writes(sup: Supervisor) -> None:
    told: list[tuple[float, int]] = []
    taps_of(sup).commit_callbacks.append(lambda seconds, writes: told.append((seconds, writes)))

    await (await sup.create("echo")).prompt("hello")

    assert len(told) > 1
    assert all(seconds >= 0 and writes > 0 for seconds, writes in told)


async def test_an_instrument_that_raises_is_logged_and_affects_nothing(
    sup: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bad tap")

    told: list[AnyRecord] = []
    taps = taps_of(sup)
    taps.record_callbacks += [fail, told.append]
    taps.deletion_callbacks.append(fail)
    taps.commit_callbacks.append(fail)

    session = await sup.create("echo")
    result = await session.prompt("hello")
    await sup.delete(session.id)

    assert result.text == "hello"
    assert told[-1].kind == "session_stopped"
    assert "instrumentation callback raised" in caplog.text
    with pytest.raises(supervisor.SessionNotFound):
        await session.info()
