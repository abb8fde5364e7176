"""Where in a line of JSON something stands.

A place is names with dots between them: `message.text`. A list on the way stands for each of its
items. Behind a name, or before the first, `[key=value]` keeps only objects that have that value:
`[type=assistant]message.content[type=text].text`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

from supervisor.core.errors import ConfigError, shown

_STEP: Final = re.compile(r"(?P<name>[^.\[\]=]*)(?:\[(?P<key>[^.\[\]=]+)=(?P<value>[^\[\]]*)\])?")
# A path can lead to no more than this, however its lists hang together.
_MAX_FOUND: Final = 10_000


@attrs.frozen
class _Step:
    name: str
    key: str | None
    value: str | None


@attrs.frozen
class Place:
    """One that was read; see above."""

    text: str
    _steps: tuple[_Step, ...]

    def find(self, line: object) -> list[str]:
        """The texts that stand there, in order; numbers count as text, anything else does not."""
        found = [line]
        for step in self._steps:
            found = [value for one in found for value in _take(one, step)][:_MAX_FOUND]
        return [str(one) for one in found if isinstance(one, str | int) and one is not True]


def parse_place(what: str, text: object) -> Place:
    """Read one; raises `ConfigError`."""
    steps: list[_Step] = []
    at = 0
    valid = isinstance(text, str) and bool(text)
    while valid and isinstance(text, str) and at < len(text):
        match = _STEP.match(text, at)
        assert match is not None  # it may be empty
        step = _Step(match["name"], match["key"], match["value"])
        at = match.end()
        # Without a name only before the first.
        valid = bool(step.name) or (step.key is not None and not steps)
        steps.append(step)
        if at < len(text) and text[at] == "." and at + 1 < len(text):
            at += 1
        elif at < len(text) and (step.name or len(steps) > 1):
            valid = False
    if not valid or not isinstance(text, str):
        raise ConfigError(
            f"{what} is {shown(text)}, which is no place in a line of JSON",
            hint="write names with dots between them, like message.text",
        )
    return Place(text, tuple(steps))


def _take(value: object, step: _Step) -> Iterator[object]:
    """What is one step further."""
    if not step.name:
        yield from _kept(value, step)
    elif isinstance(value, dict) and step.name in value:
        yield from _kept(value[step.name], step)


def _kept(value: object, step: _Step) -> Iterator[object]:
    for one in value if isinstance(value, list) else [value]:
        if step.key is None or (isinstance(one, dict) and one.get(step.key) == step.value):
            yield one
