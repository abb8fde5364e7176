"""What waits, and what became of it."""

from __future__ import annotations

import attrs

from supervisor.core.facts import Body, Changes, Fact
from supervisor.core.ids import InputId
from supervisor.core.session import Session, Waiting


def input_accepted(session: Session, body: Body, fact: Fact) -> Changes:
    waiting = Waiting(
        id=InputId(body["input_id"]),
        number=body["number"],
        text=body["text"],
        when_busy=body["when_busy"],
        source=body["source"],
        accepted_at=fact.at,
        generation=body["generation"],
        expires_at=body["expires_at"],
        replacement=body["replacement"],
        attachments=tuple(body["attachments"]),
    )
    return {"accepted": waiting.number, "inputs": _in_order((*session.inputs, waiting))}


def input_changed(session: Session, body: Body, _: Fact) -> Changes:
    changed = body["inputs"]
    return {
        "inputs": _in_order(
            tuple(
                attrs.evolve(waiting, **changed[waiting.id]) if waiting.id in changed else waiting
                for waiting in session.inputs
            )
        )
    }


def input_settled(session: Session, body: Body, _: Fact) -> Changes:
    settled = body["input_id"]
    changes: Changes = {
        "inputs": tuple(waiting for waiting in session.inputs if waiting.id != settled)
    }
    if settled == session.lineage.input and body["outcome"] not in ("delivered", "steered"):
        # It will never run, which is also an end of what the session was spawned for.
        changes["family"] = attrs.evolve(session.family, outcome="interrupted")
    return changes


def generation_raised(_: Session, body: Body, __: Fact) -> Changes:
    return {"generation": body["generation"]}


def _in_order(inputs: tuple[Waiting, ...]) -> tuple[Waiting, ...]:
    if len(inputs) < 2:  # noqa: PLR2004 - one alone is in order
        return inputs
    return tuple(sorted(inputs, key=lambda waiting: waiting.order))
