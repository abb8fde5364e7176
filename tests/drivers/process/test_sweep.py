"""Who belongs to a containment that has no guardian any more, and who only looks like it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import attrs
import pytest
import trio

from supervisor.drivers.guardian.guard import kill_further_down
from supervisor.drivers.identity import ProcessIdentity, identify, is_alive
from supervisor.drivers.process.leftovers.marker import (
    VARIABLE,
    Marker,
    current_namespace,
    find_marker,
    new_marker,
    parse_marker,
)
from supervisor.drivers.process.leftovers.sweep import (
    Seen,
    kill_left_behind,
    look_around,
    members,
    orphaned,
)
from tests.drivers.process.programs import PATIENCE_SECONDS, PREAMBLE, alive, known

US = known(os.getpid())
NAMESPACE = current_namespace() or ""
MARKER = Marker("token", 4_000_001, 1, NAMESPACE)  # of a guardian that is dead
OTHER = Marker("other", US.pid, US.start_time, NAMESPACE)  # of one that lives


def seen(
    pid: int, *, parent: int = 1, session: int = 0, marker: Marker | None = None, start: int = 7
) -> Seen:
    identity = ProcessIdentity(pid, start, US.boot_id)
    return Seen(identity, parent, session, is_own=True, marker=marker)


# The mark ---------------------------------------------------------------------------------


def test_a_mark_is_read_as_it_was_written() -> None:
    marker = new_marker(US)

    assert parse_marker(str(marker)) == marker
    assert marker.is_guardian(US)
    assert new_marker(US) != marker


@pytest.mark.parametrize("text", ["", "a", "a.1.2", "a.x.2.3", "a.1.2.3.4", "a.01.2.3", "a.-1.2.3"])
def test_what_is_no_mark_is_not_taken_for_one(text: str) -> None:
    assert parse_marker(text) is None


def test_a_mark_is_found_among_all_that_is_in_an_environment() -> None:
    environ = b"\0".join([b"A=1", b"\xff", f"{VARIABLE}={MARKER}".encode(), b"X=", b""])

    assert find_marker(environ) == MARKER
    assert find_marker(b"NOT_" + environ.split(b"\0")[2]) is None


# Choosing ---------------------------------------------------------------------------------


def test_who_bears_the_mark_is_a_member_and_who_bears_another_is_not() -> None:
    everyone = [seen(2, marker=MARKER), seen(3, marker=OTHER), seen(4)]

    assert [one.pid for one in members(everyone, {MARKER}, [])] == [2]


def test_who_is_in_the_session_of_a_living_agent_is_a_member() -> None:
    everyone = [seen(2, session=US.pid), seen(3, session=2)]

    assert [one.pid for one in members(everyone, set(), [US])] == [2]


def test_a_session_whose_number_is_used_again_has_no_members() -> None:
    everyone = [seen(2, session=US.pid)]
    before = attrs.evolve(US, start_time=US.start_time - 1)

    assert members(everyone, set(), [before]) == []


def test_children_of_a_member_that_lives_are_members_down_to_the_last() -> None:
    parent = seen(US.pid, marker=MARKER, start=US.start_time)
    everyone = [seen(3, parent=2), parent, seen(2, parent=US.pid), seen(4, parent=1)]

    # The last one's parent does not live, so who knows whose child it is.
    assert [one.pid for one in members(everyone, {MARKER}, [])] == [US.pid, 2]


def test_a_mark_is_orphaned_when_its_guardian_is_dead() -> None:
    recycled = Marker("recycled", US.pid, US.start_time - 1, NAMESPACE)
    everyone = [seen(2, marker=MARKER), seen(3, marker=OTHER), seen(4, marker=recycled), seen(5)]

    assert orphaned(everyone) == {MARKER, recycled}


def test_a_mark_of_another_user_of_a_container_or_of_our_own_is_not_orphaned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = attrs.evolve(MARKER, guardian_pid=4_000_002)
    monkeypatch.setenv(VARIABLE, str(ours))
    others = attrs.evolve(seen(2, marker=MARKER), is_own=False)
    inside = attrs.evolve(MARKER, namespace="1")

    assert orphaned([others, seen(3, marker=inside), seen(4, marker=ours)]) == set()


def test_looking_around_finds_ourselves_as_we_are() -> None:
    (ourselves,) = [one for one in look_around() if one.identity == US]

    assert (ourselves.parent, ourselves.session) == (os.getppid(), os.getsid(0))
    assert ourselves.is_own


# At start, with real processes --------------------------------------------------------------


@pytest.fixture
def left_behind() -> Iterator[tuple[ProcessIdentity, list[ProcessIdentity]]]:
    """An agent that has lost guardian and supervisor, and what it has started: all sessions."""
    marker = new_marker(ProcessIdentity(4_000_001, 1, ""))
    program = (
        f"{PREAMBLE}\n"
        "say(child(os.setsid)); say(child(lambda: (escape(), say(os.getpid())))); sleep()"
    )
    with subprocess.Popen(
        [sys.executable, "-I", "-S", "-c", program],
        env={VARIABLE: str(marker)},
        stdout=subprocess.PIPE,
        start_new_session=True,
    ) as process:
        assert process.stdout is not None
        lines = [int(process.stdout.readline()) for _ in range(3)]
        try:
            agent = known(process.pid)
            yield agent, [one for one in map(identify, lines) if one is not None]
        finally:
            process.kill()


Left = tuple[ProcessIdentity, list[ProcessIdentity]]


async def test_what_an_agent_has_started_is_killed_with_it_at_the_next_start(
    left_behind: Left,
) -> None:
    agent, others = left_behind
    with trio.fail_after(PATIENCE_SECONDS):
        fates = await kill_left_behind([agent])

    assert fates[0].identity == agent
    assert fates[0].fate in ("killed", "gone")  # another test may have found it first
    assert alive([agent, *others]) == []


async def test_what_nobody_has_noted_is_killed_because_it_has_no_guardian(
    left_behind: Left,
) -> None:
    agent, others = left_behind
    os.kill(agent.pid, signal.SIGKILL)
    with trio.fail_after(PATIENCE_SECONDS):
        await kill_left_behind([])

    assert alive(others) == []


# In the guardian ----------------------------------------------------------------------------


def test_a_guardian_does_not_touch_who_is_no_longer_below_it() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as stranger:  # noqa: S607 - any program
        with pytest.raises(ProcessLookupError):
            kill_further_down(stranger.pid, {os.getpid() + 1})
        assert is_alive(known(stranger.pid))
        stranger.kill()
