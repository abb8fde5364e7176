"""The systemd units of the page, checked by systemd if it is installed."""

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

PAGE = (Path(__file__).parents[2] / "docs/how-to/run-the-daemon.md").read_text()
UNITS = re.findall(r"^```ini\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)


def test_the_page_has_a_user_unit_and_a_system_unit() -> None:
    assert [("User=" in unit) for unit in UNITS] == [False, True]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
@pytest.mark.parametrize("unit", UNITS, ids=["user", "machine"])
def test_systemd_accepts_every_unit_line(unit: str, tmp_path: Path) -> None:
    """It exits with 0 also if it passes over what it does not know, so it has to be silent."""
    file = tmp_path / "understudy.service"
    # Neither the program nor the user of the page is on this machine.
    file.write_text(
        re.sub(r"(?m)^User=.*\n", "", re.sub(r"(?m)^ExecStart=\S+", "ExecStart=/bin/true", unit))
    )

    done = subprocess.run(
        [shutil.which("systemd-analyze") or "", "verify", "--man=no", file],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )

    assert done.returncode == 0
    assert "understudy.service" not in done.stderr
