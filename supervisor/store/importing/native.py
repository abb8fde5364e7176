"""Import of our own JSON lines, as `supervisor.store.export` writes them.

Rule 1: kinds, bodies, times and turns are imported verbatim, or refused. Only in names, titles,
        tags, keys, roles and the names in custom data a space replaces each control character:
        older versions took some. An agent's name that has one is refused. A session's name that
        no new session may have is replaced by one like it, or left out.
Rule 2: the result can be replayed: every fact is folded once, and each resulting row can be
        stored. A record that `repair` would report as an error is refused.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, Final

from supervisor.core.errors import ConfigError, ImportFailed, SupervisorError, short_repr
from supervisor.core.facts import Fact
from supervisor.core.fold import fold, initial_state
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.limits import MAX_INT64
from supervisor.core.records import FLAT_KINDS, KINDS, body_problem
from supervisor.core.state import SessionState
from supervisor.core.validation import check_custom, check_name, make_session_name, replace_controls
from supervisor.store.codec import decode, encode
from supervisor.store.export.jsonl import VERSION

from .builder import ImportedSession
from .json_lines import read_objects

_RECORD_FIELDS: Final = {"seq", "at", "turn_id", "kind", "body"}
_HINT: Final = "export the session again; a file edited by hand must stay complete"
_NAMING_KINDS: Final = frozenset(
    {"session_created", "session_changed", "child_started", "child_ended"}
)
_NAMES: Final[tuple[str, ...]] = ("title", "tags", "key", "role")
# The id for folding here; it is not stored.
_PLACEHOLDER_ID: Final = SessionId("imported")
_FOLD_ERRORS: Final = (KeyError, TypeError, ValueError, AttributeError, IndexError, SupervisorError)


def read_native(lines: Iterable[str]) -> ImportedSession:
    """Return the exported session; raise `ImportFailed` if a line is invalid."""
    warnings: list[str] = []
    objects = read_objects(lines, warnings)
    _read_header(objects)
    session: SessionState | None = None
    facts: list[Fact] = []
    for seq, (number, entry) in enumerate(objects, 1):
        fact = _fact(number, seq, entry)
        session = _fold_checked(number, session, fact)
        facts.append(fact)
    if session is None:
        raise ImportFailed(
            "the file has no record", hint="an export has one record a line after the header"
        )
    _check_row_storable(session)
    return ImportedSession(
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
            "the file is empty, or its first line is truncated", hint="export the session again"
        )
    version = header.get("understudy")
    if type(version) is not int or version < 1:
        raise ImportFailed(
            "it is not the header of an export",
            hint='the first line has "understudy": 1; for a foreign file, name its format',
            line=number,
        )
    if version > VERSION:
        raise ImportFailed(
            f"its format version is {version}, this program reads up to {VERSION}",
            hint="import it with the version of understudy that wrote it, or a newer one",
            line=number,
        )
    if not isinstance(header.get("session"), dict):
        raise ImportFailed("the header has no session", hint=_HINT, line=number)


def _fact(number: int, seq: int, entry: dict[str, Any]) -> Fact:
    problem = next(_problems(seq, entry), None)
    if problem is not None:
        raise ImportFailed(problem, hint=_HINT, line=number)
    turn_id = entry["turn_id"]
    turn = None if turn_id is None else TurnId(turn_id)
    body = entry["body"]
    if entry["kind"] in _NAMING_KINDS:
        body = _without_controls(body)
        _check_names(number, body)
    return Fact(entry["kind"], float(entry["at"]), body, turn, seq)


def _without_controls(body: dict[str, Any]) -> dict[str, Any]:
    """Return the body with a valid name, and a space for each control character in others."""
    names: dict[str, Any] = {name: _clean(body[name]) for name in _NAMES if name in body}
    if isinstance(body.get("name"), str):
        names["name"] = make_session_name(body["name"])
    lineage = body.get("lineage")
    if isinstance(lineage, dict) and "role" in lineage:
        names["lineage"] = {**lineage, "role": _clean(lineage["role"])}
    custom = body.get("custom")
    if isinstance(custom, dict):
        cleaned = {_clean(name): value for name, value in custom.items()}
        if len(cleaned) == len(custom):  # else two names became one: they are refused below
            names["custom"] = cleaned
    return body | names


def _check_names(number: int, body: dict[str, Any]) -> None:
    """Raise `ImportFailed` for an agent or custom data that `create` would refuse.

    Wrong types are reported when the record is folded.
    """
    agent, custom = body.get("agent"), body.get("custom")
    try:
        if isinstance(agent, str):
            check_name("agent", agent)
        if isinstance(custom, dict):
            check_custom(custom)
    except ConfigError as error:
        raise ImportFailed(error.args[0], hint=_HINT, line=number) from error


def _clean(value: Any) -> Any:  # noqa: ANN401 - plain data, of any type until it is folded
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return replace_controls(value) if isinstance(value, str) else value


def _problems(seq: int, entry: dict[str, Any]) -> Iterator[str]:
    """Yield the problems of a record. Only the first is used: later checks rely on earlier ones."""
    if entry.keys() != _RECORD_FIELDS:
        odd = sorted(entry.keys() ^ _RECORD_FIELDS)
        fields = ", ".join(sorted(_RECORD_FIELDS))
        yield f"a record has {fields}, this differs in {short_repr(odd[0])}"
    kind, body, turn_id = entry["kind"], entry["body"], entry["turn_id"]
    if type(entry["seq"]) is not int or entry["seq"] != seq:
        yield f"record {seq} is expected here, not {short_repr(entry['seq'])}"
    if type(entry["at"]) not in (int, float) or not abs(entry["at"]) <= MAX_INT64:
        yield f"its time is {short_repr(entry['at'])}"
    if not (turn_id is None or isinstance(turn_id, str)):
        yield f"its turn is {short_repr(turn_id)}"
    if not isinstance(kind, str) or kind not in KINDS:
        yield f"{short_repr(kind)} is not a kind of record of this version"
    if not isinstance(body, dict):
        yield f"its body is {short_repr(body)}"
    if (kind == "session_created") != (seq == 1):
        yield "session_created must be the first record, and only the first"
    wrong = body_problem(kind, body)
    if wrong is not None:
        yield wrong
    if kind == "agent_text" and body["part"] is not None and "continues" not in body:
        yield "a streamed agent_text lacks the field continues"


def _fold_checked(number: int, session: SessionState | None, fact: Fact) -> SessionState:
    try:
        after = initial_state(_PLACEHOLDER_ID, fact) if session is None else fold(session, fact)
        if fact.kind not in FLAT_KINDS and after is not session:
            # Every intermediate row must be storable: replays and snapshots need it.
            decode(encode(after), SessionState)
        return after  # noqa: TRY300 - an else would not be clearer
    except _FOLD_ERRORS as error:
        raise ImportFailed(
            f"this {fact.kind} cannot be folded ({type(error).__name__})",
            hint=_HINT,
            line=number,
        ) from error


def _check_row_storable(session: SessionState) -> None:
    """Raise if the folded row is not valid, for example with a number instead of a text."""
    try:
        is_same = decode(encode(session), SessionState) == session
    except (TypeError, ValueError):
        is_same = False
    if not is_same:
        raise ImportFailed(
            "the records do not form a valid session: some values have a wrong type",
            hint=_HINT,
        )
