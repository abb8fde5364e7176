"""Faults planted into the ACP driver and its rules, one at a time; the attacks must find each.

Rule 1: each is a small mistake that a change of the driver could introduce.
Rule 2: `plant` changes classes through `monkeypatch`, which undoes it.
"""

from __future__ import annotations

from typing import Any

import pytest

from supervisor.core.rules import steering, turn_flow
from supervisor.core.step import Draft
from supervisor.drivers.acp import steering as acp_steering
from supervisor.drivers.acp.acp_session import AcpSession
from supervisor.drivers.acp.driver import AcpDriver
from supervisor.drivers.acp.steering import SteeringDelivery
from supervisor.drivers.runtime import DriverRuntime
from supervisor.json_rpc import rpc_outbox
from supervisor.json_rpc.rpc_connection import RpcConnection
from tests.simulation.planted_faults import Mutant

from .attacks import (
    fill_process_slots,
    interrupt_at_turn_ends,
    kill_processes,
    send_to_processes,
    steer_at_turn_ends,
    steer_processes,
)

Patch = pytest.MonkeyPatch


def steering_before_prompt(patch: Patch) -> None:
    def deliver(self: AcpSession, turn: Any) -> None:  # noqa: ANN401 - the class of the turn is private
        if turn.steering.start_delivery():  # the fault: even before the prompt was sent
            self._start_soon(turn.steering.deliver)

    patch.setattr(AcpSession, "_deliver_steering", deliver)


def steering_for_another_turn(patch: Patch) -> None:
    patch.setattr(SteeringDelivery, "close", lambda _: None)
    patch.setattr(SteeringDelivery, "end", lambda _: None)


def unsent_steering_fails(patch: Patch) -> None:
    def fail_all(draft: Draft) -> None:
        steering.fail_handed(draft)  # the fault: also what has never left
        requeue_steering(draft)

    requeue_steering = steering.requeue_steering
    patch.setattr(turn_flow, "requeue_steering", fail_all)


def unanswered_steering_is_queued(patch: Patch) -> None:
    def end(self: SteeringDelivery) -> None:
        self.close()
        self._called = []  # the fault: not reported
        self._call_scope.cancel()

    patch.setattr(SteeringDelivery, "end", end)


def lines_of_failed_writes_have_left(patch: Patch) -> None:
    patch.setattr(rpc_outbox, "_begun_after", lambda _: lambda: True)


def answers_not_awaited(patch: Patch) -> None:
    patch.setattr(acp_steering, "STEERING_SETTLE_SECONDS", 0.0)


def cancel_for_another_turn(patch: Patch) -> None:
    async def notify(self: AcpSession, turn: Any) -> None:  # noqa: ANN401 - as above
        await self._connection.notify("session/cancel", {"sessionId": self._session_id})
        turn.cancel_sent.set()

    patch.setattr(AcpSession, "_notify_cancel", notify)


def prompt_sent_twice(patch: Patch) -> None:
    real = RpcConnection.call

    async def call(self: RpcConnection, method: str, params: object = None, **how: Any) -> Any:  # noqa: ANN401
        if method == "session/prompt":
            self._outbox.put(self._peer.notify(method, params))  # the fault: as if in doubt
        return await real(self, method, params, **how)

    patch.setattr(RpcConnection, "call", call)


def ended_process_on_record(patch: Patch) -> None:
    patch.setattr(AcpDriver, "_forget_process", lambda _: None)


def no_process_limit(patch: Patch) -> None:
    real = DriverRuntime.__init__

    def begin(self: DriverRuntime, nursery: Any, **terms: Any) -> None:  # noqa: ANN401 - as the original
        real(self, nursery, **{**terms, "max_agent_processes": 100})

    patch.setattr(DriverRuntime, "__init__", begin)


MUTANTS = (
    Mutant(
        "steering precedes its prompt",
        "steering is for a turn that the agent has begun",
        steer_processes,
        "was sent before",
        steering_before_prompt,
    ),
    Mutant(
        "steering reaches another turn",
        "steering for one turn never reaches another",
        steer_processes,
        "which has ended",
        steering_for_another_turn,
    ),
    Mutant(
        "unsent steering fails at the turn's end",
        "text that the turn never took becomes a queued input",
        steer_at_turn_ends,
        "failed and never left",
        unsent_steering_fails,
    ),
    Mutant(
        "unanswered steering is queued again",
        "no input reaches an agent twice",
        steer_at_turn_ends,
        "is queued again and was None",
        unanswered_steering_is_queued,
    ),
    Mutant(
        "unwritten steering fails",
        "text that the turn never took becomes a queued input",
        kill_processes,
        "failed and never left",
        lines_of_failed_writes_have_left,
    ),
    Mutant(
        "answers to steering are not awaited",
        "the end of a turn waits for what was handed over",
        steer_at_turn_ends,
        "without an answer",
        answers_not_awaited,
    ),
    Mutant(
        "an interrupt hits the turn that runs then",
        "an interrupt of one turn does nothing to the next",
        interrupt_at_turn_ends,
        "was cancelled without a request",
        cancel_for_another_turn,
    ),
    Mutant(
        "a prompt is sent twice",
        "no input reaches an agent twice",
        send_to_processes,
        "was sent again",
        prompt_sent_twice,
    ),
    Mutant(
        "ended processes stay on record",
        "a process is on record until its end is seen",
        send_to_processes,
        "ended and still on record",
        ended_process_on_record,
    ),
    Mutant(
        "no limit of processes",
        "processes never exceed their limit",
        fill_process_slots,
        "processes ran at once",
        no_process_limit,
    ),
)
