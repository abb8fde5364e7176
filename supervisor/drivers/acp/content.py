"""Untrusted data from agents: readers of fields, and content blocks as stored data.

Text is stored unchanged. Images, audio and files become a short placeholder with type, name and
size; their bytes are not stored. A field that does not have the expected type counts as absent.

Rule 1: no function of this module raises, for any value.
Rule 2: returned text has no lone surrogates, and returned numbers fit into every store.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from supervisor.core.text import plain_data, plain_text

# Larger numbers lose digits when read as a float.
_MAX_NUMBER: Final = 2**53
_EMPTY: Final[Mapping[str, Any]] = {}


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return the value if it is an object, else an empty mapping."""
    return value if isinstance(value, dict) else _EMPTY


def as_list(value: object) -> Sequence[Any]:
    """Return the value if it is a list, else an empty list."""
    return value if isinstance(value, list) else ()


def as_text(value: object) -> str | None:
    """Return the value if it is text, else None."""
    return plain_text(value) if isinstance(value, str) else None


def as_name(value: object, *, max_letters: int = 200) -> str | None:
    """Return the value if it is text, not blank and not too long; else None."""
    if not isinstance(value, str) or len(value) > max_letters:
        return None
    return plain_text(value) if value.strip() else None


def as_integer(value: object) -> int | None:
    """Return a whole number of 0 or more, else None; 3.0 counts, as in JavaScript."""
    number = as_number(value)
    return int(number) if number is not None and number.is_integer() else None


