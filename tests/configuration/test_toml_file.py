"""A file is read if it is ours to obey, and small, and a file at all."""

import os
from pathlib import Path

import pytest

from supervisor.configuration.sources import InvalidValue
from supervisor.configuration.toml_file import MAX_BYTES, distrust_reason, read_file
from supervisor.core.errors import ConfigError
from tests.support.config_home import Home

OURS = {"our_user": 1000, "our_group": 1000}


@pytest.mark.parametrize(
    ("owner", "group", "mode"),
    [(1000, 1000, 0o600), (1000, 1000, 0o664), (1000, 50, 0o644), (0, 0, 0o644)],
)
def test_a_file_of_ours_or_of_the_system_is_trusted(owner: int, group: int, mode: int) -> None:
    assert distrust_reason(owner, group, mode, **OURS) is None


@pytest.mark.parametrize(
    ("owner", "group", "mode", "hint"),
    [
        (1001, 1000, 0o600, "change its owner"),
        (1000, 1000, 0o602, "chmod o-w"),
        (0, 0, 0o666, "chmod o-w"),
        (1000, 50, 0o660, "chmod g-w"),
        (0, 50, 0o664, "chmod g-w"),
    ],
)
def test_a_file_writable_by_other_users_is_refused(
    owner: int, group: int, mode: int, hint: str
) -> None:
    complaint = distrust_reason(owner, group, mode, **OURS)

    assert complaint is not None
    assert hint in complaint[1]


@pytest.mark.parametrize("place", ["system", "user", "project"])
def test_a_world_writable_file_is_refused(home: Home, place: str) -> None:
    home.write(place, "settings.queue_cap = 1").chmod(0o666)

    with pytest.raises(ConfigError, match="is writable by all users") as refusal:
        home.load()

    assert "chmod o-w" in refusal.value.hint


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_a_file_of_another_user_is_refused(home: Home) -> None:
    os.chown(home.write("project", ""), 12345, -1)

    with pytest.raises(ConfigError, match="belongs to user 12345"):
        home.load()


def test_a_symlink_is_judged_by_its_target(home: Home) -> None:
    home.write("real.toml", "settings.queue_cap = 1").chmod(0o666)
    (home.project / "understudy.toml").symlink_to(home.folder / "real.toml")

    with pytest.raises(ConfigError, match="is writable by all users"):
        home.load()


def test_a_named_pipe_is_refused_without_blocking(home: Home) -> None:
    os.mkfifo(home.project / "understudy.toml", 0o600)

    with pytest.raises(ConfigError, match="not a regular file"):
        home.load()


def test_a_folder_is_refused(home: Home) -> None:
    (home.project / "understudy.toml").mkdir()

    with pytest.raises(ConfigError, match="not a regular file"):
        home.load()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_an_unreadable_file_is_a_problem(home: Home) -> None:
    home.write("project", "").chmod(0o000)

    with pytest.raises(ConfigError, match="cannot be read"):
        home.load()


def test_a_path_below_a_file_does_not_exist(home: Home) -> None:
    home.write(".config", "no folder")

    assert home.load().files == ()


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("settings = \n", "is not TOML: Invalid value (at line 1"),
        ("a = 1\na = 2\n", "is not TOML: Cannot overwrite a value (at line 2"),
        (f"a = {'9' * 5000}", "is not TOML"),
        ("a = " + "[" * 5000, "is nested too deeply"),
        ("#" * (MAX_BYTES + 1), "is larger than"),
    ],
)
def test_invalid_toml_is_refused(home: Home, text: str, complaint: str) -> None:
    problem = home.problem(text)

    assert problem.path == ""
    assert complaint in problem.problem
    assert str(problem).startswith(str(home.project / "understudy.toml"))


def test_a_file_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "understudy.toml"
    path.write_bytes(b"a = '\xff'")

    with pytest.raises(InvalidValue, match="not UTF-8 at byte 5"):
        read_file(path)


@pytest.mark.parametrize("text", ["[1]", "{", '{"a": NaN}', '{"a": "\\ud800"}', "[" * 5000])
def test_an_invalid_json_file_is_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "understudy.json"
    path.write_text(text)

    with pytest.raises(InvalidValue, match=r"is not (a )?JSON"):
        read_file(path)
