"""Prompts as content blocks: text, attachments, and earlier messages for a new agent.

An attachment is a block of the protocol, or in short: `{"path": ...}`, `{"uri": ...}`,
`{"data": ..., "mime_type": ...}` (base64), `{"name": ..., "text": ...}`. An attachment that the
agent does not support, or of unknown form, becomes text that says what it is: nothing is left out
silently.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

import orjson

from supervisor.core.creation import Message
from supervisor.core.text import plain_data

from .capabilities import AgentCapabilities
from .content import as_integer, as_mapping, as_name, as_text, content_text, truncate

MAX_SHOWN_BYTES: Final = 4096


def prompt_blocks(
    text: str,
    attachments: Iterable[Mapping[str, Any]],
    *,
    capabilities: AgentCapabilities,
    workspace: str | None,
) -> list[dict[str, Any]]:
    """Return the blocks of `session/prompt`: the text, then each attachment."""
    blocks = (_prompt_block(attachment, capabilities, workspace) for attachment in attachments)
    return [_text_block(text), *blocks]


def _prompt_block(
    attachment: Mapping[str, Any], capabilities: AgentCapabilities, workspace: str | None
) -> dict[str, Any]:
    block = _parse_attachment(attachment, workspace)
    if block is None:
        shown = orjson.dumps(plain_data(attachment)).decode()
        return _text_block(f"[attachment] {truncate(shown, MAX_SHOWN_BYTES)}")
    return block if _is_supported(block, capabilities) else _block_as_text(block)


def _is_supported(block: Mapping[str, Any], capabilities: AgentCapabilities) -> bool:
    match block["type"]:
        case "image":
            return capabilities.takes_images
        case "audio":
            return capabilities.takes_audio
        case "resource":
            return capabilities.takes_embedded_context
        case _:
            return True  # every agent supports text and links


def _block_as_text(block: Mapping[str, Any]) -> dict[str, Any]:
    text = as_text(as_mapping(block.get("resource")).get("text"))
    # The text of a file is meant to be read, so it is not truncated.
    name = as_mapping(block.get("resource")).get("uri")
    return _text_block(content_text(block) if text is None else f"[attachment {name}]\n{text}")


# Attachments ------------------------------------------------------------------------------


def _parse_attachment(
    attachment: Mapping[str, Any], workspace: str | None
) -> dict[str, Any] | None:
    """Return the block of an attachment with exactly its fields; None for an unknown form."""
    text, uri = as_text(attachment.get("text")), as_name(attachment.get("uri"), max_letters=4096)
    name = as_name(attachment.get("name"))
    path = as_name(attachment.get("path"), max_letters=4096)
    data, mime = attachment.get("data"), _mime_type(attachment)
    resource = as_mapping(attachment.get("resource"))
    if resource:
        return _resource_block(resource)
    if isinstance(data, str) and mime is not None:
        return _media_block(data, mime, uri)
    if text is not None:
        is_plain = name is None and uri is None and path is None
        address = uri or _file_uri(path or name or "", workspace)
        return _text_block(text) if is_plain else _resource_block({"uri": address, "text": text})
    if uri is not None or path is not None:
        shown = name or PurePosixPath(path or uri or "").name
        return _link_block(uri or _file_uri(path or "", workspace), shown, attachment)
    return None


def _mime_type(attachment: Mapping[str, Any]) -> str | None:
    return as_name(attachment.get("mimeType", attachment.get("mime_type")))


def _resource_block(resource: Mapping[str, Any]) -> dict[str, Any] | None:
    uri = as_name(resource.get("uri"), max_letters=4096)
    mime = _mime_type(resource)
    fields: dict[str, Any] = {"uri": uri} if mime is None else {"uri": uri, "mimeType": mime}
    for field in ("text", "blob"):
        if uri is not None and isinstance(resource.get(field), str):
            return {"type": "resource", "resource": {**fields, field: resource[field]}}
    return None


def _media_block(data: str, mime: str, uri: str | None) -> dict[str, Any]:
    kind = mime.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": data, "mimeType": mime}
    resource = {"uri": uri or "attachment:data", "mimeType": mime, "blob": data}
    return {"type": "resource", "resource": resource}


def _link_block(uri: str, name: str, attachment: Mapping[str, Any]) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "resource_link", "uri": uri, "name": name or uri}
    mime = _mime_type(attachment)
    if mime is not None:
        block["mimeType"] = mime
    size = as_integer(attachment.get("size"))
    return block if size is None else {**block, "size": size}


def _file_uri(path: str, workspace: str | None) -> str:
    """Return the URI of a file; a relative path is relative to the workspace."""
    whole = os.path.join(workspace or "", path)  # noqa: PTH118 - paths are str here
    return PurePosixPath(whole).as_uri() if whole.startswith("/") else f"attachment:{path}"


def _text_block(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


# If the history is longer, its end is kept: that matters more than the beginning.
MAX_CONTEXT_BYTES: Final = 200_000

_CONTEXT_INTRODUCTION: Final = (
    "This is the conversation so far, which you have not seen. Continue from it; do not repeat it."
)


def context_blocks(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """Return one block with the last messages, up to `MAX_CONTEXT_BYTES`; none without messages.

    Messages are not cut, except a last message that alone is too long: its end is kept.
    """
    kept: list[str] = []
    size = 0
    for message in reversed(messages):
        text = message.text if kept else _tail_of(message.text)
        line = f"{message.role}: {text}"
        size += len(line.encode(errors="replace"))
        if kept and size > MAX_CONTEXT_BYTES:
            kept.append("(earlier messages are left out)")
            break
        kept.append(line)
    if not kept:
        return []
    history = "\n\n".join(reversed(kept))
    return [
        {
            "type": "text",
            "text": f"<conversation>\n{_CONTEXT_INTRODUCTION}\n\n{history}\n</conversation>",
        }
    ]


def _tail_of(text: str) -> str:
    """Return the end of the text, at most `MAX_CONTEXT_BYTES`."""
    written = text[-MAX_CONTEXT_BYTES:].encode(errors="replace")
    if len(text) <= MAX_CONTEXT_BYTES and len(written) <= MAX_CONTEXT_BYTES:
        return text
    # errors="ignore" drops a character that the cut splits.
    return "(...) " + written[-MAX_CONTEXT_BYTES:].decode(errors="ignore")
