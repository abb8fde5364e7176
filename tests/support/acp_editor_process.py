"""`understudy acp` as a process, and an editor on its standard input and output."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import attrs
import trio

from .acp_editor import Editor
from .daemon_in_process import Home
from .daemon_process import ROOT

PATIENCE_SECONDS: Final = 60.0


@attrs.define
class EditorProcess:
    """The process, and the editor that has started it."""

    process: trio.Process
    editor: Editor

    def kill(self) -> None:
        self.process.kill()

    async def ended(self) -> int:
        """Wait for the exit and return the exit code."""
        with trio.fail_after(PATIENCE_SECONDS):
            return await self.process.wait()


def environ_of(home: Home) -> dict[str, str]:
    kept = {name: os.environ[name] for name in ("PATH",) if name in os.environ}
    return {**kept, **home.environ, "PYTHONPATH": str(ROOT)}


def command_of(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "supervisor.cli", "acp", *arguments]


@asynccontextmanager
async def editor_process(
    home: Home, *arguments: str, reads: bool = True
) -> AsyncIterator[EditorProcess]:
    """Start the process and an editor; the editor leaves after the block.

    Without `reads`, the editor never reads what is written.
    """
    with (home.folder / "acp.log").open("ab") as log:
        process = await trio.lowlevel.open_process(
            command_of(*arguments),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            env=environ_of(home),
            cwd=home.folder,
        )
    assert process.stdin is not None
    assert process.stdout is not None
    editor = Editor(trio.StapledStream(process.stdin, process.stdout))
    with trio.fail_after(PATIENCE_SECONDS):
        async with trio.open_nursery() as nursery:
            if reads:
                nursery.start_soon(editor.read)
            try:
                yield EditorProcess(process, editor)
                await process.stdin.aclose()
                await process.wait()
            finally:
                nursery.cancel_scope.cancel()
                if process.returncode is None:
                    process.send_signal(signal.SIGKILL)


async def run_command(home: Home, *arguments: str) -> str:
    """Run a command of ours and return its output."""
    done = await trio.run_process(
        [sys.executable, "-m", "supervisor.cli", *arguments],
        env=environ_of(home),
        cwd=home.folder,
        capture_stdout=True,
    )
    return done.stdout.decode()
