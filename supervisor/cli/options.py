"""Options shared by several commands, and the text of an input from words or standard input."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any, TypeVar

import click

from supervisor.core.errors import ConfigError

from .text_format import parse_duration, parse_size

if TYPE_CHECKING:
    from click.shell_completion import CompletionItem

F = TypeVar("F", bound=Callable[..., Any])


def json_option(function: F) -> F:
    """Add the option `--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def state_option(function: F) -> F:
    """Add the option `--state PATH`."""
    return click.option(
        "--state",
        metavar="PATH",
        type=click.Path(),
        help="Use this store file instead of the daemon.",
    )(function)


def config_option(function: F) -> F:
    """Add the option `--config PATH`."""
    return click.option(
        "--config",
        "config_path",
        metavar="PATH",
        type=click.Path(),
        help="Read only this configuration file.",
    )(function)


class Duration(click.ParamType[float]):
    """A number of seconds, or `10m`, `12h`, `30d`."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Return the number of seconds; fail as click does for other text."""
        if isinstance(value, int | float):
            return float(value)
        seconds = parse_duration(str(value))
        if seconds is None:
            self.fail(f"{value!r} is not a duration; write 90, 45s, 10m, 12h or 30d", param, ctx)
        return seconds


class Size(click.ParamType[int]):
    """A number of bytes, or `500k`, `20MB`, `1.5GiB`."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number of bytes; fail as click does for other text."""
        if isinstance(value, int):
            return value
        count = parse_size(str(value))
        if count is None:
            self.fail(f"{value!r} is not a size; write 4096, 500k, 20MB or 1.5GiB", param, ctx)
        return count


class Text(click.ParamType[str]):
    """A text that is not blank."""

    name = "text"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the text."""
        if not str(value).strip():
            self.fail("it is blank; write some text, or leave the option out", param, ctx)
        return str(value)


class CheckedText(Text):
    """A text that a check of the API accepts, so that an invalid one is wrong usage."""

    def __init__(self, check: Callable[[str], object]) -> None:
        self._check = check

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the text; fail as click does if it is blank or the check refuses it."""
        text = super().convert(value, param, ctx)
        try:
            self._check(text)
        except ConfigError as error:
            from .failures import hint_of  # noqa: PLC0415 - only for an invalid value

            self.fail(f"{error.args[0]}; {hint_of(error)}", param, ctx)
        return text


def _check_session_name(text: str) -> None:
    from supervisor.core.validation import check_session_name  # noqa: PLC0415 - only for a name

    check_session_name(text)


def _check_line(text: str) -> None:
    from supervisor.core.validation import check_name  # noqa: PLC0415 - as above

    check_name("the text", text)


def _check_filter(text: str) -> None:
    from supervisor.core.validation import check_filter  # noqa: PLC0415 - as above

    check_filter("the text", text)


def _check_cursor(text: str) -> None:
    from supervisor.handles.arguments import decode_cursor  # noqa: PLC0415 - as above

    decode_cursor(text)


class Word(click.ParamType[str]):
    """One of the words of a type of the API, which is imported when a word is checked."""

    name = "word"

    def __init__(self, words: Callable[[], Iterable[str]]) -> None:
        self.words = words

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the word; fail as click does for any other."""
        words = tuple(self.words())
        if str(value) not in words:
            self.fail(f"{value!r} is not one of {', '.join(words)}", param, ctx)
        return str(value)

    def shell_complete(
        self,
        ctx: click.Context,  # noqa: ARG002 - click's signature
        param: click.Parameter,  # noqa: ARG002 - as above
        incomplete: str,
    ) -> list[CompletionItem]:
        """Return the words that begin with what is typed."""
        from click.shell_completion import CompletionItem  # noqa: PLC0415 - only for the shell

        return [CompletionItem(word) for word in self.words() if word.startswith(incomplete)]


class StateWord(Word):
    """A badge, or a word that the column STATE shows, with a `-` for each blank."""

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> str:
        """Return the word as a filter compares it; fail as click does for any other."""
        from .session_cells import filter_word  # noqa: PLC0415 - only for a filter

        return super().convert(filter_word(str(value)), param, ctx)


def _states() -> Iterable[str]:
    from .session_cells import all_state_words  # noqa: PLC0415 - only for a filter

    return all_state_words()


def _phases() -> Iterable[str]:
    from supervisor.core.session_values import Phase  # noqa: PLC0415 - only for a filter

    return (phase.value for phase in Phase)


class Count(click.ParamType[int]):
    """A whole number of at least `minimum`. Unlike click's type it adds no range to the help."""

    name = "count"

    def __init__(self, minimum: int) -> None:
        self._minimum = minimum

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Return the number; fail as click does if it is not a number or below the minimum."""
        text = str(value)
        if not _WHOLE_NUMBER.fullmatch(text) or int(text) < self._minimum:
            self.fail(f"{value!r} is not a whole number of at least {self._minimum}", param, ctx)
        return int(text)


# At most 18 digits: the store uses 64-bit integers.
_WHOLE_NUMBER = re.compile("[0-9]{1,18}")

DURATION = Duration()

SIZE = Size()

STATE = StateWord(_states)

PHASE = Word(_phases)

TEXT = Text()

NAME = CheckedText(_check_session_name)

LINE = CheckedText(_check_line)

FILTER = CheckedText(_check_filter)

CURSOR = CheckedText(_check_cursor)

# More than any session accepts; an endless device must not fill the memory.
MAX_TEXT_CHARACTERS = 16 * 1024 * 1024


def input_text(words: tuple[str, ...]) -> str:
    """Return the words as one text; read standard input without words, or for the word `-`.

    Raise click's `UsageError` if standard input is a terminal and no words are given, or if it is
    too long.
    """
    if words and words != ("-",):
        return require_text(" ".join(words))
    if not words and sys.stdin.isatty():
        raise click.UsageError("TEXT is missing. Write it, or pipe it in.")
    try:
        text = sys.stdin.read(MAX_TEXT_CHARACTERS + 1)
        text.encode()  # Python decodes other bytes as lone surrogates in some locales
    except UnicodeError:
        raise click.UsageError("Standard input is not UTF-8.") from None
    if len(text) > MAX_TEXT_CHARACTERS:
        raise click.UsageError(f"Standard input has more than {MAX_TEXT_CHARACTERS} characters.")
    return require_text(text.rstrip("\n"))


def require_text(text: str) -> str:
    """Return the text; raise click's `UsageError` if it is blank."""
    if not text.strip():
        raise click.UsageError("TEXT is blank. Write some text.")
    return text
