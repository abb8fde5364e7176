"""What each session does just now, in a few words, from the records as they are written."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from supervisor.sessions.hooks import HookEvent

_LONGEST: Final = 200


class Doings:
    """By session; give `hear` to `sup.hooks.add("record_written", ...)`."""

    def __init__(self) -> None:
        self.now: dict[str, str] = {}
        self._calls: dict[str, dict[str, str]] = {}

    def hear(self, event: HookEvent) -> None:
        """A record was written."""
        session, body = str(event.session_id), event.data["body"]
        calls = self._calls.setdefault(session, {})
        match event.data["kind"]:
            case "tool_call":
                calls[body["call_id"]] = body["name"]
            case "tool_ended":
                calls.pop(body["call_id"], None)
            case "agent_text":
                self.now[session] = f"says: {body['text'].strip()[-_LONGEST:]}"
                return
            case "turn_started" | "turn_ended":
                calls.clear()
                self.now[session] = ""
            case "quiet":
                self.now[session] = "is quiet"
            case "stalled":
                self.now[session] = "is stalled"
            case "agent_restarting":
                calls.clear()
                self.now[session] = "its agent died"
        if calls:
            self.now[session] = f"at work: {', '.join(calls.values())}"
