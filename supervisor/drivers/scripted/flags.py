"""What an agent is told once and for all: the flags of the command line."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, NamedTuple

from supervisor.core.errors import ConfigError, shown

from .amounts import number, whole

# Where something can go wrong, and the method that leads there.
PHASES: Final = {
    "initialize": "initialize",
    "authenticate": "authenticate",
    "new": "session/new",
    "load": "session/load",
    "resume": "session/resume",
    "prompt": "session/prompt",
    "cancel": "session/cancel",
    "steering": "_session/steering",
    "mode": "session/set_mode",
    "config": "session/set_config_option",
    "close": "session/close",
}
PERMISSION_KINDS: Final = ("allow_once", "allow_always", "reject_once", "reject_always")
STEERING_OUTCOMES: Final = ("injected", "startedNewTurn", "promptRequired")


class Flags(NamedTuple):
    """What was told; methods stand where the command line has phases."""

    die_at: frozenset[str] = frozenset()
    hang_at: frozenset[str] = frozenset()
    fail_at: frozenset[str] = frozenset()
    rubbish_at: frozenset[str] = frozenset()
    delay: float = 0.0
    protocol: int = 1
    auth: str | None = None
    steering: str | None = None
    load: bool = False
    resume: bool = False
    resume_replays: bool = False
    close: bool = False
    state: str | None = None
    mcp: bool = False
    attachments: bool = False
    modes: bool = False
    config_options: bool = False
    offers: tuple[str, ...] = PERMISSION_KINDS
    usage: bool = False
    echo: bool = False
    out_of_order: bool = False
    banner: str | None = None


NO_FLAGS: Final = Flags()


class Flag(NamedTuple):
    """One flag: its name, what stands for its value, what it does, and how that is read."""

    name: str
    value: str | None
    does: str
    read: Callable[[str], Any] = str

    @property
    def field(self) -> str:
        """Where `Flags` has it."""
        return self.name.removeprefix("--").replace("-", "_")


def parse(words: Iterable[str]) -> Flags:
    """Read a command line; raises `ConfigError`."""
    given: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        flag = _BY_NAME.get(word)
        if flag is None:
            raise ConfigError(f"there is no flag {shown(word)}", hint=f"there are {_ALL_NAMES}")
        if flag.value is None:
            given[flag.field] = True
            continue
        text = next(rest, None)
        if text is None:
            raise ConfigError(f"{word} has no value", hint=f"write: {word} {flag.value}")
        value = flag.read(text)
        if isinstance(value, frozenset):  # such a flag may be given more than once
            value |= given.get(flag.field, frozenset())
        given[flag.field] = value
    return Flags(**given)


def _words(text: str, allowed: Iterable[str]) -> list[str]:
    allowed = list(allowed)
    given = text.split(",")
    for word in given:
        if word not in allowed:
            raise ConfigError(f"{shown(word)} is none of them", hint=f"give {', '.join(allowed)}")
    return given


def _phases(text: str) -> frozenset[str]:
    return frozenset(PHASES[word] for word in _words(text, PHASES))


def _offers(text: str) -> tuple[str, ...]:
    return tuple(_words(text, PERMISSION_KINDS))


def _outcome(text: str) -> str:
    if text not in STEERING_OUTCOMES:
        raise ConfigError(
            f"{shown(text)} is no outcome", hint=f"give {', '.join(STEERING_OUTCOMES)}"
        )
    return text


FLAGS: Final = (
    Flag("--die-at", "PHASES", "dies when that is asked of it, with code 1", _phases),
    Flag("--hang-at", "PHASES", "never answers that, and does nothing about it", _phases),
    Flag("--fail-at", "PHASES", "answers that with an error", _phases),
    Flag("--rubbish-at", "PHASES", "answers that with something that means nothing", _phases),
    Flag(
        "--delay",
        "SECONDS",
        "takes so long before it looks at any request but a prompt",
        lambda text: number("--delay", text),
    ),
    Flag(
        "--protocol",
        "NUMBER",
        "answers `initialize` with this version",
        lambda text: whole("--protocol", text),
    ),
    Flag("--auth", "METHOD", "opens no session before `authenticate` with this method"),
    Flag("--steering", "OUTCOME", "takes `_session/steering`, with this outcome", _outcome),
    Flag("--load", None, "can load sessions, and replays their history"),
    Flag("--resume", None, "can resume sessions, and replays nothing"),
    Flag("--resume-replays", None, "replays the history on resume too, as some agents do"),
    Flag("--close", None, "can close sessions"),
    Flag("--state", "FOLDER", "keeps its sessions there, so that another process has them too"),
    Flag("--mcp", None, "takes MCP servers over HTTP and SSE, too"),
    Flag("--attachments", None, "takes images, audio and embedded resources in prompts"),
    Flag("--modes", None, "has the modes `code` and `ask`"),
    Flag("--config-options", None, "has the options `model` and, if the client can, `brief`"),
    Flag("--offers", "KINDS", "offers only these answers to its permission requests", _offers),
    Flag("--usage", None, "says in the answer to a prompt how many tokens the turn used"),
    Flag("--echo", None, "plays no script: says the text back, word by word"),
    Flag("--out-of-order", None, "lets every second answer overtake the one before it"),
    Flag("--banner", "TEXT", "writes this line to its output first, as if it were a terminal"),
)
_BY_NAME: Final = {flag.name: flag for flag in FLAGS}
_ALL_NAMES: Final = ", ".join(_BY_NAME)
