"""A file is read if it is ours to obey, and small, and a file at all."""

import os
from pathlib import Path

import pytest

from supervisor.configuration.files import MOST_BYTES, read_file, why_not_trusted
from supervisor.configuration.sources import Wrong
from supervisor.core.errors import ConfigError
from tests.configuration.home import Home

OURS = {"our_user": 1000, "our_group": 1000}


@pytest.mark.parametrize(
    ("owner", "group", "mode"),
    [(1000, 1000, 0o600), (1000, 1000, 0o664), (1000, 50, 0o644), (0, 0, 0o644)],
)
def test_a_file_of_ours_or_of_the_system_is_trusted(owner: int, group: int, mode: int) -> None:
    assert why_not_trusted(owner, group, mode, **OURS) is None


@pytest.mark.parametrize(
    ("owner", "group", "mode", "hint"),
    [
        (1001, 1000, 0o600, "make it your own"),
        (1000, 1000, 0o602, "chmod o-w"),
        (0, 0, 0o666, "chmod o-w"),
        (1000, 50, 0o660, "chmod g-w"),
        (0, 50, 0o664, "chmod g-w"),
    ],
)
def test_a_file_that_others_could_have_written_is_not_trusted(
    owner: int, group: int, mode: int, hint: str
) -> None:
    complaint = why_not_trusted(owner, group, mode, **OURS)

    assert complaint is not None
    assert hint in complaint[1]


@pytest.mark.parametrize("place", ["system", "user", "project"])
def test_a_file_that_everybody_can_write_is_refused(home: Home, place: str) -> None:
    home.write(place, "settings.queue_cap = 1").chmod(0o666)

    with pytest.raises(ConfigError, match="can be changed by everybody") as refusal:
        home.load()

    assert "chmod o-w" in refusal.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_somebody_else_is_refused(home: Home) -> None:
    os.chown(home.write("project", ""), 12345, -1)

    with pytest.raises(ConfigError, match="belongs to user 12345"):
        home.load()


def test_a_link_is_judged_by_what_it_leads_to(home: Home) -> None:
    home.write("real.toml", "settings.queue_cap = 1").chmod(0o666)
    (home.project / "understudy.toml").symlink_to(home.folder / "real.toml")

    with pytest.raises(ConfigError, match="can be changed by everybody"):
        home.load()


def test_a_pipe_is_refused_and_nobody_waits_for_a_writer(home: Home) -> None:
    os.mkfifo(home.project / "understudy.toml", 0o600)

    with pytest.raises(ConfigError, match="no regular file"):
        home.load()


def test_a_folder_is_refused(home: Home) -> None:
    (home.project / "understudy.toml").mkdir()

    with pytest.raises(ConfigError, match="no regular file"):
        home.load()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_file_that_we_may_not_read_is_refused_and_not_passed_over(home: Home) -> None:
    home.write("project", "").chmod(0o000)

    with pytest.raises(ConfigError, match="cannot be read"):
        home.load()


def test_a_file_below_a_file_is_not_there(home: Home) -> None:
    home.write(".config", "no folder")

    assert home.load().files == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("settings = \n", "is no TOML: Invalid value (at line 1"),
        ("a = 1\na = 2\n", "is no TOML: Cannot overwrite a value (at line 2"),
        (f"a = {'9' * 5000}", "is no TOML"),
        ("a = " + "[" * 5000, "is nested too deeply"),
        ("#" * (MOST_BYTES + 1), "is larger than"),
    ],
)
def test_what_is_no_toml_is_refused(home: Home, text: str, complaint: str) -> None:
    problem = home.problem(text)

    assert problem.path == ""
    assert complaint in problem.problem
    assert str(problem).startswith(str(home.project / "understudy.toml"))


def test_what_is_no_text_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "understudy.toml"
    path.write_bytes(b"a = '\xff'")

    with pytest.raises(Wrong, match="no UTF-8 at byte 5"):
        read_file(path)


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": NaN}', '{"a": "\\ud800"}', "[" * 5000])
def test_what_is_no_json_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "understudy.json"
    path.write_text(text)

    with pytest.raises(Wrong, match="is no JSON"):
        read_file(path)
