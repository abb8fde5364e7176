"""Oracle of sessions with agent processes: checks every line sent to them.

Rule 1: only the wire is trusted. Each line sent is compared with the records at that time.
"""

from __future__ import annotations

import json
from typing import Any

import attrs
import trio

from supervisor import Record
from tests.simulation.oracle import AcceptedInput, Body, Oracle, SessionHistory
from tests.support.in_memory_processes import InMemoryProcess, Side

# Answers to steering after which the agent has certainly not taken it.
DECLINES = ("promptRequired", "error")
KNOWN_ANSWERS = (*DECLINES, "injected", "startedNewTurn")
# An agent has at least this time to answer steering, also in an interrupted turn.
MIN_WAIT_SECONDS = 1.0


@attrs.define(eq=False)
class ProcessHistory(SessionHistory):
    """One session whose agent is a process."""

    restarts: list[float] = attrs.Factory(list)
    # The turn for which each steering text was handed over, and the epoch then.
    handed: dict[str, str | None] = attrs.Factory(dict)
    handed_in: dict[str, int] = attrs.Factory(dict)
    # Steering that failed while it was being written to the agent.
    failed_unsent: list[str] = attrs.Factory(list)
    # Turns that were given up: their driver reports nothing more.
    abandoned: set[str] = attrs.Factory(set)

    def find(self, text: str) -> AcceptedInput | None:
        """Return the input with that text, which is unique."""
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
        elif body["outcome"] == "failed":
            self._check_failed(entry.text)
        entry.outcome = body["outcome"]

    def _check_failed(self, text: str) -> None:
        """Check that the outcome of steering is unknown: it left, and nothing came back.

        The driver may also have ended; an agent that has ended answers nothing.
        """
        if self.handed_in[text] != self.epoch:
            return
        if text not in self.sent:
            self.failed_unsent.append(text)
        if self._has_lost_agent(self.handed[text]):
            return
        if self.process_oracle.is_time_exact:
            now = trio.current_time()
            answer = self.answers.get(text)
            waited = now - self.process_oracle.sent_at.get(text, 0.0)
            # An answer at the instant at which the wait for it ends may come too late.
            is_late = (
                waited >= MIN_WAIT_SECONDS and self.process_oracle.answered_at.get(text) == now
            )
            self.check(
                answer not in KNOWN_ANSWERS or is_late,
                f"{text!r} failed and was answered with {answer}",
            )
            self.check(
                answer is not None or waited >= MIN_WAIT_SECONDS,
                f"{text!r} failed after {waited} s without an answer",
            )

    def _has_lost_agent(self, turn: str | None) -> bool:
        """Return True if the agent of the turn has exited, or was told to."""
        if turn is None:
            return False
        pid = self.sent.get(self.inputs[self.begun[turn]].text)
        return pid is not None and self.process_oracle.processes[pid].is_leaving

    def _input_changed(self, record: Record, body: Body) -> None:
        for input_id, changes in body["inputs"].items():
            entry = self.inputs[input_id]
            if entry.status == "handed" and changes.get("status") == "queued":
                self._check_requeued(entry.text)
            elif changes.get("status") == "handed":
                self.handed[entry.text] = record.turn_id
                self.handed_in[entry.text] = self.epoch
        super()._input_changed(record, body)

    def _check_requeued(self, text: str) -> None:
        """Check that steering may be sent again: the agent declined it, or never got it."""
        if self.sent.pop(text, None) is not None:
            answer = self.answers.pop(text, None)
            self.check(answer in DECLINES, f"{text!r} is queued again and was {answer}")

    def _turn_ended(self, record: Record, body: Body) -> None:
        super()._turn_ended(record, body)
        if body["zombie"]:
            self.abandoned.add(body["turn_id"])

    def _session_resumed(self, record: Record, body: Body) -> None:
        super()._session_resumed(record, body)
        if not body["woken"]:
            self.restarts.clear()  # a resume by a user resets the limit

    def _agent_restarting(self, record: Record, _: Body) -> None:
        assert self.row is not None
        terms = self.row.terms.restart
        self.restarts.append(record.at)
        recent = [at for at in self.restarts if record.at - at <= terms.within_seconds]
        self.check(len(recent) <= terms.max_restarts, f"{len(recent)} restarts within the window")

    @property
    def sent(self) -> dict[str, int]:
        """Texts sent to agents, with the process of each."""
        return self.process_oracle.sent

    @property
    def answers(self) -> dict[str, str]:
        """Answers of agents to steering texts."""
        return self.process_oracle.answers

    @property
    def process_oracle(self) -> ProcessOracle:
        assert isinstance(self.oracle, ProcessOracle)
        return self.oracle

    # The wire -------------------------------------------------------------------------------

    def prompted(self, text: str) -> None:
        entry = self.find(text)
        began = None if self.turn is None else self.inputs[self.begun[self.turn]]
        self.check(began is entry, f"{text!r} was prompted and is not the input of the turn")

    def steered(self, text: str, prompt: str | None) -> None:
        """Check that steering sent after a prompt is not for an earlier turn."""
        turn = self.handed.get(text)
        self.check(turn is not None, f"{text!r} was sent as steering without a record")
        if turn is not None:
            first = self.inputs[self.begun[turn]].text
            self.check(first in self.sent, f"{text!r} was sent before {first!r}")
        if prompt is not None:
            self.check(turn in self._since(prompt), f"{text!r} was for {turn}, which has ended")

    def cancelled(self, text: str) -> None:
        """Check that a cancel has a request: for that turn, or for one that the agent began since.

        The agent may also have begun a turn with steering whose answer came too late.
        """
        since = self._since(text)
        asked = any(turn in self.interrupted for turn in since)
        doubtful = any(turn in since for turn in self.handed.values())
        self.check(asked or doubtful, f"{text!r} was cancelled without a request")

    def _since(self, prompt: str) -> list[str]:
        """Return the turn of a prompt and all later ones."""
        inputs = [self.inputs[input_id].text for input_id in self.begun.values()]
        return [*self.begun][inputs.index(prompt) :] if prompt in inputs else []

    def close(self) -> None:
        """Check that the outcome of each input matches what was sent."""
        for text in self.failed_unsent:
            left = text in self.sent or self.handed[text] in self.abandoned
            self.check(left, f"{text!r} failed and never left")
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
class ProcessOracle(Oracle):
    """The histories of one run with agent processes."""

    sent: dict[str, int] = attrs.Factory(dict)
    # The texts of each steering call, by process and id; the answer to each text, and its time.
    steering_calls: dict[tuple[int, int], list[str]] = attrs.Factory(dict)
    answers: dict[str, str] = attrs.Factory(dict)
    answered_at: dict[str, float] = attrs.Factory(dict)
    processes: dict[int, InMemoryProcess] = attrs.Factory(dict)
    # The time at which each steering text was last sent.
    sent_at: dict[str, float] = attrs.Factory(dict)
    # True if no timeout elapses early, so that durations can be checked.
    is_time_exact: bool = False
    # The last prompt of each process.
    prompts: dict[int, str] = attrs.Factory(dict)
    # The session of each process, known from its first prompt.
    owners: dict[int, str] = attrs.Factory(dict)

    def history(self, session_id: str) -> ProcessHistory:
        if session_id not in self.histories:
            self.histories[session_id] = ProcessHistory(self, session_id)
        found = self.histories[session_id]
        assert isinstance(found, ProcessHistory)
        return found

    def hear(self, process: InMemoryProcess, side: Side, line: bytes) -> None:
        """Check a line on the wire."""
        pid = process.identity.pid
        self.processes[pid] = process
        if side == "agent":
            self._hear_answer(pid, line)
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
                texts = [block["text"] for block in message["params"]["prompt"]]
                self.steering_calls[pid, message["id"]] = texts
                for text in texts:
                    self._send(pid, text)
                    self.sent_at[text] = trio.current_time()
                    self._book_of(pid, "steered", text, self.prompts.get(pid))
            case "session/cancel" if pid in self.prompts:
                self._book_of(pid, "cancelled", self.prompts[pid])

    def _hear_answer(self, pid: int, line: bytes) -> None:
        """Note the answer of an agent to steering."""
        try:
            message = json.loads(line)
            texts = self.steering_calls[pid, message["id"]]
        except (ValueError, KeyError, TypeError):
            return  # something else, or no message at all
        result = message.get("result")
        outcome = result.get("outcome") if isinstance(result, dict) else None
        answer = "error" if "error" in message else str(outcome)
        self.answers |= dict.fromkeys(texts, answer)
        self.answered_at |= dict.fromkeys(texts, trio.current_time())
        if answer == "startedNewTurn":
            self.prompts.pop(pid, None)  # the agent's own turn may be cancelled later

    def _owner(self, pid: int, text: str) -> None:
        for history in self.histories.values():
            if any(entry.text == text for entry in history.inputs.values()):
                other = self.owners.setdefault(pid, history.id)
                self.check(
                    other == history.id, f"process {pid} belongs to {other} and to {history.id}"
                )
                return
        self.check(bool(self.deleted_ids), f"{text!r} was prompted and never accepted")

    def _send(self, pid: int, text: str) -> None:
        self.check(text not in self.sent, f"{text!r} was sent again")
        self.sent[text] = pid

    def _book_of(self, pid: int, told: str, *what: str | None) -> None:
        owner = self.owners.get(pid)
        if owner is not None and owner in self.histories:
            check_news_read: Any = getattr(self.history(owner), told)
            check_news_read(*what)

    def close(self) -> None:
        for history in self.histories.values():
            if isinstance(history, ProcessHistory):
                history.close()
        super().close()
