"""The flags of the command line, numbers in flags and scripts, and the steps of a script."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from supervisor.core.errors import ConfigError, short_repr

StepType = TypeVar("StepType")

MAX_NUMBER: Final = 1e9


def parse_number(step: str, text: str) -> float:
    """Return the number; raise `ConfigError` unless it is at least 0 and below `MAX_NUMBER`."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0.0 <= number < MAX_NUMBER:
        raise ConfigError(
            f"{step} {short_repr(text)} is not a number", hint="give a number of at least 0"
        )
    return number


def parse_whole_number(step: str, text: str) -> int:
    """Return the whole number; raise `ConfigError` unless it is from 0 to below `MAX_NUMBER`."""
    number = parse_number(step, text)
    if not number.is_integer():
        raise ConfigError(
            f"{step} {short_repr(text)} is not a whole number",
            hint="give a number without a fraction",
        )
    return int(number)


def find_steps(script: str, steps: Mapping[str, StepType]) -> Iterator[tuple[StepType, str]]:
    """Yield the step of each line and the rest of the line; raise `ConfigError` at a wrong one.

    The steps before a wrong one have run by then.
    """
    for number, line in enumerate(script.splitlines(), 1):
        word, _, rest = line.strip().partition(" ")
        if not word:
            continue
        step = steps.get(word)
        if step is None:
            raise ConfigError(
                f"line {number} of the script begins with {short_repr(word)}",
                hint=f"the steps are {', '.join(steps)}",
            )
        yield step, rest.strip()


# The values of PHASES, and the ACP methods they stand for.
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
    """The parsed command line; phases are replaced by methods."""

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
    """One flag: its name, the name of its value, its help text, and the parser of its value."""

    name: str
    value: str | None
    help: str
    parse: Callable[[str], Any] = str

    @property
    def field(self) -> str:
        """The name of the flag's field in `Flags`."""
        return self.name.removeprefix("--").replace("-", "_")


def parse(words: Iterable[str]) -> Flags:
    """Return the parsed command line.

    Raise `ConfigError` for an unknown flag or an invalid value.
    """
    fields: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        flag = _BY_NAME.get(word)
        if flag is None:
            raise ConfigError(
                f"unknown flag {short_repr(word)}", hint=f"the flags are {_ALL_NAMES}"
            )
        if flag.value is None:
            fields[flag.field] = True
            continue
        text = next(rest, None)
        if text is None:
            raise ConfigError(f"{word} has no value", hint=f"write: {word} {flag.value}")
        value = flag.parse(text)
        if isinstance(value, frozenset):  # such a flag may be repeated
            value |= fields.get(flag.field, frozenset())
        fields[flag.field] = value
    return Flags(**fields)


def _words(text: str, allowed: Iterable[str]) -> list[str]:
    allowed = list(allowed)
    words = text.split(",")
    for word in words:
        if word not in allowed:
            raise ConfigError(
                f"{short_repr(word)} is not a valid value", hint=f"give {', '.join(allowed)}"
            )
    return words


def _phases(text: str) -> frozenset[str]:
    return frozenset(PHASES[word] for word in _words(text, PHASES))


def _offers(text: str) -> tuple[str, ...]:
    return tuple(_words(text, PERMISSION_KINDS))


def _outcome(text: str) -> str:
    if text not in STEERING_OUTCOMES:
        raise ConfigError(
            f"{short_repr(text)} is not an outcome", hint=f"give {', '.join(STEERING_OUTCOMES)}"
        )
    return text


FLAGS: Final = (
    Flag("--die-at", "PHASES", "exits with code 1 at these requests", _phases),
    Flag("--hang-at", "PHASES", "never answers these requests, and ignores them", _phases),
    Flag("--fail-at", "PHASES", "answers these requests with an error", _phases),
    Flag("--rubbish-at", "PHASES", "answers these requests with an invalid result", _phases),
    Flag(
        "--delay",
        "SECONDS",
        "waits this long before it handles any request but a prompt",
        lambda text: parse_number("--delay", text),
    ),
    Flag(
        "--protocol",
        "NUMBER",
        "answers `initialize` with this version",
        lambda text: parse_whole_number("--protocol", text),
    ),
    Flag("--auth", "METHOD", "opens no session before `authenticate` with this method"),
    Flag("--steering", "OUTCOME", "supports `_session/steering`, with this outcome", _outcome),
    Flag("--load", None, "can load sessions, and replays their history"),
    Flag("--resume", None, "can resume sessions, and replays nothing"),
    Flag("--resume-replays", None, "replays the history on resume too, as some agents do"),
    Flag("--close", None, "can close sessions"),
    Flag("--state", "FOLDER", "saves its sessions there, so that another process can load them"),
    Flag("--mcp", None, "accepts MCP servers over HTTP and SSE, too"),
    Flag("--attachments", None, "accepts images, audio and embedded resources in prompts"),
    Flag("--modes", None, "has the modes `code` and `ask`"),
    Flag(
        "--config-options",
        None,
        "has the options `model`, `thinking` and, if the client supports booleans, `brief`",
    ),
    Flag("--offers", "KINDS", "offers only these answers to its permission requests", _offers),
    Flag("--usage", None, "reports the tokens of the turn in the answer to a prompt"),
    Flag("--echo", None, "runs no script: says the text back, word by word"),
    Flag("--out-of-order", None, "lets every second answer overtake the one before it"),
    Flag("--banner", "TEXT", "writes this line to its output first, as if it were a terminal"),
)
_BY_NAME: Final = {flag.name: flag for flag in FLAGS}
_ALL_NAMES: Final = ", ".join(_BY_NAME)
