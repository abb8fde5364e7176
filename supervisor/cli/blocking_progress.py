"""The animation of `progress_bar`, for waits that block: the loop that waits calls `show`."""

from __future__ import annotations

import itertools
import time
from types import TracebackType
from typing import Final, Self

from supervisor.core.text import one_line

from .output import Screen
from .text_format import format_duration

# Shorter waits are not animated.
_DELAY_SECONDS: Final = 0.4
_FRAMES: Final = "|/-\\"


class BlockingProgress:
    """Shows an activity and its duration on standard error, if that is a terminal."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self._began = time.monotonic()
        self._signs = itertools.cycle(_FRAMES)
        self._is_shown = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.hide()

    def show(self, what: str) -> None:
        """Show the activity, if the wait is not short."""
        seconds = time.monotonic() - self._began
        if seconds < _DELAY_SECONDS or not self._screen.is_ansi_stderr or self._screen.as_json:
            return
        self._is_shown = True
        text = f"{next(self._signs)} {one_line(what)} ({format_duration(seconds)})"
        self._write(f"\r{text}\x1b[K")

    def hide(self) -> None:
        """Clear the line, before something else is printed."""
        if self._is_shown:
            self._write("\r\x1b[K")
            self._is_shown = False

    def _write(self, text: str) -> None:
        self._screen.err.write(text)
        self._screen.err.flush()
