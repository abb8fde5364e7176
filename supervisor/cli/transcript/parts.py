"""Parts of streamed text whose records have not arrived."""

from __future__ import annotations

from collections.abc import Iterator

import attrs

from supervisor.core.records import Delta


@attrs.define(eq=False)
class StreamedPart:
    """The text of a part so far."""

    kind: str
    name: str
    turn_id: str
    text: str
    # A delta was missed: what follows is shown when the record arrives.
    has_hole: bool = False


class OpenParts:
    """The open parts of one session, in the order in which they began."""

    def __init__(self) -> None:
        self._parts: dict[str, StreamedPart] = {}

    def __iter__(self) -> Iterator[StreamedPart]:
        return iter(list(self._parts.values()))

    def add(self, delta: Delta) -> str:
        """Add the text of a delta; return the piece that is new and can be shown at the end."""
        if delta.kind not in ("agent_text", "thought"):
            return ""
        part = self._parts.get(delta.part)
        if part is None:
            part = StreamedPart(delta.kind, delta.part, delta.turn_id, "", delta.offset > 0)
            self._parts[delta.part] = part
        known = len(part.text)
        part.has_hole = part.has_hole or delta.offset > known
        if part.has_hole:
            return ""
        piece = delta.text[known - delta.offset :]
        part.text += piece
        return piece

    def close(self, name: object) -> None:
        """Forget the part, because its record is there, and parts before it."""
        if isinstance(name, str) and name in self._parts:
            while next(iter(self._parts)) != name:
                del self._parts[next(iter(self._parts))]
            del self._parts[name]

    def clear(self) -> None:
        """Forget all parts."""
        self._parts.clear()
