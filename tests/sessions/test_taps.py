"""Taps: whoever runs the house is told of everything, and cannot disturb it."""

from __future__ import annotations

import pytest

import supervisor
from supervisor import Record, Supervisor
from supervisor.sessions.house.taps import Taps


def taps_of(sup: Supervisor) -> Taps:
    return sup._house.taps


async def test_every_record_is_told_once_and_in_order(sup: Supervisor) -> None:
    told: list[Record] = []
    taps_of(sup).of_records.append(told.append)

    session = await sup.create("echo")
    await session.prompt("hello")

    records = [record for turn in await session.history() for record in turn.records]
    assert told == records


async def test_a_deletion_is_told_with_its_session(sup: Supervisor) -> None:
    told: list[str] = []
    taps_of(sup).of_deletions.append(told.append)
    session = await sup.create("echo")

    await sup.delete(session.id)

    assert told == [session.id]


async def test_commits_are_told_with_all_their_writes(sup: Supervisor) -> None:
    told: list[tuple[float, int]] = []
    taps_of(sup).of_commits.append(lambda seconds, writes: told.append((seconds, writes)))

    await (await sup.create("echo")).prompt("hello")

    assert len(told) > 1
    assert all(seconds >= 0 and writes > 0 for seconds, writes in told)


async def test_one_that_fails_is_logged_and_disturbs_nobody(
    sup: Supervisor, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: object) -> None:
        raise ValueError("a bad tap")

    told: list[Record] = []
    taps = taps_of(sup)
    taps.of_records += [fail, told.append]
    taps.of_deletions.append(fail)
    taps.of_commits.append(fail)

    session = await sup.create("echo")
    result = await session.prompt("hello")
    await sup.delete(session.id)

    assert result.text == "hello"
    assert told[-1].kind == "session_stopped"
    assert "failed" in caplog.text
    with pytest.raises(supervisor.SessionNotFound):
        await session.info()
