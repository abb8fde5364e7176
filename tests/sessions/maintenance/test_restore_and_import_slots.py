"""What a review has found, each as small as it gets."""

from __future__ import annotations

from pathlib import Path

import pytest
import trio

import supervisor
from supervisor import ConfigError, Settings, Supervisor


async def test_restore_refuses_a_target_that_was_never_a_store(
    on_file: Supervisor, tmp_path: Path
) -> None:
    copy, letter = tmp_path / "copy.db", tmp_path / "letter.txt"
    await on_file.backup(copy)
    letter.write_text("dear all")

    with pytest.raises(ConfigError, match="not an understudy store"):
        await supervisor.restore(copy, letter)
    with pytest.raises(ConfigError):
        await supervisor.restore(copy, "/dev/null")
    assert letter.read_text() == "dear all"


async def test_an_import_needs_no_live_session_slot(tmp_path: Path) -> None:
    async with supervisor.open(settings=Settings(max_sessions=1)) as sup:
        session = await sup.create("echo")
        file = tmp_path / "session.jsonl"
        await trio.Path(file).write_text(await session.export("jsonl"))

        copy = await sup.import_(file)

        assert (await copy.info()).phase == "stopped"


async def test_files_left_by_a_killed_restore_are_removed(path: Path) -> None:
    left = path.with_name(f"{path.name}.abc.unfinished")
    left.write_text("half")
    async with supervisor.open(path):
        assert not left.exists()
