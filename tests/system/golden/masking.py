"""Records without what differs between two plays of the same scenario.

Hidden are, and nothing else:

- ids, which are named by the order in which they come;
- times: that of the record, and how long a turn took;
- the id of the request that asked for a change, but not that there was one;
- claims: a session that has stopped is claimed for a request and left again when it is answered,
  so that the number of claims depends on how soon the next request comes;
- calls of tools (`mcp_call`), which only an assistant leaves; a test of their own compares them.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from supervisor import Record

Masked: TypeAlias = tuple[str, str | None, dict[str, Any]]

HIDDEN: Final = frozenset({"seconds", "request"})
_IDS: Final = re.compile(r"\b(s|in|turn|call|req)_[a-z0-9]{12}\b")


def differences(one: list[list[Record]], other: list[list[Record]]) -> list[str]:
    """Return the lines in which the records of two plays differ."""
    assert len(one) == len(other)
    return list(difflib.unified_diff(_lines(one), _lines(other), lineterm="", n=0))


def _lines(sessions: list[list[Record]]) -> list[str]:
    return [json.dumps(record) for records in masked(sessions) for record in records]


def masked(sessions: Iterable[Iterable[Record]]) -> list[list[Masked]]:
    """Return the records of each session as kind, turn and body."""
    names = _Names()
    return [
        [
            (record.kind, names.mask(record.turn_id), names.mask(record.body))
            for record in records
            if record.kind != "mcp_call" and not _is_claim(record)
        ]
        for records in sessions
    ]


def _is_claim(record: Record) -> bool:
    return record.kind == "session_changed" and record.body.keys() == {"epoch"}


class _Names:
    """The names of ids."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}

    def mask(self, value: Any) -> Any:  # noqa: ANN401 - any JSON value
        """Return a JSON value without what is hidden."""
        if isinstance(value, str):
            return _IDS.sub(self._name, value)
        if isinstance(value, Mapping):
            return {
                self.mask(name): "masked" if name in HIDDEN else self.mask(one)
                for name, one in value.items()
            }
        if isinstance(value, Sequence):
            return [self.mask(one) for one in value]
        return value

    def _name(self, found: re.Match[str]) -> str:
        return self._names.setdefault(found[0], f"{found[1]} {len(self._names)}")
