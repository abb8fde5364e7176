"""Sessions in files, so that another process may have them.

Apart from the rest because few agents need it, and files cost time to import.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Final

from .wire import Json

_NAME: Final = re.compile(r"scripted-[0-9]{1,9}")


class FolderShelf:
    """Keeps each in a file of its own; several processes may share the folder."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def new_name(self) -> str:
        """See `Shelf`."""
        number = sum(1 for _ in self._folder.glob("*.json"))
        while True:
            number += 1
            name = f"scripted-{number}"
            try:
                # Only one process can be the one that makes it.
                with self._path(name).open("x") as file:
                    file.write("{}")
            except FileExistsError:
                continue
            return name

    def load(self, name: str) -> Json | None:
        """See `Shelf`."""
        if _NAME.fullmatch(name) is None:  # it is to become a path
            return None
        try:
            return dict(json.loads(self._path(name).read_text()))
        except FileNotFoundError:
            return None

    def save(self, name: str, kept: Json) -> None:
        """See `Shelf`."""
        # Beside it first: whoever loads it meanwhile gets the old one or the new one.
        draft = self._folder / f"{name}.{os.getpid()}"
        draft.write_text(json.dumps(kept))
        draft.replace(self._path(name))

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
