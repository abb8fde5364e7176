"""Terminals over real, contained processes: what only a real shell and a real kernel can show."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator

import pytest
import trio

from supervisor.core.ids import TurnId
from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.permissions import Grants
from supervisor.drivers.acp.terminals import Terminals
from supervisor.drivers.identity import ProcessIdentity, is_alive
from supervisor.drivers.process.contained import open_processes
from supervisor.drivers.process.processes import BeforeExec
from tests.support.acp_decider import FakeUser, refusal
from tests.support.driver_context import FakeDriverContext

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="there are no guardians elsewhere"),
    pytest.mark.usefixtures("no_open_descriptors"),
]

# Bound of real waits; only a stalled machine takes that long.
PATIENCE_SECONDS = 30.0
TURN = TurnId("turn_1")


@pytest.fixture
def seen() -> list[ProcessIdentity]:
    """Return the list of recorded processes."""
    return []


@pytest.fixture
async def terminals(
    context: FakeDriverContext, nursery: trio.Nursery, user: FakeUser, seen: list[ProcessIdentity]
) -> AsyncIterator[Terminals]:
    context.permissions = Permissions(mode="approve_all")
    async with open_processes() as processes:
        yield Terminals(
            context,
            processes=processes,
            nursery=nursery,
            ask=user.ask,
            grants=Grants(),
            limiter=trio.CapacityLimiter(2),
            environment={"PATH": "/usr/bin:/bin"},
            before_exec=_note(seen),
        )


def _note(seen: list[ProcessIdentity]) -> BeforeExec:
    async def note(identity: ProcessIdentity) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(identity)

    return note


async def run(terminals: Terminals, **params: object) -> tuple[object, object]:
    """Return the output of a command and its exit code."""
    with trio.fail_after(PATIENCE_SECONDS):
        name = await terminals.create(params, turn=TURN)
        status = await terminals.wait_for_exit(name)
        output = await terminals.output(name)
        await terminals.release(name)
    return output["output"], status["exitCode"]


async def test_stdout_and_stderr_are_joined_in_order(terminals: Terminals) -> None:
    said = await run(terminals, command="echo one; echo two >&2; echo three; exit 3")

    assert said == ("one\ntwo\nthree\n", 3)


async def test_arguments_are_not_expanded(terminals: Terminals) -> None:
    assert await run(terminals, command="printf", args=["%s|", "a b", "$HOME;", "'"]) == (
        "a b|$HOME;|'|",
        0,
    )


async def test_a_missing_program_is_reported_in_the_output(terminals: Terminals) -> None:
    output, code = await run(terminals, command="/no/such/program", args=["x"])

    assert code == 127
    assert "/no/such/program" in str(output)


async def test_a_command_that_reads_gets_end_of_file(terminals: Terminals) -> None:
    assert await run(terminals, command="cat") == ("", 0)


async def test_background_processes_do_not_keep_the_terminal_open(terminals: Terminals) -> None:
    assert await run(terminals, command="sleep 1000 & echo begun") == ("begun\n", 0)


async def test_a_killed_command_is_dead(terminals: Terminals, seen: list[ProcessIdentity]) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        name = await terminals.create({"command": "trap '' TERM; sleep 1000"}, turn=TURN)
        await terminals.kill(name)

    assert not any(map(is_alive, seen))
    output = await terminals.output(name)
    assert output["exitStatus"] == {"exitCode": None, "signal": "SIGKILL"}


async def test_a_missing_cwd_is_refused(terminals: Terminals, context: FakeDriverContext) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        error = await refusal(
            terminals.create({"command": "ls", "cwd": f"{context.workspace}/none"}, turn=TURN)
        )

    assert error.message
