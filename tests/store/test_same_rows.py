"""Rows that stay the same are taken apart once, and nobody changes what others are given."""

from __future__ import annotations

from pathlib import Path

import supervisor


async def test_a_list_shows_a_change_at_once_and_nobody_elses(tmp_path: Path) -> None:
    async with supervisor.open(tmp_path / "state.db") as sup:
        session = await sup.create("echo", custom={"colour": "red"})
        await session.stop()
        first = (await sup.list()).items[0]
        first.custom["colour"] = "mine"  # type: ignore[index] # somebody who does not look at types

        assert (await sup.list()).items[0].custom == {"colour": "red"}
        assert (await session.info()).custom == {"colour": "red"}
        await session.set(custom={"colour": "blue"})
        assert (await sup.list()).items[0].custom == {"colour": "blue"}
