"""A tool as the protocol shows it, and the answer of one call."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

import attrs

from .caller import Caller


@attrs.frozen(kw_only=True)
class ToolDescription:
    """What a client reads of a tool; the schemas are JSON Schema objects."""

    name: str
    title: str
    description: str
    input_schema: Mapping[str, Any]
    output_schema: Mapping[str, Any]
    annotations: Mapping[str, Any]


@attrs.frozen(kw_only=True)
class ToolAnswer:
    """The answer of a call: structured content that fits the output schema, and a short text.

    Of an error, `structured` is `{code, detail, hint, retry, ...}`.
    """

    structured: Mapping[str, Any]
    text: str
    is_error: bool = False


class Toolbox(Protocol):
    """The tools as the protocol calls them."""

    def tools_for(self, caller: Caller) -> tuple[ToolDescription, ...]:
        """Return the tools that the caller may use, always in the same order."""

    def instructions_for(self, caller: Caller) -> str:
        """Return the instructions for the model, at most a dozen lines."""

    async def call(self, name: str, arguments: Mapping[str, Any], caller: Caller) -> ToolAnswer:
        """Call a tool; raise KeyError for a name that `tools_for` does not list.

        Every other refusal is an answer with `is_error`.
        """
