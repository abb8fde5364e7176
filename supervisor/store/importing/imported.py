"""What an import gives: everything that is needed to make the session anew."""

from __future__ import annotations

from collections.abc import Mapping

import attrs

from supervisor.core.facts import Fact


@attrs.frozen(kw_only=True)
class Imported:
    """A session from a file, not yet stored, and without an id.

    `created` is our own `session_created`, verbatim; None if the file is somebody else's, and then
    whoever stores it makes one of the fields here. `facts` is all that came after it, in order.
    `agent` is None where the file does not say which agent it was.
    """

    format: str
    facts: tuple[Fact, ...]
    created: Fact | None = None
    agent: str | None = None
    name: str | None = None
    title: str | None = None
    tags: tuple[str, ...] = ()
    custom: Mapping[str, str] = attrs.field(factory=dict)
    workspace: str | None = None
    created_at: float | None = None
    warnings: tuple[str, ...] = ()
