"""Terminals over real, contained processes: what only a real shell and a real kernel can show."""

from __future__ import annotations

import sys

import pytest
import trio

from supervisor.core.ids import TurnId
from supervisor.core.permissions import Permissions
from supervisor.drivers.acp.services.grants import Grants
from supervisor.drivers.acp.services.terminals.terminals import Terminals
from supervisor.drivers.identity import ProcessIdentity, is_alive
from supervisor.drivers.process.contained import ContainedProcesses
from supervisor.drivers.process.port import BeforeItRuns
from tests.drivers.acp.services.people import Person, refusal
from tests.drivers.office import StandInOffice

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="there are no guardians elsewhere")

# The real wait, for what is done at once: only a machine that stands still takes so long.
PATIENCE_SECONDS = 30.0
TURN = TurnId("turn_1")


@pytest.fixture
def seen() -> list[ProcessIdentity]:
    """Who has run."""
    return []


@pytest.fixture
async def terminals(
    office: StandInOffice, nursery: trio.Nursery, person: Person, seen: list[ProcessIdentity]
) -> Terminals:
    office.permissions = Permissions(mode="approve_all")
    return Terminals(
        office,
        processes=ContainedProcesses(),
        nursery=nursery,
        ask=person.ask,
        grants=Grants(),
        limiter=trio.CapacityLimiter(2),
        environment={"PATH": "/usr/bin:/bin"},
        before_it_runs=_note(seen),
    )


def _note(seen: list[ProcessIdentity]) -> BeforeItRuns:
    async def note(identity: ProcessIdentity) -> None:
        await trio.lowlevel.checkpoint()
        seen.append(identity)

    return note


async def run(terminals: Terminals, **params: object) -> tuple[object, object]:
    """What it put out, and its exit code."""
    with trio.fail_after(PATIENCE_SECONDS):
        name = await terminals.create(params, turn=TURN)
        status = await terminals.wait_for_exit(name)
        output = await terminals.output(name)
        await terminals.release(name)
    return output["output"], status["exitCode"]


async def test_both_outputs_are_one_in_the_order_of_their_writing(terminals: Terminals) -> None:
    said = await run(terminals, command="echo one; echo two >&2; echo three; exit 3")

    assert said == ("one\ntwo\nthree\n", 3)


async def test_arguments_are_taken_as_they_are(terminals: Terminals) -> None:
    assert await run(terminals, command="printf", args=["%s|", "a b", "$HOME;", "'"]) == (
        "a b|$HOME;|'|",
        0,
    )


async def test_a_program_that_is_not_there_is_said_in_the_terminal(terminals: Terminals) -> None:
    output, code = await run(terminals, command="/no/such/program", args=["x"])

    assert code == 127
    assert "/no/such/program" in str(output)


async def test_a_command_that_reads_sees_the_end_of_its_input(terminals: Terminals) -> None:
    assert await run(terminals, command="cat") == ("", 0)


async def test_what_is_left_in_the_background_does_not_keep_it_open(terminals: Terminals) -> None:
    assert await run(terminals, command="sleep 1000 & echo begun") == ("begun\n", 0)


async def test_a_killed_command_is_dead(terminals: Terminals, seen: list[ProcessIdentity]) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        name = await terminals.create({"command": "trap '' TERM; sleep 1000"}, turn=TURN)
        await terminals.kill(name)

    assert not any(map(is_alive, seen))
    output = await terminals.output(name)
    assert output["exitStatus"] == {"exitCode": None, "signal": "SIGKILL"}


async def test_a_folder_that_is_not_there_is_refused(
    terminals: Terminals, office: StandInOffice
) -> None:
    with trio.fail_after(PATIENCE_SECONDS):
        error = await refusal(
            terminals.create({"command": "ls", "cwd": f"{office.workspace}/none"}, turn=TURN)
        )

    assert error.message
