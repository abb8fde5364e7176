"""Writes down what every session promised, record by record, and says when a promise is broken.

Rule 1: it believes commits alone. What callers, agents and watchers saw is held against those.
Rule 2: it works everything out anew, with books of its own; only `fold` is the product's, because
        that folding the records gives the row is itself a promise.
Rule 3: a broken promise is kept and raised at the end, from outside: raised where it is seen, it
        would be taken for the crash of an actor or of an agent, and be forgiven.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import attrs

from supervisor import Receipt, Record, Usage
from supervisor.core.facts import STREAMED
from supervisor.core.folds import begin, fold
from supervisor.core.session import ENDINGS, Phase, Session
from supervisor.store.port import Write
from tests.simulation.ledger import PromiseBroken

Body = Mapping[str, Any]


@attrs.define
class Entry:
    """An accepted input."""

    text: str
    number: int
    generation: int
    replacement: bool
    source: str = "user"
    # As it was accepted: somebody may edit it before whoever sent it has read the receipt.
    first: str = attrs.field(init=False)
    status: str = "queued"
    outcome: str | None = None

    def __attrs_post_init__(self) -> None:
        self.first = self.text

    @property
    def order(self) -> tuple[bool, int]:
        return (not self.replacement, self.number)


@attrs.define(eq=False)
class Book:
    """One session, as its commits have made it."""

    referee: Referee
    id: str
    epoch: int = 0
    generation: int = 0
    records: list[Record] = attrs.Factory(list)
    row: Session | None = None
    inputs: dict[str, Entry] = attrs.Factory(dict)
    # The open turn, all that were begun with the input each began with, and all that are over.
    turn: str | None = None
    begun: dict[str, str] = attrs.Factory(dict)
    over: dict[str, str] = attrs.Factory(dict)
    # Who was interrupted, by the reasons that were given; turns and calls alike.
    interrupted: dict[str, list[str]] = attrs.Factory(dict)
    calls: set[str] = attrs.Factory(set)
    asked: set[str] = attrs.Factory(set)
    zombie: str | None = None
    cause: str | None = None
    is_stopped: bool = False
    is_archived: bool = False
    messages: int = 0
    said: int = 0  # messages of the agent in the open turn, which count when it ends
    tool_calls: int = 0
    used: Usage = Usage()

    def check(self, promise: bool, words: str) -> None:  # noqa: FBT001 - as in assert
        self.referee.check(promise, f"{self.id}: {words}")

    @property
    def waiting(self) -> list[Entry]:
        found = [entry for entry in self.inputs.values() if entry.outcome is None]
        return sorted(found, key=lambda entry: entry.order)

    # One commit -----------------------------------------------------------------------------

    def take(self, write: Write) -> None:
        self.check(
            write.epoch == self.epoch,
            f"a write of epoch {write.epoch} was taken at epoch {self.epoch}",
        )
        for record in write.records:
            self.take_record(record)
        self.look(write.row)

    def take_record(self, record: Record) -> None:
        last = len(self.records)
        self.check(record.seq == last + 1, f"record {record.seq} came after record {last}")
        self.records.append(record)
        if self.row is None:
            self.row = begin(record.session_id, record.fact)
        else:
            self.row = fold(self.row, record.fact)
        if record.turn_id is not None:
            self.check(
                record.turn_id == self.turn or record.kind == "turn_started",
                f"{record.kind} of {record.turn_id} came while {self.turn} was open",
            )
        elif record.kind in STREAMED and record.body.get("part") is not None:
            self.check(promise=False, words=f"{record.kind} belongs to no turn")
        note: Callable[[Record, Body], None] | None = getattr(self, f"_{record.kind}", None)
        if note is not None:
            note(record, record.body)

    def look(self, row: Session | None) -> None:
        """After a commit: the row is what the records say, and what they say is in order."""
        mine = self.row
        assert mine is not None
        if row is not None:
            self.check(row == mine, f"the row is not what its records say: {_differ(row, mine)}")
        self.check(
            [(w.text, w.status) for w in mine.inputs] == [(e.text, e.status) for e in self.waiting],
            "the row has other inputs waiting than the records",
        )
        cap = mine.terms.queue_cap
        waiting = sum(entry.source != "child" for entry in self.waiting)
        self.check(waiting <= cap, f"{waiting} inputs wait, {cap} may")
        self.check(
            all(entry.generation == self.generation for entry in self.waiting),
            "an input of a fenced generation still waits",
        )
        self.check(
            (mine.turn.id if mine.turn else None) == self.turn, "the row has another turn open"
        )
        if mine.phase is Phase.RUNNING:
            self.check(self.turn is not None, "it is running without a turn")
        self.check(
            (mine.turns, mine.tool_calls, mine.messages, mine.usage)
            == (len(self.begun), self.tool_calls, self.messages, self.used),
            "its counts are not what the records add up to",
        )
        if mine.phase is Phase.IDLE and mine.zombie is None and not mine.leaving:
            free = not self.waiting or self.referee.turns_are_scarce
            self.check(free, "it is idle and leaves inputs waiting")

    # By kind --------------------------------------------------------------------------------

    def _session_changed(self, _: Record, body: Body) -> None:
        if "epoch" in body:
            self.check(body["epoch"] == self.epoch, "it says another epoch than it claimed")
        if "zombie" in body:
            self.zombie = body["zombie"]
        if "stopping" in body:
            self.check(
                self.cause in (None, body["stopping"]["cause"]), "a later cause of stopping won"
            )
            self.cause = body["stopping"]["cause"]

    def _session_stopped(self, _: Record, body: Body) -> None:
        self.check(not self.is_stopped, "it was finalised twice")
        self.check(self.turn is None, "it stopped in the middle of a turn")
        self.is_stopped = True
        ending = ENDINGS[self.cause]  # type: ignore[index] # a cause was noted before
        self.check(body["reason"] == ending.reason, f"{self.cause} is shown as {body['reason']}")
        if ending.inputs == "cancelled":
            self.check(not self.waiting, "it stopped for good and left inputs waiting")

    def _session_resumed(self, _: Record, body: Body) -> None:
        self.check(not self.is_archived, "it was resumed while archived")
        self.check(self.is_stopped != body["woken"], "it woke from another phase than it was in")
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
        self.inputs[body["input_id"]] = Entry(
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
            self.check(promise=False, words=f"{body['input_id']} was settled and never accepted")
            return
        self.check(entry.outcome is None, f"{body['input_id']} was settled twice")
        if body["outcome"] == "delivered":
            self.check(entry is self.waiting[0], f"{entry.text!r} overtook the queue")
            self.check(entry.generation == self.generation, f"{entry.text!r} was fenced, and ran")
        if body["outcome"] == "steered":
            self.check(entry.status != "queued", f"{entry.text!r} was steered and never offered")
            self.check(record.turn_id == self.turn, f"{entry.text!r} steered no open turn")
            taken = self.referee.taken.get(entry.text)
            self.check(taken == self.turn, f"{entry.text!r} was taken by {taken}, not {self.turn}")
        entry.outcome = body["outcome"]

    def _turn_started(self, _: Record, body: Body) -> None:
        turn, input_id = body["turn_id"], body["input_id"]
        self.check(self.turn is None, f"{turn} began while {self.turn} was open")
        self.check(turn not in self.begun, f"{turn} began twice")
        self.check(not self.is_stopped, f"{turn} began in a stopped session")
        self.check(self.zombie is None, f"{turn} began while {self.zombie} lives on")
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
            all(entry.status == "queued" for entry in self.waiting), f"{turn} ended and kept inputs"
        )
        self.check(
            outcome != "interrupted" or turn in self.interrupted,
            f"{turn} was interrupted and nobody asked for that",
        )
        self.turn = None
        self.over[turn] = outcome
        self.messages += self.said
        self.said = 0
        if body["zombie"]:
            self.zombie = turn

    def _interrupted(self, record: Record, body: Body) -> None:
        is_call = body["scope"] == "tool_call"
        target = body["call_id"] if is_call else body["turn_id"]
        there = self.calls if is_call else {self.turn}
        self.check(target in there, f"{target} was interrupted and is not there")
        self.interrupted.setdefault(target, []).append(body["reason"])
        meant = self.referee.meant.get(body["reason"])
        self.check(meant in (None, target), f"{target} was hit by an interrupt of {meant}")

    def _user_text(self, _: Record, __: Body) -> None:
        self.messages += 1

    def _agent_text(self, _: Record, body: Body) -> None:
        if body["part"] is None:
            self.messages += 1
        else:
            self.said += not body["continues"]

    def _usage(self, _: Record, body: Body) -> None:
        self.used += Usage(**body)

    def _tool_call(self, _: Record, body: Body) -> None:
        self.tool_calls += 1
        self.calls.add(body["call_id"])

    def _tool_ended(self, _: Record, body: Body) -> None:
        self.check(body["call_id"] in self.calls, f"{body['call_id']} ended and was not open")
        self.calls.discard(body["call_id"])

    def _permission_asked(self, _: Record, body: Body) -> None:
        self.asked.add(body["request_id"])

    def _permission_answered(self, _: Record, body: Body) -> None:
        self.check(body["request_id"] in self.asked, f"{body['request_id']} was answered twice")
        self.asked.discard(body["request_id"])


@attrs.define(eq=False)
class Referee:
    """All sessions of one run, and what callers and agents say of them."""

    # Whether a session may have to wait for a turn to become free, though it is idle.
    turns_are_scarce: bool = False
    books: dict[str, Book] = attrs.Factory(dict)
    gone: set[str] = attrs.Factory(set)
    broken: list[str] = attrs.Factory(list)
    # What was said by callers: receipts by idempotency key, refused texts, and the targets that
    # an interrupt's reason stands for.
    receipts: dict[str, Receipt] = attrs.Factory(dict)
    refused: set[str] = attrs.Factory(set)
    meant: dict[str, str] = attrs.Factory(dict)
    # What agents did: which turn took which steering, and who is at work in which session.
    taken: dict[str, str] = attrs.Factory(dict)
    at_work: dict[str, str] = attrs.Factory(dict)

    def check(self, promise: bool, words: str) -> None:  # noqa: FBT001 - as in assert
        if not promise:
            self.broken.append(words)

    def raise_broken(self) -> None:
        if self.broken:
            raise PromiseBroken("; ".join([*dict.fromkeys(self.broken)][:8]))

    def book(self, session_id: str) -> Book:
        if session_id not in self.books:
            self.books[session_id] = Book(self, session_id)
        return self.books[session_id]

    # From the store -------------------------------------------------------------------------

    def committed(self, write: Write) -> None:
        for part in (write, write.also):
            if part is not None:
                self.check(part.session_id not in self.gone, "a deleted session was written to")
                self.book(part.session_id).take(part)

    def claimed(self, session_id: str, epoch: int) -> None:
        book = self.book(session_id)
        self.check(epoch > book.epoch, f"{session_id}: its epoch did not grow")
        book.epoch = epoch

    def deleted(self, session_id: str) -> None:
        """Nothing of it is left, so nothing is held against it."""
        self.books.pop(session_id, None)
        self.gone.add(session_id)

    # From callers ---------------------------------------------------------------------------

    def accepted(self, receipt: Receipt, text: str, key: str | None) -> None:
        """A receipt came back: by now everything that it says is durable."""
        if receipt.session_id in self.gone:
            return
        book = self.book(receipt.session_id)
        entry = book.inputs.get(receipt.input_id)
        if entry is None:
            self.check(promise=False, words=f"{text!r} has a receipt and is not durable")
            return
        if key is None:
            self.check(entry.first == text, f"the receipt of {text!r} is that of {entry.first!r}")
        else:
            first = self.receipts.setdefault(f"{receipt.session_id} {key}", receipt)
            self.check(first.input_id == receipt.input_id, f"key {key} had two effects: {text!r}")
        self.check(entry.generation == receipt.generation, f"{text!r} has another generation")
        if receipt.turn_id is not None and receipt.status == "started":
            began = book.begun.get(receipt.turn_id)
            self.check(began == receipt.input_id, f"{text!r} began no turn {receipt.turn_id}")

    def was_refused(self, text: str) -> None:
        self.refused.add(text)

    # From agents ----------------------------------------------------------------------------

    def goes_to_work(self, session_id: str, turn: str) -> None:
        other = self.at_work.get(session_id)
        self.check(other is None, f"{turn} is at work while {other} is")
        began = session_id in self.gone or turn in self.book(session_id).begun
        self.check(began, f"{turn} never began")
        self.at_work[session_id] = turn

    def leaves_work(self, session_id: str, turn: str) -> None:
        if self.at_work.get(session_id) == turn:
            del self.at_work[session_id]

    # At the end -----------------------------------------------------------------------------

    def close(self) -> None:
        """Everybody is gone: what is left must be in order."""
        self.check(not self.at_work, f"agents are at work after the end: {self.at_work}")
        for receipt in self.receipts.values():
            if receipt.session_id in self.gone:
                continue
            there = receipt.input_id in self.book(receipt.session_id).inputs
            self.check(there, f"{receipt.input_id} was acknowledged and is gone")
        for book in self.books.values():
            texts = {entry.text for entry in book.inputs.values()}
            both = texts & self.refused
            self.check(not both, f"{book.id}: refused and queued all the same: {sorted(both)}")
        self.raise_broken()


def _differ(one: Session, other: Session) -> str:
    fields = [name for name, value in one.__dict__.items() if value != other.__dict__[name]]
    return ", ".join(fields)
