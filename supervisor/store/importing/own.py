"""Our own JSON lines, as `supervisor.store.exporting` writes them.

Rule 1: kinds, bodies, times and turns are taken verbatim, or not at all.
Rule 2: what is given replays: every fact was folded here once, and the row that came of each can
        be stored. What a repair would call an error does not come in.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from supervisor.core.errors import ImportFailed, SupervisorError, shown
from supervisor.core.facts import KINDS, Fact
from supervisor.core.folds import begin, fold
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.limits import LARGEST
from supervisor.core.session import Session
from supervisor.store.codec import decode, encode
from supervisor.store.exporting.lines import VERSION
from supervisor.store.shapes import FLAT, misfit

from .imported import Imported
from .strict import objects_in

_NAMES: Final = {"seq", "at", "turn_id", "kind", "body"}
_MEND: Final = "export the session again; a file that was changed by hand must stay whole"
# Replayed under this id, which nobody sees.
_NOBODY: Final = SessionId("imported")
_UNFIT: Final = (KeyError, TypeError, ValueError, AttributeError, IndexError, SupervisorError)


def read_own(lines: Iterable[str]) -> Imported:
    """The session that was exported."""
    warnings: list[str] = []
    objects = objects_in(lines, warnings)
    _read_header(objects)
    session: Session | None = None
    facts: list[Fact] = []
    for seq, (number, thing) in enumerate(objects, 1):
        fact = _fact(number, seq, thing)
        session = _folded(number, session, fact)
        facts.append(fact)
    if session is None:
        raise ImportFailed(
            "there is no record in it", hint="an export has one line a record after the first line"
        )
    _refuse_unless_storable(session)
    return Imported(
        format="jsonl",
        created=facts[0],
        facts=tuple(facts[1:]),
        agent=session.agent_name,
        name=session.name,
        title=session.title,
        tags=session.tags,
        custom=session.custom,
        workspace=session.workspace,
        created_at=session.created_at,
        warnings=tuple(warnings),
    )


def _read_header(objects: Iterator[tuple[int, dict[str, Any]]]) -> None:
    number, header = next(objects, (1, None))
    if header is None:
        raise ImportFailed(
            "the file is empty, or its first line breaks off", hint="export the session again"
        )
    version = header.get("understudy")
    if type(version) is not int or version < 1:
        raise ImportFailed(
            "it is no header of an export",
            hint='the first line has "understudy": 1; for another\'s file, name its format',
            line=number,
        )
    if version > VERSION:
        raise ImportFailed(
            f"it was exported in form {version}, and this version reads up to {VERSION}",
            hint="import it with the version that wrote it, or a newer one",
            line=number,
        )
    if not isinstance(header.get("session"), dict):
        raise ImportFailed("the header has no session", hint=_MEND, line=number)


def _fact(number: int, seq: int, thing: dict[str, Any]) -> Fact:
    problem = next(_problems(seq, thing), None)
    if problem is not None:
        raise ImportFailed(problem, hint=_MEND, line=number)
    turn_id = thing["turn_id"]
    turn = None if turn_id is None else TurnId(turn_id)
    return Fact(thing["kind"], float(thing["at"]), thing["body"], turn)


def _problems(seq: int, thing: dict[str, Any]) -> Iterator[str]:
    """What is wrong with a record; the first counts, and what follows relies on no such thing."""
    if thing.keys() != _NAMES:
        odd = sorted(thing.keys() ^ _NAMES)
        yield f"a record has {', '.join(sorted(_NAMES))}, this differs in {shown(odd[0])}"
    kind, body, turn_id = thing["kind"], thing["body"], thing["turn_id"]
    if type(thing["seq"]) is not int or thing["seq"] != seq:
        yield f"record {seq} should stand here, not {shown(thing['seq'])}"
    if type(thing["at"]) not in (int, float) or not abs(thing["at"]) <= LARGEST:
        yield f"its time is {shown(thing['at'])}"
    if not (turn_id is None or isinstance(turn_id, str)):
        yield f"its turn is {shown(turn_id)}"
    if not isinstance(kind, str) or kind not in KINDS:
        yield f"{shown(kind)} is no kind of record that this version knows"
    if not isinstance(body, dict):
        yield f"its body is {shown(body)}"
    if (kind == "session_created") != (seq == 1):
        yield "the first record, and no other, is session_created"
    wrong = misfit(kind, body)
    if wrong is not None:
        yield wrong
    if kind == "agent_text" and body["part"] is not None and "continues" not in body:
        yield "an agent_text that was streamed, without continues"


def _folded(number: int, session: Session | None, fact: Fact) -> Session:
    try:
        after = begin(_NOBODY, fact) if session is None else fold(session, fact)
        if fact.kind not in FLAT and after is not session:
            decode(encode(after), Session)  # as it was then: replays and snapshots want that too
        return after  # noqa: TRY300 - an else would say no more
    except _UNFIT as error:
        raise ImportFailed(
            f"nothing can be made of this {fact.kind} ({type(error).__name__})",
            hint=_MEND,
            line=number,
        ) from error


def _refuse_unless_storable(session: Session) -> None:
    """Raise if the row that came of it is none: a number where there should be a text, say."""
    try:
        is_same = decode(encode(session), Session) == session
    except (TypeError, ValueError):
        is_same = False
    if not is_same:
        raise ImportFailed(
            "what the records make is no session: some of them have values of another type",
            hint=_MEND,
        )
