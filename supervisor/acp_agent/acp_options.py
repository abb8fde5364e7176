"""The options of `understudy acp`."""

from __future__ import annotations

import attrs


@attrs.frozen(kw_only=True)
class AcpOptions:
    """How one process serves its client.

    `agent` is the agent of new sessions, `tag` one that they get and that a list is limited to.
    """

    agent: str | None = None
    tag: str | None = None
    stop_on_close: bool = True
    only_own_turns: bool = False
    unstable: bool = False
