"""`LineView`: a widget of lines that scroll; the number of lines does not change its size.

Rule 1: a new number of lines costs no layout of the screen, which takes longer than all else that
        an item of a feed does, unless the scrollbar comes or goes.
"""

from __future__ import annotations

from rich.style import Style
from textual.geometry import Size
from textual.reactive import Reactive
from textual.scroll_view import ScrollView


class LineView(ScrollView):
    """The base of the list and of the transcript; a subclass draws its changed lines itself."""

    DEFAULT_CSS = "LineView { overflow-x: hidden; scrollbar-size-vertical: 1; }"

    virtual_size = Reactive(Size(0, 0), layout=False, repaint=False)
    # The style of the widget, which takes longer to find than a line to render.
    base_style = Style.null()

    def notify_style_update(self) -> None:
        """Find the style of the widget again."""
        super().notify_style_update()
        self.base_style = self.rich_style

    def watch_virtual_size(self, _old: Size, new: Size) -> None:
        """Bring the scrollbar and the place up to date."""
        height = self.container_size.height
        if not height:
            return  # before the first layout, which does the same
        if (new.height > height) != self.show_vertical_scrollbar:
            self.refresh(layout=True)
        elif self.show_vertical_scrollbar:
            self.vertical_scrollbar.window_virtual_size = new.height
        self.scroll_y = self.validate_scroll_y(self.scroll_y)
