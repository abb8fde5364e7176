"""What a person should look at in a session: kept in its state, or derived from what is open.

Rule 1: an open permission request, question, login or stall is shown as long as it is open.
Rule 2: a failure, a refused spawn, a permission that timed out and a stop by a budget stay until a
        person has seen their record or a later turn has completed. Nothing that only reads a
        session removes them.
Rule 3: the state keeps at most one of each kind, the newest, so its size is bounded.
Rule 4: failures of turns are one kind to a person: the newest comes first, lost or failed.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final, TypeAlias, get_args

from .endings import BUDGET_REASONS, FAILED_REASONS
from .session_values import Attention, AttentionKind

if TYPE_CHECKING:  # structs: short commands import `Info`, and must not import msgspec
    from .facts import Fact
    from .records import Body, Changes
    from .state import OpenTurn, SessionState

Items: TypeAlias = tuple[Attention, ...]

# The most urgent first.
ATTENTION_KINDS: Final[tuple[AttentionKind, ...]] = get_args(AttentionKind)

# Open as long as the state says so; their items only say since when.
_OPEN_KINDS: Final = frozenset[AttentionKind]({"login", "stall"})
# These happen within a turn, which may complete nevertheless.
_WITHIN_A_TURN: Final = frozenset[AttentionKind]({"permission_timeout", "refused_spawn"})
# Ordered among themselves by time: what happened to the last turn is what counts.
_FAILURES_OF_TURNS: Final = frozenset[AttentionKind]({"lost_turn", "failed_turn"})
# The turn did not end as it should have, although it was the supervisor that interrupted it.
_STALL_VERDICTS: Final = frozenset({"stalled", "restart"})

MAX_DETAIL_CHARS: Final = 500


def attention_of(session: SessionState) -> Items:
    """Return what a person should look at, the most urgent first; nothing once it is archived."""
    if session.archived:
        return ()
    if session.turn is None and not session.attention and session.remembered is None:
        return ()
    found = [*_open_items(session), *(i for i in session.attention if i.kind not in _OPEN_KINDS)]
    return tuple(sorted(found, key=_urgency))


def _urgency(item: Attention) -> tuple[int, int]:
    if item.kind in _FAILURES_OF_TURNS:
        return ATTENTION_KINDS.index("lost_turn"), -item.seq
    return ATTENTION_KINDS.index(item.kind), 0


def _open_items(session: SessionState) -> Iterator[Attention]:
    turn = session.turn
    for request in () if turn is None else turn.requests:
        detail = request.title[:MAX_DETAIL_CHARS]
        yield Attention(request.kind, detail, request.asked_at, request.seq or 0)
    if session.waits_for_auth:
        assert session.remembered is not None
        yield _item_since(session, "login") or Attention(
            "login", session.remembered.auth, session.updated_at, 0
        )
    if turn is not None and turn.silence == "stalled":
        yield _item_since(session, "stall") or Attention("stall", None, session.updated_at, 0)


def _item_since(session: SessionState, kind: AttentionKind) -> Attention | None:
    return next((item for item in session.attention if item.kind == kind), None)


# What facts change -----------------------------------------------------------------------


def with_item(
    session: SessionState, kind: AttentionKind, detail: str | None, fact: Fact
) -> Changes:
    """Return the change that adds an item, in place of an earlier one of its kind."""
    if not session.keeps_attention:
        return {}
    text = None if detail is None else detail[:MAX_DETAIL_CHARS]
    others = without(session.attention, kind)
    return {"attention": (*others, Attention(kind, text, fact.at, fact.seq))}


def without(items: Items, *kinds: AttentionKind) -> Items:
    """Return the items of other kinds."""
    return tuple([item for item in items if item.kind not in kinds])


def seen(session: SessionState, body: Body, fact: Fact) -> Changes:
    """Return the changes when a person has seen the records up to a number."""
    seq = body["seq"]
    # Its own number counts as seen if it follows at once, so a second look adds no record.
    reached = fact.seq if fact.seq == seq + 1 else seq
    changes: Changes = {"seen_seq": max(session.seen_seq, reached)}
    if session.attention:
        changes["attention"] = tuple(
            [item for item in session.attention if item.seq > seq or item.kind in _OPEN_KINDS]
        )
    return changes


def login_changed(session: SessionState, body: Body, fact: Fact) -> Changes:
    """Return the changes when the agent begins or ends to wait for a login."""
    if body["auth"] is not None:
        return with_item(session, "login", body["auth"], fact)
    return {"attention": without(session.attention, "login")} if session.attention else {}


def spawn_refused(session: SessionState, body: Body, fact: Fact) -> Changes | None:
    """Return the changes when a child was not admitted."""
    return with_item(session, "refused_spawn", f"{body['limit']}: {body['detail']}", fact) or None


def after_turn(session: SessionState, body: Body, fact: Fact) -> Items:
    """Return the items after the end of a turn: a good one removes those of the time before it."""
    turn, outcome = session.turn, body["outcome"]
    items = without(session.attention, "stall")
    if outcome == "completed":
        return tuple([item for item in items if _is_of_turn(item, turn)])
    kind = _kind_of_end(outcome, turn)
    if kind is None:
        return items
    detail = body["error"] or body["stop_reason"] or outcome
    ended = Attention(kind, detail[:MAX_DETAIL_CHARS], fact.at, fact.seq)
    return (*without(items, kind), ended)


def _is_of_turn(item: Attention, turn: OpenTurn | None) -> bool:
    if item.kind in _OPEN_KINDS:
        return True
    return item.kind in _WITHIN_A_TURN and turn is not None and item.at >= turn.started_at


def _kind_of_end(outcome: str, turn: OpenTurn | None) -> AttentionKind | None:
    if outcome == "lost":
        return "lost_turn"
    has_stalled = turn is not None and turn.verdict in _STALL_VERDICTS
    return "failed_turn" if outcome != "interrupted" or has_stalled else None


def after_stop(session: SessionState, body: Body, fact: Fact) -> Changes:
    """Return the change of a stop: one by a failure or by a budget is something to look at."""
    reason, detail = body["reason"], body["detail"]
    if reason in BUDGET_REASONS:
        return with_item(session, "budget", detail or reason, fact)
    if reason in FAILED_REASONS:
        text = f"{reason}: {detail}" if detail else reason
        return with_item(session, "failed_session", text, fact)
    return {}
