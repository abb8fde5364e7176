"""Completion in bash with names that would run something if they were not quoted."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.support.cli_runner import Caller

# Each begins with `x`; a name with a line end is left out.
NAMES = ["x $(touch ran)", "x`touch ran`", "x;touch ran", "x'a\"b", "x*", "x\\y!z", "x:=~#&|<>{}é"]
BROKEN = "x\ntouch ran"

# `understudy` with sessions that have these names.
PROGRAM = """
import sys
from supervisor.cli import completions, main

completions._COMPLETERS["ID"] = lambda _: [(name, "") for name in {names!r}]
sys.exit(main())
"""

# Completes the word, closes its quote as bash does, and prints the word that the shell then has.
COMPLETE = """
source ./script
COMP_WORDS=(understudy show "$1")
COMP_CWORD=2
_understudy_completion understudy
for found in "${COMPREPLY[@]}"; do
    eval "words=($2$found$2)"
    printf '%s\\0' "${#words[@]}" "${words[@]}"
done
"""

BASH = shutil.which("bash")

pytestmark = pytest.mark.skipif(BASH is None, reason="bash is not installed")


@pytest.fixture
def folder(call: Caller, tmp_path: Path) -> Path:
    (tmp_path / "program.py").write_text(PROGRAM.format(names=[*NAMES, BROKEN]))
    (tmp_path / "understudy").write_text(
        f'#!/bin/sh\nexec {sys.executable} {tmp_path}/program.py "$@"\n'
    )
    (tmp_path / "understudy").chmod(0o700)
    (tmp_path / "script").write_text(call("completion", "bash").out)
    (tmp_path / "x-file").write_text("what a star would find")
    return tmp_path


def complete(folder: Path, typed: str, quote: str, program: str = COMPLETE) -> list[str]:
    """Return what bash reads for each completion of a word: how many words, and the words."""
    done = subprocess.run(
        [BASH or "bash", "--norc", "-c", program, "bash", typed, quote],
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
        env={**os.environ, "PATH": f"{folder}:{os.environ['PATH']}"},
    )
    assert not (folder / "ran").exists()
    return done.stdout.split("\0")[:-1]


@pytest.mark.parametrize(("typed", "quote"), [("x", ""), ("'x", "'"), ('"x', '"')])
def test_a_completed_name_is_one_word_that_runs_nothing(
    folder: Path, typed: str, quote: str
) -> None:
    assert complete(folder, typed, quote) == [part for name in NAMES for part in ("1", name)]


def test_a_quoted_beginning_of_a_name_is_completed(folder: Path) -> None:
    assert complete(folder, "x\\ \\$", "") == ["1", NAMES[0]]
    assert complete(folder, "'x $", "'") == ["1", NAMES[0]]
    assert complete(folder, "x'a", "") == []


def test_the_script_of_an_older_version_gets_no_name_that_needs_quotes(folder: Path) -> None:
    older = "COMP_WORDS=$1 COMP_CWORD=$2 _UNDERSTUDY_COMPLETE=bash_complete understudy"

    assert complete(folder, "understudy show x", "2", f"{older} | tr '\\n' '\\0'") == [""]
    assert complete(folder, "understudy doc", "1", f"{older} | tr '\\n' '\\0'") == ["plain,doctor"]
