"""The whole language, and how a script is played."""

from __future__ import annotations

import re
from typing import Final

from supervisor.core.errors import ConfigError, shown
from supervisor.drivers.scripted.turn import Step, Turn, Waiting

from . import common, errands, unruly

# As it is written (the word, then what follows it), and what it does.
LANGUAGE: Final[dict[str, Step]] = {**common.STEPS, **errands.STEPS, **unruly.STEPS}
_BY_WORD: Final = {usage.partition(" ")[0]: step for usage, step in LANGUAGE.items()}


def play(turn: Turn) -> Waiting[None]:
    """Play the turn's script to its end; raises `ConfigError` where it means nothing."""
    if turn.around.flags.echo:
        yield from _echo(turn)
        return
    for number, line in enumerate(turn.script.splitlines(), 1):
        word, _, rest = line.strip().partition(" ")
        if not word:
            continue
        step = _BY_WORD.get(word)
        if step is None:
            raise ConfigError(
                f"line {number} of the script begins with {shown(word)}",
                hint=f"the steps are {', '.join(_BY_WORD)}",
            )
        waiting = step(turn, rest.strip())
        if waiting is not None:
            yield from waiting
        yield from turn.room()


def _echo(turn: Turn) -> Waiting[None]:
    for word in re.findall(r"\s*\S+\s*", turn.script):
        turn.say(word)
        yield from turn.room()
