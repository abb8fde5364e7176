"""Faults planted into the driver of ACP agents, one at a time, to see that the attacks find them.

Rule 1: each is a mistake somebody could make while mending it, and small.
Rule 2: `plant` changes classes through `monkeypatch`, which takes it back.
"""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.drivers.acp.life.driver import AcpDriver
from supervisor.drivers.acp.rpc.connection import Connection
from supervisor.drivers.acp.turns.guidance import Guidance
from supervisor.drivers.acp.turns.talk import Talk
from supervisor.drivers.port import Workshop
from tests.simulation.finding import Mutant

from .attacks import crowd, steer_processes, talk_to_processes

Patch = pytest.MonkeyPatch


def guidance_before_the_prompt(patch: Patch) -> None:
    def hand_over(self: Talk, turn: Any) -> None:  # noqa: ANN401 - a turn, which is private
        if turn.guidance.begin():  # the fault: whether the prompt was sent or not
            self._nursery.start_soon(turn.guidance.hand_over)

    patch.setattr(Talk, "_hand_over", hand_over)


def guidance_for_another_turn(patch: Patch) -> None:
    patch.setattr(Guidance, "close", lambda _: None)


def a_cancel_for_another_turn(patch: Patch) -> None:
    async def notify(self: Talk, turn: Any) -> None:  # noqa: ANN401 - as above
        await self._connection.notify("session/cancel", {"sessionId": self._session_id})
        turn.told.set()

    patch.setattr(Talk, "_notify_cancel", notify)


def a_prompt_twice(patch: Patch) -> None:
    real = Connection.call

    async def call(self: Connection, method: str, params: object = None, **how: Any) -> Any:  # noqa: ANN401
        if method == "session/prompt":
            self._outbox.put(self._peer.notify(method, params))  # the fault: as if in doubt
        return await real(self, method, params, **how)

    patch.setattr(Connection, "call", call)


def the_dead_on_record(patch: Patch) -> None:
    patch.setattr(AcpDriver, "_forget_process", lambda _: None)


def no_more_than_there_may_be(patch: Patch) -> None:
    real = Workshop.__init__

    def begin(self: Workshop, nursery: Any, **terms: Any) -> None:  # noqa: ANN401 - as the real one
        real(self, nursery, **{**terms, "max_agent_processes": 100})

    patch.setattr(Workshop, "__init__", begin)


MUTANTS = (
    Mutant(
        "guidance goes before its prompt",
        "guidance is for a turn that the agent knows of",
        steer_processes,
        "was handed over before",
        guidance_before_the_prompt,
    ),
    Mutant(
        "guidance goes into another turn",
        "what was meant for one turn never reaches another",
        steer_processes,
        "which is over",
        guidance_for_another_turn,
    ),
    Mutant(
        "an interrupt is told whatever runs by then",
        "an interrupt of one turn does nothing to the next",
        talk_to_processes,
        "was cancelled and nobody asked for that",
        a_cancel_for_another_turn,
    ),
    Mutant(
        "a prompt is sent twice",
        "no input reaches an agent twice",
        talk_to_processes,
        "was sent again",
        a_prompt_twice,
    ),
    Mutant(
        "the dead stay on record",
        "a process is on record until it is seen dead",
        talk_to_processes,
        "dead, and on record",
        the_dead_on_record,
    ),
    Mutant(
        "as many processes as you like",
        "there are no more than may be",
        crowd,
        "processes were there",
        no_more_than_there_may_be,
    ),
)
