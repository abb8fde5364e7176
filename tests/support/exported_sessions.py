"""Exported sessions and changed copies of them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

from supervisor import (
    Session,
)

Line: TypeAlias = dict[str, Any]


async def exported(session: Session, file: Path) -> list[Line]:
    """Put it into the file; gives the lines of its records."""
    text = await session.export("jsonl")
    file.write_text(text)  # noqa: ASYNC240 - small
    return [json.loads(line) for line in text.splitlines()[1:]]


async def change_export(file: Path, change: Callable[[list[Line]], None]) -> None:
    """Change a file as an attacker might."""
    [header, *rest] = file.read_text().splitlines()  # noqa: ASYNC240 - small
    lines = [json.loads(line) for line in rest]
    change(lines)
    for seq, line in enumerate(lines, 1):
        line["seq"] = seq
    file.write_text("\n".join([header, *(json.dumps(line) for line in lines), ""]))  # noqa: ASYNC240
