"""An agent that says ten words a second, each with the time at which it was said."""

from __future__ import annotations

import time
from typing import Final

import trio

from supervisor import Turn

BEAT_SECONDS: Final = 0.1
_WORDS_PER_LINE: Final = 5


def word(at_ns: int) -> str:
    return f"t{at_ns}."


async def metronome(turn: Turn) -> None:
    """Say as many words as the prompt asks for; the clock is the same for all processes."""
    for number in range(1, int(turn.text) + 1):
        await turn.say(word(time.monotonic_ns()) + (" " if number % _WORDS_PER_LINE else "\n"))
        await trio.sleep(BEAT_SECONDS)
