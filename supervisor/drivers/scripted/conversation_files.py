"""Saved conversations in files, shared between processes.

This is a separate module because few agents need it and pathlib takes time to import.
"""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Final

from .wire import Json

_NAME: Final = re.compile(r"scripted-[0-9]{1,9}")


class FolderConversations:
    """Storage with one file per conversation; several processes may share the folder."""

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._folder.mkdir(parents=True, exist_ok=True)

    def new_conversation_id(self) -> str:
        """Return an unused conversation id; its file is created at once."""
        number = sum(1 for _ in self._folder.glob("*.json"))
        while True:
            number += 1
            name = f"scripted-{number}"
            try:
                # Exclusive creation: only one process gets this id.
                with self._path(name).open("x") as file:
                    file.write("{}")
            except FileExistsError:
                continue
            return name

    def load(self, name: str) -> Json | None:
        """Return the state saved in the conversation's file; None without a file."""
        if _NAME.fullmatch(name) is None:  # the name becomes part of a path
            return None
        try:
            return dict(json.loads(self._path(name).read_text()))
        except FileNotFoundError:
            return None

    def save(self, name: str, saved: Json) -> None:
        """Write the state to the conversation's file."""
        # Written to another file and renamed: a concurrent load gets the old or the new state.
        draft = self._folder / f"{name}.{os.getpid()}"
        draft.write_text(json.dumps(saved))
        draft.replace(self._path(name))

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"
