"""What the client offers, read from `initialize`; and our answer to it. Pure."""

from __future__ import annotations

from typing import Any, Final

import attrs

from supervisor.drivers.acp.content import as_mapping, has_capability

# The only version that is stable. A client that asks for another gets this one as the answer, and
# closes the connection if it does not speak it.
PROTOCOL_VERSION: Final = 1


@attrs.frozen
class ClientOffers:
    """The capabilities of the client that we use; one that is absent is not offered.

    `switches`: it shows options that are true or false.
    """

    notices: bool = False
    forms: bool = False
    switches: bool = False

    @classmethod
    def parse(cls, params: object) -> ClientOffers:
        """Return the capabilities in the params of `initialize`, whatever their shape."""
        offered = as_mapping(as_mapping(params).get("clientCapabilities"))
        session = as_mapping(offered.get("session"))
        elicitation = as_mapping(offered.get("elicitation"))
        options = as_mapping(session.get("configOptions"))
        return cls(
            notices=has_capability(session.get("notices")),
            forms=has_capability(elicitation.get("form")),
            switches=has_capability(options.get("boolean")),
        )


def initialize_result(version: str, *, unstable: bool) -> dict[str, Any]:
    """Return the answer to `initialize`.

    Attachments of all kinds are taken: for an agent that cannot read one, its driver says what it
    is. So are MCP servers: those that the agent does not support are named in a warning.
    """
    session: dict[str, Any] = {"list": {}, "resume": {}, "close": {}, "delete": {}}
    if unstable:
        session |= {"fork": {}, "archive": {}, "status": {}, "title": {}}
    return {
        "protocolVersion": PROTOCOL_VERSION,
        "agentInfo": {"name": "understudy", "title": "Understudy", "version": version},
        "agentCapabilities": {
            "loadSession": True,
            "promptCapabilities": {"image": True, "audio": True, "embeddedContext": True},
            "mcpCapabilities": {"http": True, "sse": True},
            "sessionCapabilities": session,
        },
        "authMethods": [],
        "_meta": {"steering": {"supported": True}},
    }
