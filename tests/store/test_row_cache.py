"""Unchanged rows are decoded once, and callers cannot change the cached ones."""

from __future__ import annotations

from pathlib import Path

import supervisor


async def test_a_changed_list_item_does_not_change_the_stored_row(tmp_path: Path) -> None:
    async with supervisor.open(tmp_path / "state.db") as sup:
        session = await sup.create("echo", custom={"colour": "red"})
        await session.stop()
        first = (await sup.list()).items[0]
        first.custom["colour"] = "mine"  # type: ignore[index] # a caller without type checks

        assert (await sup.list()).items[0].custom == {"colour": "red"}
        assert (await session.info()).custom == {"colour": "red"}
        await session.set(custom={"colour": "blue"})
        assert (await sup.list()).items[0].custom == {"colour": "blue"}
