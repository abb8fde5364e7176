"""Where in a line of JSON something stands.

A place is names with dots between them: `message.text`. A list on the way stands for each of its
items. Behind a name, or instead of the first, `[key=value]` keeps only objects with that value:
`[type=assistant].message.content[type=text].text`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import attrs

from supervisor.core.errors import ConfigError, shown

_NAME: Final = r"[^.\[\]=]+"
_KEEP: Final = rf"\[(?:{_NAME})=[^\[\]]*\]"
_WHOLE: Final = re.compile(rf"(?:{_KEEP}|{_NAME}(?:{_KEEP})?)(?:\.{_NAME}(?:{_KEEP})?)*")
_STEPS: Final = re.compile(rf"(?:^|\.)({_NAME})?(?:\[({_NAME})=([^\[\]]*)\])?")
# A place leads to no more than this, however the lists hang together.
_MAX_FOUND: Final = 10_000


@attrs.frozen
class _Step:
    name: str | None
    key: str | None
    value: str | None


@attrs.frozen
class Place:
    """One that was read; see above."""

    text: str
    _steps: tuple[_Step, ...]

    def find(self, line: object) -> list[str]:
        """The texts that stand there, in order; a number is as good as text, and nothing else."""
        found = [line]
        for step in self._steps:
            found = [value for one in found for value in _take(one, step)][:_MAX_FOUND]
        return [
            str(one) for one in found if isinstance(one, str | int) and not isinstance(one, bool)
        ]


def parse_place(what: str, text: object) -> Place:
    """Read one; raises `ConfigError`."""
    if not isinstance(text, str) or not _WHOLE.fullmatch(text):
        raise ConfigError(
            f"{what} is {shown(text)}, which is no place in a line of JSON",
            hint="write names with dots between them, like message.text",
        )
    return Place(text, tuple(_Step(*found.groups()) for found in _STEPS.finditer(text)))


def _take(value: object, step: _Step) -> Iterator[object]:
    """What is one step further."""
    if step.name is not None:
        if not isinstance(value, dict) or step.name not in value:
            return
        value = value[step.name]
    for one in value if isinstance(value, list) else [value]:
        if step.key is None or (isinstance(one, dict) and one.get(step.key) == step.value):
            yield one
