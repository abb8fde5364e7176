"""The last scene: a supervisor is killed with -9, and nothing that it acknowledged is lost."""

from __future__ import annotations

from pathlib import Path

import trio

from supervisor.cli.terminal.times import duration
from supervisor.runtime import open as open_supervisor

from .play import Play
from .players import stagehand
from .proof import Killed, Proof, kill, prove


async def crash_and_recover(play: Play, process: trio.Process, path: Path) -> bool:
    """Whether all that the process had acknowledged was found in the file."""
    play.tell(
        "crash", f"another supervisor works in process {process.pid}, with a file as its store"
    )

    def count(acknowledged: int) -> None:
        play.remark = f"Process {process.pid} has acknowledged {acknowledged} inputs."

    killed = await kill(process, tell_count=count)
    play.remark = "The supervisor is dead."
    _tell_of_death(play, killed)
    await play.breathe_shortly()
    async with open_supervisor(path, agents=[stagehand()]) as sup:
        play.enter(sup)
        proof = await prove(sup, killed)
        _tell_of_recovery(play, proof)
        await play.breathe_shortly()
        play.leave()
    play.remark = "The show is over."
    play.facts = {
        "acknowledged": proof.acknowledged,
        "found": proof.found,
        "lost": len(proof.missing),
        "agent_gone_seconds": killed.agent_gone_seconds,
    }
    return not proof.missing and killed.agent_gone_seconds is not None


def _tell_of_death(play: Play, killed: Killed) -> None:
    play.tell(
        "crash",
        f"process {killed.pid} is killed with -9, after {len(killed.acknowledged)} inputs were"
        " acknowledged, in the middle of a turn",
        pid=killed.pid,
        acknowledged=len(killed.acknowledged),
    )
    gone = killed.agent_gone_seconds
    fate = "is still there" if gone is None else f"is gone too, within {duration(gone)}"
    play.tell("crash", f"its agent, process {killed.agent_pid}, {fate}: the guardian saw to it")


def _tell_of_recovery(play: Play, proof: Proof) -> None:
    play.tell(
        "recovery",
        f"the file is opened again: {proof.found} of {proof.acknowledged} acknowledged inputs are"
        f" there, {len(proof.missing)} are lost",
    )
    play.tell("recovery", f"the turn that ran is closed as {proof.turn_outcome}, once and for all")
    play.tell("recovery", f"what waited ran, in its order: {', '.join(proof.replies)}")
