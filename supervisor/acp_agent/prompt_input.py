"""The blocks of a prompt as an input of ours: text, and attachments. Pure.

Rule 1: no block is lost: what is not text is an attachment, and its place is marked in the text.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import attrs

from supervisor.core.text import plain_data
from supervisor.core.trace_context import valid_trace
from supervisor.drivers.acp.content import as_mapping, as_text
from supervisor.json_rpc.rpc_messages import INVALID_PARAMS, RpcError

MAX_BLOCKS: Final = 1000
_KINDS: Final = frozenset({"text", "image", "audio", "resource_link", "resource"})


@attrs.frozen
class PromptInput:
    """An input made of a prompt; `trace` is its trace context."""

    text: str
    attachments: tuple[Mapping[str, Any], ...] = ()
    trace: Mapping[str, str] = attrs.field(factory=dict)


def parse_prompt(params: Mapping[str, Any]) -> PromptInput:
    """Return the input of `session/prompt`; raise `RpcError` if it has none."""
    blocks = params.get("prompt")
    if not isinstance(blocks, list) or not blocks:
        raise RpcError(INVALID_PARAMS, "prompt must be a list of content blocks")
    if len(blocks) > MAX_BLOCKS:
        raise RpcError(INVALID_PARAMS, f"prompt has {len(blocks)} blocks; {MAX_BLOCKS} are allowed")
    texts: list[str] = []
    attachments: list[Mapping[str, Any]] = []
    for number, item in enumerate(blocks):
        block = as_mapping(item)
        kind = as_text(block.get("type"))
        if kind not in _KINDS:
            raise RpcError(INVALID_PARAMS, f"prompt[{number}] has an unknown type")
        if kind == "text":
            texts.append(_text_of(block, number))
        else:
            texts.append(_mark(block))
            attachments.append(_attachment(block))
    text = "".join(texts)
    if not text.strip():
        raise RpcError(INVALID_PARAMS, "the prompt is blank")
    return PromptInput(text, tuple(attachments), trace_of(params))


def trace_of(params: Mapping[str, Any]) -> dict[str, str]:
    """Return the trace context in `_meta`, at whose root its fields are reserved."""
    return valid_trace(as_mapping(params.get("_meta")))


def _text_of(block: Mapping[str, Any], number: int) -> str:
    text = as_text(block.get("text"))
    if text is None:
        raise RpcError(INVALID_PARAMS, f"prompt[{number}] has no text")
    return text


def _mark(block: Mapping[str, Any]) -> str:
    """Return the text that stands where an attachment was."""
    resource = as_mapping(block.get("resource"))
    uri = as_text(block.get("uri")) or as_text(resource.get("uri"))
    name = as_text(block.get("name")) or (uri or "").rstrip("/").rpartition("/")[2]
    if uri is not None:
        return f"[@{name or uri}]({uri})"
    return f"[{block['type']}]"


def _attachment(block: Mapping[str, Any]) -> Mapping[str, Any]:
    plain: Any = plain_data({name: value for name, value in block.items() if name != "_meta"})
    return plain if isinstance(plain, dict) else {}
