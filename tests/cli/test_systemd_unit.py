"""The systemd unit that `understudy service` writes, checked by systemd if it is installed."""

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from supervisor.cli.commands.systemd_unit import unit_path, unit_text
from supervisor.core.errors import ConfigError
from tests.support.cli_runner import ROOT, Caller

PAGE = (ROOT / "docs/how-to/run-the-daemon.md").read_text()


def test_the_unit_is_that_of_the_page() -> None:
    """Except for the program, and the PATH, which a page cannot know."""
    (page, _) = re.findall(r"^```ini\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)

    _, *lines = unit_text({"PATH": "/bin"}, program=Path("/x/python")).splitlines()

    assert [line for line in lines if not line.startswith("Environment=")] == re.sub(
        r"ExecStart=\S+", "ExecStart=/x/python -P -m supervisor.cli", page
    ).splitlines()
    assert 'Environment="PATH=/bin"' in lines


def test_special_characters_are_escaped(tmp_path: Path) -> None:
    program = tmp_path / "a $b %c" / "python"
    program.parent.mkdir()
    program.with_name("understudy").touch()

    text = unit_text({"PATH": '/a"b:/c d'}, program=program)

    assert f'ExecStart="{tmp_path}/a $$b %%c/understudy" serve\n' in text
    assert 'Environment="PATH=/a\\"b:/c d"\n' in text


def test_a_path_with_a_control_character_is_refused() -> None:
    with pytest.raises(ConfigError):
        unit_text({"PATH": "/a\nUser=root"}, program=Path("/x/python"))


def test_the_unit_is_written_and_removed(
    home: Path, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shutil, "which", lambda _: None)
    path = unit_path(os.environ)

    done = call("service", "install")
    again = call("service", "install", "--json").json
    shown = call("service", "status", "--json")

    assert path == home / ".config/systemd/user/understudy.service"
    assert path.stat().st_mode & 0o777 == 0o600
    assert "systemctl --user enable --now understudy" in done.out
    assert (again["path"], again["reloaded"]) == (str(path), None)
    assert (shown.code, shown.json["installed"], shown.json["active"]) == (1, True, None)
    assert call("service", "uninstall").out == f"Removed: {path}\n"
    assert not path.exists()
    assert call("service", "uninstall").code == 3


def test_a_changed_unit_is_replaced_only_with_force(home: Path, call: Caller) -> None:
    path = unit_path(os.environ)
    path.parent.mkdir(parents=True)
    path.write_text("[Unit]\n")

    refused = call("service", "install")

    assert (refused.code, "--force" in refused.err) == (1, True)
    assert call("service", "install", "--force").code == 0
    assert "ExecStart=" in path.read_text()


def test_systemctl_is_run_if_it_is_there(
    home: Path, call: Caller, monkeypatch: pytest.MonkeyPatch
) -> None:
    program = home / "systemctl"
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {home}/calls; echo "no bus" >&2; echo active; exit 1\n'
    )
    program.chmod(0o700)
    monkeypatch.setenv("PATH", f"{home}:{os.environ['PATH']}")

    installed = call("service", "install")
    shown = call("service")
    call("service", "uninstall")

    assert "systemctl --user daemon-reload: no bus" in installed.err
    assert shown.code == 0
    assert (home / "calls").read_text().splitlines() == [
        "--user daemon-reload",
        "--user is-enabled understudy.service",
        "--user is-active understudy.service",
        "--user disable --now understudy.service",
        "--user daemon-reload",
    ]


@pytest.mark.skipif(shutil.which("systemd-analyze") is None, reason="there is no systemd here")
def test_systemd_accepts_the_unit(tmp_path: Path) -> None:
    file = tmp_path / "understudy.service"
    file.write_text(unit_text(os.environ, program=Path(sys.executable)))

    done = subprocess.run(
        [shutil.which("systemd-analyze") or "", "verify", "--man=no", file],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "XDG_RUNTIME_DIR": str(tmp_path)},
    )

    assert (done.returncode, "understudy.service" in done.stderr) == (0, False)
