"""Members of a containment without guardian, and killing them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import attrs
import pytest
import trio

from supervisor.drivers.guardian.guard import kill_descendant
from supervisor.drivers.identity import ProcessIdentity, identify, is_alive
from supervisor.drivers.process.environment import (
    MARKER_VARIABLE,
    Marker,
    marker_in_environ,
    new_marker,
    parse_marker,
    pid_namespace,
)
from supervisor.drivers.process.orphans import (
    ObservedProcess,
    containment_members,
    kill_orphans,
    list_processes,
    orphaned_markers,
)
from tests.support.process_programs import PATIENCE_SECONDS, PREAMBLE, alive, known

US = known(os.getpid())
NAMESPACE = pid_namespace() or ""
MARKER = Marker("token", 4_000_001, 1, NAMESPACE)  # of a guardian that is dead
OTHER = Marker("other", US.pid, US.start_time, NAMESPACE)  # of one that lives


def seen(
    pid: int, *, parent: int = 1, session: int = 0, marker: Marker | None = None, start: int = 7
) -> ObservedProcess:
    identity = ProcessIdentity(pid, start, US.boot_id)
    return ObservedProcess(identity, parent, session, is_same_user=True, marker=marker)


# The mark ---------------------------------------------------------------------------------


def test_a_marker_is_parsed_from_its_text() -> None:
    marker = new_marker(US)

    assert parse_marker(str(marker)) == marker
    assert marker.is_guardian(US)
    assert new_marker(US) != marker


@pytest.mark.parametrize("text", ["", "a", "a.1.2", "a.x.2.3", "a.1.2.3.4", "a.01.2.3", "a.-1.2.3"])
def test_an_invalid_marker_is_not_parsed(text: str) -> None:
    assert parse_marker(text) is None


def test_a_marker_is_found_in_an_environment() -> None:
    environ = b"\0".join([b"A=1", b"\xff", f"{MARKER_VARIABLE}={MARKER}".encode(), b"X=", b""])

    assert marker_in_environ(environ) == MARKER
    assert marker_in_environ(b"NOT_" + environ.split(b"\0")[2]) is None


# Choosing ---------------------------------------------------------------------------------


def test_a_process_with_the_marker_is_a_member() -> None:
    everyone = [seen(2, marker=MARKER), seen(3, marker=OTHER), seen(4)]

    assert [one.pid for one in containment_members(everyone, {MARKER}, [])] == [2]


def test_a_process_in_the_session_of_a_live_agent_is_a_member() -> None:
    everyone = [seen(2, session=US.pid), seen(3, session=2)]

    assert [one.pid for one in containment_members(everyone, set(), [US])] == [2]


def test_a_reused_session_id_has_no_members() -> None:
    everyone = [seen(2, session=US.pid)]
    before = attrs.evolve(US, start_time=US.start_time - 1)

    assert containment_members(everyone, set(), [before]) == []


def test_all_descendants_of_a_live_member_are_members() -> None:
    parent = seen(US.pid, marker=MARKER, start=US.start_time)
    everyone = [seen(3, parent=2), parent, seen(2, parent=US.pid), seen(4, parent=1)]

    # The last one's parent does not live, so who knows whose child it is.
    assert [one.pid for one in containment_members(everyone, {MARKER}, [])] == [US.pid, 2]


def test_a_marker_is_orphaned_when_its_guardian_is_dead() -> None:
    recycled = Marker("recycled", US.pid, US.start_time - 1, NAMESPACE)
    everyone = [seen(2, marker=MARKER), seen(3, marker=OTHER), seen(4, marker=recycled), seen(5)]

    assert orphaned_markers(everyone) == {MARKER, recycled}


def test_a_marker_of_another_user_or_container_is_not_orphaned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ours = attrs.evolve(MARKER, guardian_pid=4_000_002)
    monkeypatch.setenv(MARKER_VARIABLE, str(ours))
    others = attrs.evolve(seen(2, marker=MARKER), is_same_user=False)
    inside = attrs.evolve(MARKER, namespace="1")

    assert orphaned_markers([others, seen(3, marker=inside), seen(4, marker=ours)]) == set()


def test_the_process_list_contains_our_own_process() -> None:
    (ourselves,) = [one for one in list_processes() if one.identity == US]

    assert (ourselves.parent, ourselves.session) == (os.getppid(), os.getsid(0))
    assert ourselves.is_same_user


# At start, with real processes --------------------------------------------------------------


@pytest.fixture
def left_behind() -> Iterator[tuple[ProcessIdentity, list[ProcessIdentity]]]:
    """Yield an agent without guardian and supervisor, and its children in other sessions.

    The guardian lives until all have started: any supervisor of this machine, such as one of a test
    that runs at the same time, kills an agent whose guardian is dead.
    """
    program = (
        f"{PREAMBLE}\n"
        "say(child(os.setsid)); say(child(lambda: (escape(), say(os.getpid())))); sleep()"
    )
    with (
        subprocess.Popen(["cat"], stdin=subprocess.PIPE) as guardian,  # noqa: S607 - any program
        subprocess.Popen(
            [sys.executable, "-I", "-S", "-c", program],
            env={MARKER_VARIABLE: str(new_marker(known(guardian.pid)))},
            stdout=subprocess.PIPE,
            start_new_session=True,
        ) as process,
    ):
        assert process.stdout is not None
        lines = [int(process.stdout.readline()) for _ in range(3)]
        try:
            agent = known(process.pid)
            others = [one for one in map(identify, lines) if one is not None]
            guardian.kill()
            guardian.wait()
            yield agent, others
        finally:
            guardian.kill()
            process.kill()


Left = tuple[ProcessIdentity, list[ProcessIdentity]]


async def test_children_of_a_recorded_orphan_are_killed_with_it(
    left_behind: Left,
) -> None:
    agent, others = left_behind
    with trio.fail_after(PATIENCE_SECONDS):
        fates = await kill_orphans([agent], wait_seconds=PATIENCE_SECONDS)

    assert fates[0].identity == agent
    assert fates[0].outcome in ("killed", "gone")  # another test may have found it first
    assert alive([agent, *others]) == []


async def test_an_unrecorded_process_without_guardian_is_killed(
    left_behind: Left,
) -> None:
    agent, others = left_behind
    os.kill(agent.pid, signal.SIGKILL)
    with trio.fail_after(PATIENCE_SECONDS):
        await kill_orphans([], wait_seconds=PATIENCE_SECONDS)

    assert alive(others) == []


# In the guardian ----------------------------------------------------------------------------


def test_a_guardian_does_not_kill_a_process_with_another_parent() -> None:
    with subprocess.Popen(["cat"], stdin=subprocess.PIPE) as stranger:  # noqa: S607 - any program
        with pytest.raises(ProcessLookupError):
            kill_descendant(stranger.pid, {os.getpid() + 1})
        assert is_alive(known(stranger.pid))
        stranger.kill()
