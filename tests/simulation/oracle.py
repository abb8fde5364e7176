"""Oracle of sessions: follows every commit and records each violated guarantee.

Rule 1: only commits are trusted. Observations of callers, agents and watchers are compared with
        them.
Rule 2: the oracle computes everything itself; only `fold` is the product's, because it is itself
        a guarantee that folding the records yields the row.
Rule 3: a violation is recorded and raised at the end, from outside: raised where it is seen, it
        would count as the crash of an actor or of an agent and be tolerated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from supervisor import Receipt, Record, Usage
from supervisor.core.endings import ENDINGS
from supervisor.core.facts import as_record, fact_of
from supervisor.core.fold import fold, initial_state
from supervisor.core.records import STREAMED
from supervisor.core.state import Phase, SessionState
from supervisor.store.port import Write
from tests.simulation.violations import PropertyViolated

Body = Mapping[str, Any]


@attrs.define
class AcceptedInput:
    """An accepted input."""

    text: str
    number: int
    generation: int
    replacement: bool
    source: str = "user"
    # The text as accepted: an edit may come before the sender reads the receipt.
    first: str = attrs.field(init=False)
    status: str = "queued"
    outcome: str | None = None

    def __attrs_post_init__(self) -> None:
        self.first = self.text

    @property
    def order(self) -> tuple[bool, int]:
        return (not self.replacement, self.number)


@attrs.define(eq=False)
class SessionHistory:
    """One session as its commits describe it."""

    oracle: Oracle
    id: str
    epoch: int = 0
    generation: int = 0
    records: list[Record] = attrs.Factory(list)
    row: SessionState | None = None
    inputs: dict[str, AcceptedInput] = attrs.Factory(dict)
    # The open turn; the input of each turn that began; the outcome of each turn that ended.
    turn: str | None = None
    begun: dict[str, str] = attrs.Factory(dict)
    over: dict[str, str] = attrs.Factory(dict)
    # Reasons of interrupts by target, turns and tool calls alike.
    interrupted: dict[str, list[str]] = attrs.Factory(dict)
    calls: set[str] = attrs.Factory(set)
    asked: set[str] = attrs.Factory(set)
    # Requests that are questions, and how those ended: the decision and the text.
    questions: set[str] = attrs.Factory(set)
    question_ends: dict[str, tuple[str, str | None]] = attrs.Factory(dict)
    zombie: str | None = None
    cause: str | None = None
    is_stopped: bool = False
    is_archived: bool = False
    messages: int = 0
    said: int = 0  # messages of the agent in the open turn, counted when it ends
    tool_calls: int = 0
    used: Usage = Usage()

    def check(self, holds: bool, message: str) -> None:  # noqa: FBT001 - as in assert
        self.oracle.check(holds, f"{self.id}: {message}")

    @property
    def waiting(self) -> list[AcceptedInput]:
        found = [entry for entry in self.inputs.values() if entry.outcome is None]
        return sorted(found, key=lambda entry: entry.order)

    # One commit -----------------------------------------------------------------------------

    def take(self, write: Write) -> None:
        self.check(
            write.epoch == self.epoch,
            f"a write of epoch {write.epoch} was accepted at epoch {self.epoch}",
        )
        for record in write.records:
            self.take_record(as_record(record))
        self.check_info(write.row)

    def take_record(self, record: Record) -> None:
        last = len(self.records)
        self.check(record.seq == last + 1, f"record {record.seq} came after record {last}")
        self.records.append(record)
        if self.row is None:
            self.row = initial_state(record.session_id, fact_of(record))
        else:
            self.row = fold(self.row, fact_of(record))
        if record.turn_id is not None:
            self.check(
                record.turn_id == self.turn or record.kind == "turn_started",
                f"{record.kind} of {record.turn_id} came while {self.turn} was open",
            )
        elif record.kind in STREAMED and record.body.get("part") is not None:
            self.check(holds=False, message=f"{record.kind} belongs to no turn")
        note: Callable[[Record, Body], None] | None = getattr(self, f"_{record.kind}", None)
        if note is not None:
            note(record, record.body)

    def check_info(self, row: SessionState | None) -> None:
        """Check after a commit that the row equals the fold of the records."""
        mine = self.row
        assert mine is not None
        if row is not None:
            self.check(
                row == mine, f"the row differs from the fold of its records: {_differ(row, mine)}"
            )
        self.check(
            [(w.text, w.status) for w in mine.inputs] == [(e.text, e.status) for e in self.waiting],
            "the row has other queued inputs than the records",
        )
        cap = mine.terms.queue_cap
        waiting = sum(entry.source != "child" for entry in self.waiting)
        self.check(waiting <= cap, f"{waiting} inputs are queued, the cap is {cap}")
        self.check(
            all(entry.generation == self.generation for entry in self.waiting),
            "an input of a fenced generation is still queued",
        )
        self.check(
            (mine.turn.id if mine.turn else None) == self.turn, "the row has another turn open"
        )
        if mine.phase is Phase.RUNNING:
            self.check(self.turn is not None, "it is running without a turn")
        self.check(
            (mine.turns, mine.tool_calls, mine.messages, mine.usage)
            == (len(self.begun), self.tool_calls, self.messages, self.used),
            "its counts differ from the sums of its records",
        )
        if mine.phase is Phase.IDLE and mine.zombie is None and not mine.leaving:
            free = not self.waiting or self.oracle.turns_are_scarce
            self.check(free, "it is idle while inputs are queued")

    # By kind --------------------------------------------------------------------------------

    def _session_changed(self, _: Record, body: Body) -> None:
        if "epoch" in body:
            self.check(body["epoch"] == self.epoch, "its record has another epoch than its claim")
        if "zombie" in body:
            self.zombie = body["zombie"]
        if "stopping" in body:
            self.check(
                self.cause in (None, body["stopping"]["cause"]), "a later cause of stopping won"
            )
            self.cause = body["stopping"]["cause"]

    def _session_stopped(self, _: Record, body: Body) -> None:
        self.check(not self.is_stopped, "it stopped twice")
        self.check(self.turn is None, "it stopped while a turn was open")
        self.is_stopped = True
        ending = ENDINGS[self.cause]  # type: ignore[index] # a cause was recorded before
        self.check(body["reason"] == ending.reason, f"{self.cause} has the reason {body['reason']}")
        if ending.inputs == "cancelled":
            self.check(not self.waiting, "it stopped for good and left inputs queued")

    def _session_resumed(self, _: Record, body: Body) -> None:
        self.check(not self.is_archived, "it was resumed while archived")
        self.check(self.is_stopped != body["woken"], "it resumed from another phase than its own")
        self.is_stopped = False
        self.cause = None

    def _session_archived(self, _: Record, body: Body) -> None:
        self.check(self.is_stopped, "it was archived while live")
        self.is_archived = body["archived"]

    def _generation_raised(self, _: Record, body: Body) -> None:
        self.check(body["generation"] > self.generation, "its generation did not grow")
        self.generation = body["generation"]

    def _input_accepted(self, _: Record, body: Body) -> None:
        self.check(body["input_id"] not in self.inputs, f"{body['input_id']} was accepted twice")
        self.check(
            all(body["number"] > entry.number for entry in self.inputs.values()),
            "an input got a number that is not the latest",
        )
        self.check(body["generation"] == self.generation, "an input is of another generation")
        self.inputs[body["input_id"]] = AcceptedInput(
            body["text"],
            body["number"],
            body["generation"],
            body["replacement"],
            body["source"],
        )

    def _input_changed(self, _: Record, body: Body) -> None:
        for input_id, changes in body["inputs"].items():
            for name, value in changes.items():
                if name != "when_busy":
                    setattr(self.inputs[input_id], name, value)

    def _input_settled(self, record: Record, body: Body) -> None:
        entry = self.inputs.get(body["input_id"])
        if entry is None:
            self.check(holds=False, message=f"{body['input_id']} was settled and never accepted")
            return
        self.check(entry.outcome is None, f"{body['input_id']} was settled twice")
        if body["outcome"] == "delivered":
            self.check(entry is self.waiting[0], f"{entry.text!r} overtook the queue")
            self.check(entry.generation == self.generation, f"{entry.text!r} was fenced and ran")
        if body["outcome"] == "steered":
            self.check(entry.status != "queued", f"{entry.text!r} was steered and never offered")
            self.check(
                record.turn_id == self.turn,
                f"{entry.text!r} was steered into a turn that is not open",
            )
            taken = self.oracle.steering_taken.get(entry.text)
            self.check(
                taken == self.turn,
                f"{entry.text!r} was taken by {taken}, not {self.turn}",
            )
        entry.outcome = body["outcome"]

    def _turn_started(self, _: Record, body: Body) -> None:
        turn, input_id = body["turn_id"], body["input_id"]
        self.check(self.turn is None, f"{turn} began while {self.turn} was open")
        self.check(turn not in self.begun, f"{turn} began twice")
        self.check(not self.is_stopped, f"{turn} began in a stopped session")
        self.check(self.zombie is None, f"{turn} began while the zombie {self.zombie} runs")
        entry = self.inputs.get(input_id)
        delivered = entry is not None and entry.outcome == "delivered"
        self.check(delivered, f"{turn} began with an input that was not delivered")
        self.check(input_id not in self.begun.values(), f"{input_id} began two turns")
        self.turn = turn
        self.begun[turn] = input_id

    def _turn_ended(self, _: Record, body: Body) -> None:
        turn, outcome = body["turn_id"], body["outcome"]
        self.check(turn == self.turn, f"{turn} ended while {self.turn} was open")
        self.check(not self.calls, f"{turn} ended and left calls open")
        self.check(not self.asked, f"{turn} ended and left requests open")
        self.check(
            all(entry.status == "queued" for entry in self.waiting),
            f"{turn} ended and kept offered inputs",
        )
        self.check(
            outcome != "interrupted" or turn in self.interrupted,
            f"{turn} was interrupted without a request",
        )
        self.turn = None
        self.over[turn] = outcome
        self.messages += self.said
        self.said = 0
        if body["zombie"]:
            self.zombie = turn

    def _interrupted(self, record: Record, body: Body) -> None:
        if body["scope"] == "tree":
            self._tree_interrupted(body)
            return
        is_call = body["scope"] == "tool_call"
        target = body["call_id"] if is_call else body["turn_id"]
        there = self.calls if is_call else {self.turn}
        self.check(target in there, f"{target} was interrupted and is not open")
        self.interrupted.setdefault(target, []).append(body["reason"])
        intended = self.oracle.interrupt_targets.get(body["reason"])
        self.check(
            intended in (None, target),
            f"{target} was hit by an interrupt of {intended}",
        )

    def _tree_interrupted(self, body: Body) -> None:
        ended = body["stopped"] + body["unreachable"]
        self.check(body["matched"] > 0, "a tree interrupt that hit nothing is on record")
        self.check(body["matched"] == ended, "members of an interrupted tree are not counted")

    def _user_text(self, _: Record, __: Body) -> None:
        self.messages += 1

    def _agent_text(self, _: Record, body: Body) -> None:
        if body["part"] is None:
            self.messages += 1
        else:
            self.said += not body["continues"]

    def _usage(self, _: Record, body: Body) -> None:
        self.used += Usage(body["input_tokens"], body["output_tokens"], body["cost"])

    def _tool_call(self, _: Record, body: Body) -> None:
        self.tool_calls += 1
        self.calls.add(body["call_id"])

    def _tool_ended(self, _: Record, body: Body) -> None:
        self.check(body["call_id"] in self.calls, f"{body['call_id']} ended and was not open")
        self.calls.discard(body["call_id"])

    def _permission_asked(self, _: Record, body: Body) -> None:
        self.asked.add(body["request_id"])
        if body.get("kind") == "question":
            self.questions.add(body["request_id"])

    def _permission_answered(self, _: Record, body: Body) -> None:
        request, decision, text = body["request_id"], body["decision"], body.get("text")
        self.check(request in self.asked, f"{request} was answered twice")
        self.asked.discard(request)
        is_answer = decision == "answered"
        self.check(is_answer == (text is not None), f"{request}: {decision} with text {text!r}")
        if request in self.questions:
            self.check(
                decision == "cancelled" or (is_answer and body["by"] in ("person", "parent")),
                f"question {request} was decided: {decision} by {body['by']}",
            )
            self.question_ends[request] = (decision, text)
        else:
            self.check(not is_answer, f"permission request {request} got a text")


@attrs.define(eq=False)
class Oracle:
    """The histories of one run, and the observations of callers and agents."""

    # True if an idle session may have to wait for a turn slot.
    turns_are_scarce: bool = False
    histories: dict[str, SessionHistory] = attrs.Factory(dict)
    deleted_ids: set[str] = attrs.Factory(set)
    violations: list[str] = attrs.Factory(list)
    # Observations of callers: receipts by idempotency key, refused texts, and the target of
    # each interrupt by its reason.
    receipts: dict[str, Receipt] = attrs.Factory(dict)
    refused: set[str] = attrs.Factory(set)
    interrupt_targets: dict[str, str] = attrs.Factory(dict)
    # Observations of agents: the turn that took each steering text, the running turn by session.
    steering_taken: dict[str, str] = attrs.Factory(dict)
    executing: dict[str, str] = attrs.Factory(dict)

    def check(self, holds: bool, message: str) -> None:  # noqa: FBT001 - as in assert
        if not holds:
            self.violations.append(message)

    def raise_violations(self) -> None:
        if self.violations:
            raise PropertyViolated("; ".join([*dict.fromkeys(self.violations)][:8]))

    def history(self, session_id: str) -> SessionHistory:
        if session_id not in self.histories:
            self.histories[session_id] = SessionHistory(self, session_id)
        return self.histories[session_id]

    # From the store -------------------------------------------------------------------------

    def committed(self, write: Write) -> None:
        for part in (write, write.linked_write):
            if part is not None:
                self.check(
                    part.session_id not in self.deleted_ids, "a deleted session was written to"
                )
                self.history(part.session_id).take(part)

    def claimed(self, session_id: str, epoch: int) -> None:
        history = self.history(session_id)
        self.check(epoch > history.epoch, f"{session_id}: its epoch did not grow")
        history.epoch = epoch

    def deleted(self, session_id: str) -> None:
        """Drop the history of a deleted session."""
        self.histories.pop(session_id, None)
        self.deleted_ids.add(session_id)

    # From callers ---------------------------------------------------------------------------

    def record_receipt(self, receipt: Receipt, text: str, key: str | None) -> None:
        """Check that everything in a receipt is durable."""
        if receipt.session_id in self.deleted_ids:
            return
        history = self.history(receipt.session_id)
        entry = history.inputs.get(receipt.input_id)
        if entry is None:
            self.check(holds=False, message=f"{text!r} has a receipt and is not durable")
            return
        if key is None:
            self.check(entry.first == text, f"the receipt of {text!r} belongs to {entry.first!r}")
        else:
            first = self.receipts.setdefault(f"{receipt.session_id} {key}", receipt)
            self.check(first.input_id == receipt.input_id, f"key {key} had two effects: {text!r}")
        self.check(
            entry.generation == receipt.generation,
            f"{text!r} has another generation than its receipt",
        )
        if receipt.turn_id is not None and receipt.status == "started":
            began = history.begun.get(receipt.turn_id)
            self.check(began == receipt.input_id, f"{text!r} did not begin turn {receipt.turn_id}")

    def record_refusal(self, text: str) -> None:
        self.refused.add(text)

    # From agents ----------------------------------------------------------------------------

    def enter_turn(self, session_id: str, turn: str) -> None:
        other = self.executing.get(session_id)
        self.check(other is None, f"{turn} runs while {other} runs")
        began = session_id in self.deleted_ids or turn in self.history(session_id).begun
        self.check(began, f"{turn} never began")
        self.executing[session_id] = turn

    def leave_turn(self, session_id: str, turn: str) -> None:
        if self.executing.get(session_id) == turn:
            del self.executing[session_id]

    # At the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Check the final state and raise the violations."""
        self.check(not self.executing, f"agents run after the end: {self.executing}")
        for receipt in self.receipts.values():
            if receipt.session_id in self.deleted_ids:
                continue
            there = receipt.input_id in self.history(receipt.session_id).inputs
            self.check(there, f"{receipt.input_id} was acknowledged and is lost")
        for history in self.histories.values():
            texts = {entry.text for entry in history.inputs.values()}
            both = texts & self.refused
            self.check(not both, f"{history.id}: refused and still queued: {sorted(both)}")
        self.raise_violations()


def _differ(one: SessionState, other: SessionState) -> str:
    fields = [name for name, value in one.__dict__.items() if value != other.__dict__[name]]
    return ", ".join(fields)
