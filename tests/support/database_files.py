"""Use of database files from tests."""

from __future__ import annotations

import os

import supervisor


async def use(path: str | os.PathLike[str]) -> str:
    """Open a supervisor and write, read, list and search."""
    async with supervisor.open(path) as sup:
        session = await sup.create("echo")
        await session.prompt("hello there")
        assert len((await sup.search("hello", session=session.id)).items) == 2
        assert session.id in {info.id for info in (await sup.list()).items}
        return session.id
