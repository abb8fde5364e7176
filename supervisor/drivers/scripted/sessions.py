"""The sessions of an agent, and what keeps them when it is gone."""

from __future__ import annotations

import json
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from .flags import Flags
from .wire import Json

if TYPE_CHECKING:
    from .turn import Turn

MAX_HISTORY: Final = 10_000
MODES: Final = {"code": "Code", "ask": "Ask"}
MODELS: Final = {"small": "Small", "large": "Large"}


class Session:
    """A conversation: what it was told, and what was said in it."""

    def __init__(self, name: str, cwd: str, servers: list[Json], kept: Json | None = None) -> None:
        kept = kept or {}
        self.id = name
        self.cwd = cwd
        self.servers = servers
        self.mode: str = kept.get("mode", "code")
        self.options: Json = kept.get("options", {"model": "small", "brief": False})
        self.tokens: int = kept.get("tokens", 0)
        # Updates as they were sent, the newest of them.
        self.history: deque[Json] = deque(kept.get("history", ()), maxlen=MAX_HISTORY)
        # Invariant: set from a prompt until its answer; only then it takes another.
        self.turn: Turn | None = None
        # Kept when a turn begins, so that no call ever has the id of another.
        self.turns: int = kept.get("turns", 0)
        self._calls = 0

    def new_call(self) -> str:
        """An id for a tool call, which no other of the session has, in any process."""
        self._calls += 1
        return f"call-{self.turns}-{self._calls}"

    def kept(self) -> Json:
        """What is left of it when the process is gone."""
        return {
            "mode": self.mode,
            "options": self.options,
            "tokens": self.tokens,
            "turns": self.turns,
            "history": list(self.history),
        }

    def choices(self, flags: Flags, client: Json) -> Json:
        """Its modes and options, as answers that open a session say them."""
        said: Json = {}
        if flags.modes:
            known = [{"id": mode, "name": name} for mode, name in MODES.items()]
            said["modes"] = {"currentModeId": self.mode, "availableModes": known}
        if flags.config_options:
            said["configOptions"] = self.config_options(client)
        return said

    def config_options(self, client: Json) -> list[Json]:
        """The options; one that is a yes or a no only for a client that knows such."""
        models = [{"value": value, "name": name} for value, name in MODELS.items()]
        options: list[Json] = [
            {
                "type": "select",
                "id": "model",
                "name": "Model",
                "category": "model",
                "currentValue": self.options["model"],
                "options": models,
            }
        ]
        if knows_booleans(client):
            brief = {"id": "brief", "name": "Brief", "currentValue": self.options["brief"]}
            options.append({"type": "boolean", **brief})
        return options


def knows_booleans(client: Json) -> bool:
    """Whether the client said that an option may be a yes or a no."""
    said = (client.get("session") or {}).get("configOptions") or {}
    return said.get("boolean") is not None


class Shelf(Protocol):
    """Where sessions are kept."""

    def new_name(self) -> str:
        """A name for a session that no other has."""

    def load(self, name: str) -> Json | None:
        """What was kept under that name, if anything was."""

    def save(self, name: str, kept: Json) -> None:
        """Keep this from now on."""


class MemoryShelf:
    """Keeps them as long as it is there itself; tests hand it from one agent to the next."""

    def __init__(self) -> None:
        self._kept: dict[str, str] = {}

    def new_name(self) -> str:
        """See `Shelf`."""
        name = f"scripted-{len(self._kept) + 1}"
        self._kept[name] = "{}"
        return name

    def load(self, name: str) -> Json | None:
        """See `Shelf`."""
        text = self._kept.get(name)
        return None if text is None else dict(json.loads(text))

    def save(self, name: str, kept: Json) -> None:
        """See `Shelf`."""
        self._kept[name] = json.dumps(kept)
