"""`OpenedSession`: the screen of a session that `top` has opened."""

from __future__ import annotations

from typing import ClassVar, Final

from .attach_screen import AttachScreen

_DISCARD_SECONDS: Final = 3.0


class OpenedSession(AttachScreen):
    """A session that was opened from the list; Escape goes back, from a request or without one."""

    way_out: ClassVar[str] = "Esc back"
    # Until then Escape goes back although a text is lost.
    _discards_until = 0.0

    def action_switch(self) -> None:
        """Go to the request that waits, or back to the list; ask before a text is lost."""
        panel = self.panel
        is_for_request = panel.request is not None and (panel.is_confirming or not panel.has_focus)
        if self._clock() < self._discards_until or not (is_for_request or self.input.text):
            self.action_leave()
            return
        super().action_switch()
        if not is_for_request:
            self._discards_until = self._clock() + _DISCARD_SECONDS
            self._say("Esc again goes back to the list; the text is not sent", "yellow")
