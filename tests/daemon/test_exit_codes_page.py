"""The page about the daemon lists every exit code."""

import re
from pathlib import Path

from supervisor.daemon import ExitCode

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "run-the-daemon.md"


def test_every_exit_code_is_on_the_page() -> None:
    rows = re.findall(r"^\| ([0-9]+) \|", PAGE.read_text(), re.MULTILINE)

    assert [int(row) for row in rows] == [int(code) for code in ExitCode]


def test_the_units_treat_exit_codes_as_documented() -> None:
    page = PAGE.read_text()

    assert page.count(f"SuccessExitStatus={ExitCode.FORCED:d}\n") == 2
    assert page.count(f"RestartPreventExitStatus={ExitCode.MISCONFIGURED:d}\n") == 2