def as_number(value: object) -> float | None:
    """Return a number of 0 or more, else None."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    if not 0 <= value < _MAX_NUMBER or not math.isfinite(value):
        return None
    return float(value)


def has_capability(value: object) -> bool:
    """Return True if a capability is present: True, or an object, even an empty one."""
    return value is True or isinstance(value, dict)


# Describes the terminal with this id; None if it is unknown.
DescribeTerminal: TypeAlias = Callable[[str], Mapping[str, Any] | None]

MAX_RESOURCE_BYTES: Final = 4096
MAX_BLOCKS: Final = 1000
_MAX_LINE_LETTERS: Final = 300
_SCALAR_BYTES: Final = 8
# Fields that hold the bytes of a file, in base64.
_BASE64_FIELDS: Final = frozenset({"data", "blob"})
_BASE64_LETTERS: Final = 4
_BASE64_BYTES: Final = 3


def no_terminals(_: str) -> None:
    """Return None: the `describe_terminal` of callers without terminals."""


# As text ----------------------------------------------------------------------------------


def content_text(content: object) -> str:
    """Return the text of a content block, or a placeholder with its type, name and size.

    A plain text and a list of blocks are accepted too.
    """
    if isinstance(content, str):
        return as_text(content) or ""
    if isinstance(content, list):
        return "".join(content_text(block) for block in content[:MAX_BLOCKS] if _is_block(block))
    block = as_mapping(content)
    text = block.get("text")
    if block.get("type") == "text" or "type" not in block:
        return as_text(text) or (
            "" if text is None or "text" not in block else str(plain_data(text))
        )
    return _placeholder(block)


def _is_block(value: object) -> bool:
    return isinstance(value, str | dict)  # not a list: lists could nest without end


def _placeholder(block: Mapping[str, Any]) -> str:
    kind = _one_line(block.get("type")) or "content"
    resource = as_mapping(block.get("resource"))
    parts = [
        kind,
        _one_line(block.get("name")),
        _one_line(block.get("uri")) or _one_line(resource.get("uri")),
        _one_line(block.get("mimeType")) or _one_line(resource.get("mimeType")),
        _encoded_size(block) or _encoded_size(resource),
    ]
    placeholder = f"[{' '.join(part for part in parts if part)}]"
    text = as_text(resource.get("text"))
    return f"{placeholder}\n{truncate(text, MAX_RESOURCE_BYTES)}\n" if text else placeholder


def _one_line(value: object) -> str | None:
    text = as_text(value)
    return " ".join(text[:_MAX_LINE_LETTERS].split()) if text else None


def _encoded_size(block: Mapping[str, Any]) -> str | None:
    encoded = next(
        (value for name in _BASE64_FIELDS if isinstance(value := block.get(name), str)), None
    )
    return None if encoded is None else _decoded_size(encoded)


def _decoded_size(encoded: str) -> str:
    return f"{len(encoded) * _BASE64_BYTES // _BASE64_LETTERS} bytes"


# As data ----------------------------------------------------------------------------------


def content_data(
    content: object, describe_terminal: DescribeTerminal = no_terminals
) -> list[object]:
    """Return the content of a tool call as plain data, with terminals described."""
    return [_item_data(item, describe_terminal) for item in as_list(content)[:MAX_BLOCKS]]


def _item_data(item: object, describe_terminal: DescribeTerminal) -> object:
    block = as_mapping(item)
    if block.get("type") == "content":
        block = as_mapping(block.get("content"))
    terminal = block.get("terminalId")
    if block.get("type") == "terminal" and isinstance(terminal, str):
        return {"type": "terminal", "terminalId": terminal, **(describe_terminal(terminal) or {})}
    return _without_encoded_data(block) if block else content_text(item)


def _without_encoded_data(value: Mapping[str, Any]) -> dict[str, Any]:
    """Return a copy with base64 fields replaced by their size, also inside `resource`."""
    return {
        name: f"<{_decoded_size(field)}>"
        if name in _BASE64_FIELDS and isinstance(field, str)
        else (
            _without_encoded_data(field)
            if name == "resource" and isinstance(field, dict)
            else field
        )
        for name, field in value.items()
        if name != "_meta"
    }


def terminal_ids(content: object) -> list[str]:
    """Return the ids of the terminals in the content of a tool call."""
    items = [as_mapping(item) for item in as_list(content)[:MAX_BLOCKS]]
    ids = [item.get("terminalId") for item in items if item.get("type") == "terminal"]
    return [terminal for terminal in ids if isinstance(terminal, str)]


# Bounds -----------------------------------------------------------------------------------


def truncate(text: str, max_bytes: int) -> str:
    """Return the text, or its first `max_bytes` bytes and a note of its full size."""
    if len(text) * 4 <= max_bytes:
        return text
    encoded = text.encode(errors="replace")
    if len(encoded) <= max_bytes:
        return text
    kept = encoded[: max(0, max_bytes)].decode(errors="ignore")
    return f"{kept}... (cut: {len(encoded)} bytes in all)"


def bounded_data(value: object, max_bytes: int) -> Any:  # noqa: ANN401 - plain data of any shape
    """Return plain data of at most about `max_bytes`, with a note where something is cut."""
    return _SizeBound(max_bytes).apply(plain_data(value))


class _SizeBound:
    """Builds one bounded copy and counts the bytes that are left."""

    def __init__(self, max_bytes: int) -> None:
        self._bytes_left = max_bytes

    def apply(self, value: Any) -> Any:  # noqa: ANN401 - as above
        if isinstance(value, str):
            kept = truncate(value, self._bytes_left)
            self._bytes_left -= len(kept.encode()) + _SCALAR_BYTES
            return kept
        self._bytes_left -= _SCALAR_BYTES
        if isinstance(value, list):
            return self._apply_to_list(value)
        if isinstance(value, dict):
            return self._apply_to_dict(value)
        return value

    def _apply_to_list(self, items: list[Any]) -> list[Any]:
        bounded: list[Any] = []
        for item in items:
            if self._bytes_left <= 0:
                bounded.append(f"... (cut: {len(items)} items in all)")
                break
            bounded.append(self.apply(item))
        return bounded

    def _apply_to_dict(self, fields: dict[str, Any]) -> dict[str, Any]:
        bounded: dict[str, Any] = {}
        for name, field in fields.items():
            if self._bytes_left <= 0:
                bounded["..."] = f"(cut: {len(fields)} fields in all)"
                break
            kept_name = self.apply(name)  # before the field, which may use up all the bytes
            bounded[kept_name] = self.apply(field)
        return bounded
