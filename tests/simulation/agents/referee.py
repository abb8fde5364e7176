"""What is promised besides, when agents are processes: what may be said to them, and how often.

Rule 1: it believes the wire. What an agent was sent is held against what was on record by then.
"""

from __future__ import annotations

import json
from typing import Any

import attrs

from supervisor import Record
from tests.drivers.in_memory import InMemoryProcess, Side
from tests.simulation.sessions.referee import Body, Book, Entry, Referee


@attrs.define(eq=False)
class ProcessBook(Book):
    """One session whose agents are processes."""

    restarts: list[float] = attrs.Factory(list)
    # For which turn a text was handed over.
    handed: dict[str, str | None] = attrs.Factory(dict)

    def find(self, text: str) -> Entry | None:
        """The input of that text; each is sent by nobody else."""
        return next((entry for entry in self.inputs.values() if entry.text == text), None)

    def _input_settled(self, record: Record, body: Body) -> None:
        entry = self.inputs.get(body["input_id"])
        if entry is None or entry.status != "handed":
            super()._input_settled(record, body)
            return
        self.check(entry.outcome is None, f"{body['input_id']} was settled twice")
        if body["outcome"] in ("steered", "delivered"):
            self.check(
                entry.text in self.sent, f"{entry.text!r} was {body['outcome']} and never sent"
            )
        entry.outcome = body["outcome"]

    def _input_changed(self, record: Record, body: Body) -> None:
        for input_id, changes in body["inputs"].items():
            entry = self.inputs[input_id]
            if entry.status == "handed" and changes.get("status") == "queued":
                self.sent.pop(entry.text, None)  # it was declined, and so may be sent again
            elif changes.get("status") == "handed":
                self.handed[entry.text] = record.turn_id
        super()._input_changed(record, body)

    def _session_resumed(self, record: Record, body: Body) -> None:
        super()._session_resumed(record, body)
        if not body["woken"]:
            self.restarts.clear()  # a person has seen to it

    def _agent_restarting(self, record: Record, _: Body) -> None:
        assert self.row is not None
        terms = self.row.terms.restart
        self.restarts.append(record.at)
        recent = [at for at in self.restarts if record.at - at <= terms.within_seconds]
        self.check(len(recent) <= terms.max_restarts, f"{len(recent)} restarts within the window")

    @property
    def sent(self) -> dict[str, int]:
        """Texts that were sent to an agent, and to which process."""
        assert isinstance(self.referee, ProcessReferee)
        return self.referee.sent

    # The wire -------------------------------------------------------------------------------

    def prompted(self, text: str) -> None:
        entry = self.find(text)
        began = None if self.turn is None else self.inputs[self.begun[self.turn]]
        self.check(began is entry, f"{text!r} was prompted and is not what the turn is about")

    def steered(self, text: str, prompt: str | None) -> None:
        """It was handed over after that prompt, so it must not be meant for a turn before."""
        turn = self.handed.get(text)
        self.check(turn is not None, f"{text!r} was handed over and is not on record as that")
        if turn is not None:
            first = self.inputs[self.begun[turn]].text
            self.check(first in self.sent, f"{text!r} was handed over before {first!r}")
        if prompt is not None:
            self.check(turn in self._since(prompt), f"{text!r} was meant for {turn}, which is over")

    def cancelled(self, text: str) -> None:
        """The turn of that prompt was, or one that the agent has begun by itself since.

        Or one that it may have begun with guidance, whose answer came too late.
        """
        since = self._since(text)
        asked = any(turn in self.interrupted for turn in since)
        doubtful = any(turn in since for turn in self.handed.values())
        self.check(asked or doubtful, f"{text!r} was cancelled and nobody asked for that")

    def _since(self, prompt: str) -> list[str]:
        """The turn of that prompt, and all that were begun later."""
        inputs = [self.inputs[input_id].text for input_id in self.begun.values()]
        return [*self.begun][inputs.index(prompt) :] if prompt in inputs else []

    def close(self) -> None:
        """What became of each input is what was sent."""
        for turn, outcome in self.over.items():
            entry = self.inputs[self.begun[turn]]
            if outcome == "completed":
                self.check(entry.text in self.sent, f"{entry.text!r} is completed and never sent")
        for entry in self.inputs.values():
            if entry.status != "handed" and entry.outcome in (None, "expired", "cancelled"):
                self.check(
                    entry.text not in self.sent, f"{entry.text!r} was sent and is {entry.outcome}"
                )


@attrs.define(eq=False)
class ProcessReferee(Referee):
    """All of them."""

    sent: dict[str, int] = attrs.Factory(dict)
    # What each process was prompted with last.
    prompts: dict[int, str] = attrs.Factory(dict)
    # Whose process it is, as far as that is known by what it was sent.
    owners: dict[int, str] = attrs.Factory(dict)

    def book(self, session_id: str) -> ProcessBook:
        if session_id not in self.books:
            self.books[session_id] = ProcessBook(self, session_id)
        found = self.books[session_id]
        assert isinstance(found, ProcessBook)
        return found

    def hear(self, process: InMemoryProcess, side: Side, line: bytes) -> None:
        """A line was written."""
        pid = process.identity.pid
        if side == "agent":
            if b"startedNewTurn" in line:
                self.prompts.pop(pid, None)  # which is then cancelled when it falls silent
            return
        message = json.loads(line)
        match message.get("method"):
            case "session/prompt":
                text = message["params"]["prompt"][-1]["text"]
                self._owner(pid, text)
                self._send(pid, text)
                self.prompts[pid] = text
                self._book_of(pid, "prompted", text)
            case "_session/steering":
                for block in message["params"]["prompt"]:
                    self._send(pid, block["text"])
                    self._book_of(pid, "steered", block["text"], self.prompts.get(pid))
            case "session/cancel" if pid in self.prompts:
                self._book_of(pid, "cancelled", self.prompts[pid])

    def _owner(self, pid: int, text: str) -> None:
        for book in self.books.values():
            if any(entry.text == text for entry in book.inputs.values()):
                other = self.owners.setdefault(pid, book.id)
                self.check(other == book.id, f"process {pid} is of {other}, and of {book.id}")
                return
        self.check(bool(self.gone), f"{text!r} was prompted and never accepted")

    def _send(self, pid: int, text: str) -> None:
        self.check(text not in self.sent, f"{text!r} was sent again")
        self.sent[text] = pid

    def _book_of(self, pid: int, told: str, *what: str | None) -> None:
        owner = self.owners.get(pid)
        if owner is not None and owner in self.books:
            heard: Any = getattr(self.book(owner), told)
            heard(*what)

    def close(self) -> None:
        for book in self.books.values():
            if isinstance(book, ProcessBook):
                book.close()
        super().close()
