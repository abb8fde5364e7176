"""Checks of single values: text, tags, names, seconds, attachments."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

from .errors import (
    ConfigError,
    InputRefused,
    InvalidKey,
    SpawnRefused,
    SupervisorError,
    short_repr,
)
from .ids import SessionKey
from .match import PREFIXES
from .permissions import RIGHTS, Permissions
from .text import plain_data


def expiry_problem(steady_at: float, expires_at: float | None) -> SupervisorError | None:
    """Return the error if the input would expire before it can start; else None."""
    if expires_at is None or expires_at > steady_at:
        return None
    return InputRefused("it would expire before it begins", hint="give ttl_seconds above 0")


T = TypeVar("T")

_AGENT_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")

AGENT_NAME_HINT: Final = "use at most 64 letters, digits, - and _"

MAX_NAME_BYTES = 1024

MAX_CUSTOM_BYTES = 16384

# Control characters and the other two line ends of Unicode; also as a class in JSON schema.
CONTROL_CLASS: Final = r"\u0000-\u001f\u007f-\u009f\u2028\u2029"

_CONTROL: Final = re.compile(f"[{CONTROL_CLASS}]")

_ONE_LINE: Final = "give one line of printable text"

# Texts that stand for an id, a part of one, or nothing where a session is named.
SHORT_ID: Final = rf"(?:{'|'.join(PREFIXES.values())})[0-9a-z_]*"

_SHORT_ID: Final = re.compile(SHORT_ID)

_PATH_SEPARATOR: Final = "/"
_STANDARD_INPUT: Final = "-"
_LEADING_DASHES: Final = re.compile(r"[-\s]+")

MAX_SECONDS = 1e10  # about three hundred years
# The largest integer that every store and every JSON reader keeps exactly.
MAX_INTEGER: Final = 2**53


def exact_str(text: T) -> T:
    """Return the text as a plain str: a store does not return an instance of a subclass."""
    return str.__str__(text) if isinstance(text, str) else text  # type: ignore[return-value]


def check_choice(name: str, word: T, choices: Any) -> T:  # noqa: ANN401 - a Literal
    """Return the value; raise ConfigError unless it is one of the choices."""
    allowed = choices.__args__  # as `get_args`, which also handles types that are not literals
    if type(word) is str and word in allowed:
        return word
    if not isinstance(word, str) or word not in allowed:
        raise ConfigError(
            f"{name} is {short_repr(word)}", hint=f"choose one of {', '.join(allowed)}"
        )
    return exact_str(word)


def check_text(name: str, text: object) -> str:
    """Return the text; raise ConfigError if it is blank, too long or cannot be encoded."""
    if not isinstance(text, str) or not text.strip():
        raise ConfigError(f"{name} is {short_repr(text)}", hint="give some text")
    _check_name_size(name, text)
    return exact_str(text)


def check_name(name: str, text: object) -> str:
    """Return the text; raise ConfigError as `check_text` does, and for a control character.

    Names, titles, tags and the like are stored and shown as one line.
    """
    checked = check_text(name, text)
    if (found := _control_in(checked)) is not None:
        raise ConfigError(f"{name} contains {found}", hint=_ONE_LINE)
    return checked


def check_session_name(text: object) -> str:
    """Return the name; raise ConfigError as `check_name` does, and if it could be mistaken.

    A name is neither the form of an id nor a path, has no blanks around it, and shows all that it
    contains. Sessions that older versions stored may have such names.
    """
    checked = check_name("name", text)
    problem = _mistakable(checked)
    if problem is not None:
        raise ConfigError(f"the name {short_repr(checked)} {problem}", hint=_NAME_HINT)
    return checked


_NAME_HINT: Final = (
    "give a name such as parser-2: visible text without / and blanks around it, not beginning with"
    f" - or like an id ({', '.join(PREFIXES.values())})"
)


def _mistakable(name: str) -> str | None:
    """Return why a name of one line could be taken for something else; None if it could not."""
    if _SHORT_ID.fullmatch(name):
        return "has the form of an id"
    if name == _STANDARD_INPUT:
        return "stands for standard input"
    if name.startswith("-"):
        return "begins with -, as an option does"
    if _PATH_SEPARATOR in name:
        return "contains /, which separates the names of a path"
    if name != name.strip():
        return "begins or ends with a blank"
    hidden = next((one for one in name if _is_invisible(one)), None)
    return None if hidden is None else f"contains the invisible character U+{ord(hidden):04X}"


def _is_invisible(character: str) -> bool:
    return unicodedata.category(character) == "Cf"


def make_session_name(text: str) -> str | None:
    """Return a name that `check_session_name` accepts, as like the text as possible; or None.

    For names that were never checked, or not by this version.
    """
    shown = "".join(one for one in replace_controls(text) if not _is_invisible(one))
    shown = shown.replace(_PATH_SEPARATOR, "-")
    begin = _LEADING_DASHES.match(shown)
    name = shown[0 if begin is None else begin.end() :].strip()
    if _SHORT_ID.fullmatch(name):
        name = name.replace("_", "-", 1)
    return name or None


def check_key(key: SessionKey | str) -> SessionKey:
    """Return the key, parsed if it is a text.

    Raise InvalidKey if the text is malformed, or a part contains a control character: keys that
    older versions stored may have some, so the class itself accepts them.
    """
    checked = key if isinstance(key, SessionKey) else SessionKey.parse(key)
    if (found := _control_in(str(checked))) is not None:
        raise InvalidKey(f"the key contains {found}", hint=_ONE_LINE)
    return checked


def check_permission_names(permissions: Permissions) -> Permissions:
    """Return the permissions; raise ConfigError if a name in them has a control character.

    Rows that older versions stored may have some, so the class itself accepts them.
    """
    for right in RIGHTS:
        for name in sorted(getattr(permissions, right) or ()):
            if (found := _control_in(name)) is not None:
                raise ConfigError(
                    f"permissions.{right} has a name that contains {found}", hint=_ONE_LINE
                )
    return permissions


def _control_in(text: str) -> str | None:
    """Return a description of the first control character in a text; None if it has none."""
    found = _CONTROL.search(text)
    return None if found is None else f"the control character U+{ord(found[0]):04X}"


def replace_controls(text: str) -> str:
    """Return the text with a space for each control character.

    For text that was never checked: of older versions, of files, and titles made from messages.
    """
    return _CONTROL.sub(" ", text)


def check_filter(name: str, text: object) -> None:
    """Raise ConfigError unless the value is None or text that a stored name can contain."""
    check_optional_text(name, text)
    if isinstance(text, str):
        _check_name_size(name, text)


def _check_name_size(name: str, text: str) -> None:
    size = encoded_size(name, text)
    if size > MAX_NAME_BYTES:
        raise ConfigError(
            f"{name} has {size} bytes of {MAX_NAME_BYTES} allowed", hint="make it shorter"
        )


def is_agent_name(name: object) -> bool:
    """Return True for a name that an agent may have; it is also part of keys and of settings."""
    return isinstance(name, str) and _AGENT_NAME.fullmatch(name) is not None


def check_agent_name(name: object) -> str:
    """Return the name of an agent; raise ConfigError."""
    if not isinstance(name, str) or not is_agent_name(name):
        raise ConfigError(f"the name of an agent is {short_repr(name)}", hint=AGENT_NAME_HINT)
    return exact_str(name)


def check_prompt(text: str) -> str:
    """Return the text of an input; raise InputRefused if it is blank or cannot be encoded.

    The session checks the length.
    """
    # The same texts as in the session's own check of every input.
    if not isinstance(text, str):
        raise InputRefused(f"the text is {short_repr(text)}", hint="send some text")
    if not text.strip():
        raise InputRefused("the text is blank", hint="send some text")
    if not text.isascii():
        try:
            text.encode()
        except UnicodeEncodeError:
            raise InputRefused(
                "the text contains a lone surrogate",
                hint="a lone surrogate cannot be stored: decode the text correctly first",
            ) from None
    return text if type(text) is str else exact_str(text)


def encoded_size(name: str, text: str) -> int:
    """Return the size of a text in UTF-8; raise ConfigError for a lone surrogate."""
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise ConfigError(
            f"{name} contains a lone surrogate",
            hint="a lone surrogate cannot be stored: decode the text correctly first",
        ) from None


def check_optional_text(name: str, text: object) -> None:
    """Raise ConfigError unless the value is None or text that can be encoded."""
    if text is None:
        return
    if not isinstance(text, str):
        raise ConfigError(f"{name} is {short_repr(text)}", hint="give some text, or None")
    encoded_size(name, text)


def check_ttl_seconds(seconds: object) -> float:
    """Return the seconds; raise InputRefused unless they are above 0 and up to `MAX_SECONDS`."""
    good = isinstance(seconds, (int, float)) and not isinstance(seconds, bool)
    if not good or not 0 < seconds <= MAX_SECONDS:  # type: ignore[operator]
        raise InputRefused(
            f"ttl_seconds is {short_repr(seconds)}",
            hint=f"give a number above 0 and up to {MAX_SECONDS:g}, or None for no limit",
        )
    return float(seconds)  # type: ignore[arg-type]


def check_attachments(attachments: Sequence[Mapping[str, Any]]) -> tuple[Mapping[str, Any], ...]:
    """Return the attachments; raise InputRefused unless all are plain data."""
    if attachments == ():
        return ()
    is_list = isinstance(attachments, Sequence) and not isinstance(attachments, str | bytes)
    if not is_list or not all(type(attachment) is dict for attachment in attachments):
        raise InputRefused(f"attachments is {short_repr(attachments)}", hint="give a list of dicts")
    copies = tuple(plain_data(attachment) for attachment in attachments)
    if any(copy != attachment for copy, attachment in zip(copies, attachments, strict=True)):
        raise InputRefused(
            "an attachment is not plain data",
            hint="text, finite numbers, lists and dicts; encode bytes, or attach a path",
        )
    return copies  # type: ignore[return-value] # the plain copy of a dict is a dict


def check_tags(tags: Sequence[str]) -> tuple[str, ...]:
    """Return the tags; raise ConfigError if one is not a name, or they are too large together."""
    if isinstance(tags, str | Mapping) or not isinstance(tags, Iterable):
        raise ConfigError(f"tags is {short_repr(tags)}", hint="give a list of names")
    checked = tuple(check_name("a tag", tag) for tag in tags)
    size = sum(encoded_size("tags", tag) for tag in checked)
    if size > MAX_CUSTOM_BYTES:
        raise ConfigError(
            f"tags have {size} bytes of {MAX_CUSTOM_BYTES} allowed",
            hint="they are written with every step of the session; use fewer",
        )
    return checked


def check_custom(custom: Mapping[str, str]) -> dict[str, str]:
    """Return the custom data; raise ConfigError unless it is a small mapping of text to text."""
    if not isinstance(custom, Mapping) or not all(
        isinstance(key, str) and isinstance(value, str) for key, value in custom.items()
    ):
        raise ConfigError(f"custom is {short_repr(custom)}", hint="give a mapping of text to text")
    if (found := _control_in("".join(custom))) is not None:
        raise ConfigError(f"a name in custom contains {found}", hint=_ONE_LINE)
    size = sum(
        encoded_size("custom", key) + encoded_size("custom", value) for key, value in custom.items()
    )
    if size > MAX_CUSTOM_BYTES:
        raise ConfigError(
            f"custom has {size} bytes of {MAX_CUSTOM_BYTES} allowed",
            hint="it is written with every step of the session; keep large things elsewhere",
        )
    return {exact_str(key): exact_str(value) for key, value in custom.items()}


def check_bool(name: str, value: object) -> bool:
    """Return the value; raise ConfigError unless it is a bool."""
    if not isinstance(value, bool):
        raise ConfigError(f"{name} is {short_repr(value)}", hint="give True or False")
    return value


def check_seconds(name: str, value: object) -> None:
    """Raise ConfigError unless the value is a number of seconds from 0 to `MAX_SECONDS`."""
    good = isinstance(value, int | float) and not isinstance(value, bool)
    if not good or not 0 <= value <= MAX_SECONDS:  # type: ignore[operator]
        raise ConfigError(f"{name} is {short_repr(value)}", hint="give seconds, as a number")


def check_integer(name: str, value: int, *, least: int = 1, most: int = MAX_INTEGER) -> int:
    """Return the value; raise ConfigError unless it is an integer from `least` to `most`."""
    good = isinstance(value, int) and not isinstance(value, bool)
    if not good or not least <= value <= most:
        raise ConfigError(
            f"{name} is {short_repr(value)}", hint=f"give a whole number from {least} to {most}"
        )
    return value


def check_child_ttl_seconds(seconds: float) -> float:
    """Return the lifetime of a child in seconds; raise SpawnRefused if it is not above 0.

    Raise InputRefused if it is not a number or above `MAX_SECONDS`.
    """
    if type(seconds) in (int, float) and seconds <= 0:
        raise SpawnRefused(
            f"ttl_seconds must be positive (got {short_repr(seconds)})",
            hint="give ttl_seconds above 0, or None",
            limit="expiry",
        )
    return check_ttl_seconds(seconds)
