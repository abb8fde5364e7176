"""A prompt in the blocks of the protocol: the text, and what came with it as the agent takes it.

An attachment is a block of the protocol, or in short: `{"path": ...}`, `{"uri": ...}`,
`{"data": ..., "mime_type": ...}` (base64), `{"name": ..., "text": ...}`. What the agent does not
take, and what nobody knows, becomes text that says what it is: nothing is left out silently.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

import orjson

from supervisor.drivers.acp.life.offers import AgentOffers
from supervisor.drivers.acp.news.content import cut, text_of
from supervisor.drivers.acp.reading import as_mapping, as_name, as_text, as_whole
from supervisor.drivers.plain import plain

MAX_SHOWN_BYTES: Final = 4096


def prompt_blocks(
    text: str,
    attachments: Iterable[Mapping[str, Any]],
    *,
    offers: AgentOffers,
    workspace: str | None,
) -> list[dict[str, Any]]:
    """The blocks of `session/prompt`: the text first, then each attachment."""
    return [_text(text), *(_block_of(given, offers, workspace) for given in attachments)]


def _block_of(
    given: Mapping[str, Any], offers: AgentOffers, workspace: str | None
) -> dict[str, Any]:
    block = _as_block(given, workspace)
    if block is None:
        shown = orjson.dumps(plain(given)).decode()
        return _text(f"[attachment] {cut(shown, MAX_SHOWN_BYTES)}")
    return block if _is_taken(block, offers) else _as_text(block)


def _is_taken(block: Mapping[str, Any], offers: AgentOffers) -> bool:
    match block["type"]:
        case "image":
            return offers.images
        case "audio":
            return offers.audio
        case "resource":
            return offers.embedded_context
        case _:
            return True  # text and links are taken by all


def _as_text(block: Mapping[str, Any]) -> dict[str, Any]:
    text = as_text(as_mapping(block.get("resource")).get("text"))
    # What is in a file was meant to be read, all of it.
    name = as_mapping(block.get("resource")).get("uri")
    return _text(text_of(block) if text is None else f"[attachment {name}]\n{text}")


# Reading ----------------------------------------------------------------------------------


def _as_block(given: Mapping[str, Any], workspace: str | None) -> dict[str, Any] | None:
    """The block that was meant, with what it must have and nothing else."""
    text, uri = as_text(given.get("text")), as_name(given.get("uri"), max_letters=4096)
    name = as_name(given.get("name"))
    path = as_name(given.get("path"), max_letters=4096)
    data, mime = given.get("data"), as_name(given.get("mimeType", given.get("mime_type")))
    resource = as_mapping(given.get("resource"))
    if resource:
        return _resource(resource)
    if isinstance(data, str) and mime is not None:
        return _media(data, mime, uri)
    if text is not None:
        is_plain = name is None and uri is None and path is None
        address = uri or _address(path or name or "", workspace)
        return _text(text) if is_plain else _resource({"uri": address, "text": text})
    if uri is not None or path is not None:
        shown = name or PurePosixPath(path or uri or "").name
        return _link(uri or _address(path or "", workspace), shown, given)
    return None


def _resource(given: Mapping[str, Any]) -> dict[str, Any] | None:
    uri = as_name(given.get("uri"), max_letters=4096)
    mime = as_name(given.get("mimeType", given.get("mime_type")))
    resource: dict[str, Any] = {"uri": uri} if mime is None else {"uri": uri, "mimeType": mime}
    for field in ("text", "blob"):
        if uri is not None and isinstance(given.get(field), str):
            return {"type": "resource", "resource": {**resource, field: given[field]}}
    return None


def _media(data: str, mime: str, uri: str | None) -> dict[str, Any]:
    kind = mime.partition("/")[0]
    if kind in ("image", "audio"):
        return {"type": kind, "data": data, "mimeType": mime}
    resource = {"uri": uri or "attachment:data", "mimeType": mime, "blob": data}
    return {"type": "resource", "resource": resource}


def _link(uri: str, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
    block: dict[str, Any] = {"type": "resource_link", "uri": uri, "name": name or uri}
    mime = as_name(given.get("mimeType", given.get("mime_type")))
    if mime is not None:
        block["mimeType"] = mime
    size = as_whole(given.get("size"))
    return block if size is None else {**block, "size": size}


def _address(path: str, workspace: str | None) -> str:
    """A file's address; a path that is not absolute is one in the workspace."""
    whole = os.path.join(workspace or "", path)  # noqa: PTH118 - a text in, a text out
    return PurePosixPath(whole).as_uri() if whole.startswith("/") else f"attachment:{path}"


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}
