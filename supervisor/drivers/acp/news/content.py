"""Content as it can be kept: text as it is, everything else as a short mark, and never too much.

Pictures, sound and files are not stored; what they were and how large is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from supervisor.drivers.acp.reading import as_list, as_mapping, as_text
from supervisor.drivers.plain import plain

# What is shown of the terminal of that id; None if nobody knows it.
ShownTerminal: TypeAlias = Callable[[str], Mapping[str, Any] | None]

MAX_RESOURCE_BYTES: Final = 4096
MAX_BLOCKS: Final = 1000
_NAME_LETTERS: Final = 300
_SCALAR_BYTES: Final = 8
# Fields that hold nothing but the bytes of a file, written out in letters.
_ENCODED: Final = frozenset({"data", "blob"})
_ENCODED_LETTERS: Final = 4
_ENCODED_BYTES: Final = 3


def no_terminals(_: str) -> None:
    """Where there are no terminals, none can be shown."""


# As text ----------------------------------------------------------------------------------


def text_of(content: object) -> str:
    """What a block of content says: its text, or a mark that says what it is.

    A lone text is as good as a block, and several blocks as good as one.
    """
    if isinstance(content, str):
        return as_text(content) or ""
    if isinstance(content, list):
        return "".join(text_of(block) for block in content[:MAX_BLOCKS] if _is_block(block))
    block = as_mapping(content)
    text = block.get("text")
    if block.get("type") == "text" or "type" not in block:
        return as_text(text) or ("" if text is None or "text" not in block else str(plain(text)))
    return _mark_of(block)


def _is_block(value: object) -> bool:
    return isinstance(value, str | dict)  # and no list again: one could nest without end


def _mark_of(block: Mapping[str, Any]) -> str:
    kind = _name(block.get("type")) or "content"
    resource = as_mapping(block.get("resource"))
    words = [
        kind,
        _name(block.get("name")),
        _name(block.get("uri")) or _name(resource.get("uri")),
        _name(block.get("mimeType")) or _name(resource.get("mimeType")),
        _size_of(block) or _size_of(resource),
    ]
    mark = f"[{' '.join(word for word in words if word)}]"
    text = as_text(resource.get("text"))
    return f"{mark}\n{cut(text, MAX_RESOURCE_BYTES)}\n" if text else mark


def _name(value: object) -> str | None:
    text = as_text(value)
    return " ".join(text[:_NAME_LETTERS].split()) if text else None


def _size_of(block: Mapping[str, Any]) -> str | None:
    encoded = next((value for name in _ENCODED if isinstance(value := block.get(name), str)), None)
    return None if encoded is None else _decoded_size(encoded)


def _decoded_size(encoded: str) -> str:
    return f"{len(encoded) * _ENCODED_BYTES // _ENCODED_LETTERS} bytes"


# As data ----------------------------------------------------------------------------------


def shown_content(content: object, shown_terminal: ShownTerminal = no_terminals) -> list[object]:
    """The content of a tool call as plain data; text, diffs and terminals are shown as such."""
    return [_shown(item, shown_terminal) for item in as_list(content)[:MAX_BLOCKS]]


def _shown(item: object, shown_terminal: ShownTerminal) -> object:
    given = as_mapping(item)
    if given.get("type") == "content":
        given = as_mapping(given.get("content"))
    terminal = given.get("terminalId")
    if given.get("type") == "terminal" and isinstance(terminal, str):
        return {"type": "terminal", "terminalId": terminal, **(shown_terminal(terminal) or {})}
    return _without_bytes(given) if given else text_of(item)


def _without_bytes(value: Mapping[str, Any]) -> dict[str, Any]:
    """A copy in which what encodes a file is only measured, also one level down."""
    return {
        name: f"<{_decoded_size(field)}>"
        if name in _ENCODED and isinstance(field, str)
        else (_without_bytes(field) if name == "resource" and isinstance(field, dict) else field)
        for name, field in value.items()
        if name != "_meta"
    }


def terminals_in(content: object) -> list[str]:
    """The ids of the terminals that a tool call shows."""
    items = [as_mapping(item) for item in as_list(content)[:MAX_BLOCKS]]
    ids = [item.get("terminalId") for item in items if item.get("type") == "terminal"]
    return [terminal for terminal in ids if isinstance(terminal, str)]


# Bounds -----------------------------------------------------------------------------------


def cut(text: str, max_bytes: int) -> str:
    """The text, or its beginning and a note of how much there was."""
    if len(text) * 4 <= max_bytes:
        return text
    encoded = text.encode(errors="replace")
    if len(encoded) <= max_bytes:
        return text
    kept = encoded[: max(0, max_bytes)].decode(errors="ignore")
    return f"{kept}... (cut: {len(encoded)} bytes in all)"


def bounded(value: object, max_bytes: int) -> Any:  # noqa: ANN401 - plain data of any shape
    """Plain data of about so many bytes at most; where something was left out, it says so."""
    return _Bounded(max_bytes).of(plain(value))


class _Bounded:
    """One copy in the making, and how much may still go into it."""

    def __init__(self, max_bytes: int) -> None:
        self._left = max_bytes

    def of(self, value: Any) -> Any:  # noqa: ANN401 - as above
        if isinstance(value, str):
            kept = cut(value, self._left)
            self._left -= len(kept.encode()) + _SCALAR_BYTES
            return kept
        self._left -= _SCALAR_BYTES
        if isinstance(value, list):
            return self._of_list(value)
        if isinstance(value, dict):
            return self._of_dict(value)
        return value

    def _of_list(self, items: list[Any]) -> list[Any]:
        made: list[Any] = []
        for item in items:
            if self._left <= 0:
                made.append(f"... (cut: {len(items)} items in all)")
                break
            made.append(self.of(item))
        return made

    def _of_dict(self, fields: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {}
        for name, field in fields.items():
            if self._left <= 0:
                made["..."] = f"(cut: {len(fields)} fields in all)"
                break
            shown = self.of(name)  # first, or what is large would leave nothing for its name
            made[shown] = self.of(field)
        return made
