"""Options that several commands have, spelled once."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any, TypeVar

import click

from supervisor.cli.terminal.times import parse_duration, parse_size

F = TypeVar("F", bound=Callable[..., Any])


def json_option(function: F) -> F:
    """`--json`."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON, for programs.")(
        function
    )


def state_option(function: F) -> F:
    """`--state PATH`."""
    return click.option(
        "--state",
        metavar="PATH",
        type=click.Path(),
        help="A file with sessions, instead of the daemon.",
    )(function)


def config_option(function: F) -> F:
    """`--config PATH`."""
    return click.option(
        "--config",
        "config_path",
        metavar="PATH",
        type=click.Path(),
        help="Read this configuration file, and no other.",
    )(function)


class Duration(click.ParamType[float]):
    """A number of seconds, or `10m`, `12h`, `30d`."""

    name = "duration"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """Seconds."""
        if isinstance(value, int | float):
            return float(value)
        seconds = parse_duration(str(value))
        if seconds is None:
            self.fail(f"{value!r} is no time; write 90, 45s, 10m, 12h or 30d", param, ctx)
        return seconds


class Size(click.ParamType[int]):
    """A number of bytes, or `500k`, `20MB`, `1.5GiB`."""

    name = "size"

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """Bytes."""
        if isinstance(value, int):
            return value
        count = parse_size(str(value))
        if count is None:
            self.fail(f"{value!r} is no size; write 4096, 500k, 20MB or 1.5GiB", param, ctx)
        return count


class Count(click.ParamType[int]):
    """A whole number, from `least` on. Unlike click's own it leaves no formula in the help."""

    name = "count"

    def __init__(self, least: int) -> None:
        self._least = least

    def convert(
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> int:
        """The number."""
        text = str(value)
        if not _WHOLE.fullmatch(text) or int(text) < self._least:
            self.fail(f"{value!r} is no whole number from {self._least} on", param, ctx)
        return int(text)


# No more than a store can count.
_WHOLE = re.compile("[0-9]{1,18}")
DURATION = Duration()
SIZE = Size()
