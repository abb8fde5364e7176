"""The daemon's settings: places by default, and what cannot be meant."""

import attrs
import pytest

from supervisor.configuration import DaemonSettings
from supervisor.configuration.paths import MAX_SOCKET_PATH_BYTES, unconfigured_socket
from supervisor.core.errors import ConfigError
from tests.support.config_home import Home


def test_default_paths_are_in_the_folders_of_the_user(home: Home) -> None:
    daemon = home.load().daemon

    assert daemon.socket == "/run/user/1000/understudy/understudy.sock"
    assert daemon.state_folder == str(home.folder / ".local/state/understudy")
    assert daemon.database == f"{daemon.state_folder}/state.db"
    assert daemon.token == f"{daemon.state_folder}/token"
    assert daemon.tcp_port is None


def test_without_a_runtime_folder_the_socket_is_in_the_state_folder(home: Home) -> None:
    home.write("project", 'daemon.state_folder = "/srv/state"')

    assert home.load(XDG_RUNTIME_DIR="").daemon.socket == "/srv/state/understudy.sock"


def test_a_relative_path_starts_at_its_source(home: Home) -> None:
    home.write("user", 'daemon.state_folder = "state"\ndaemon.socket = "~/s/../socket"')
    flags: dict[str, object] = {"daemon.state_folder": "here"}

    user, flag = home.load().daemon, home.load(flags=flags).daemon

    assert user.state_folder == str(home.folder / ".config/understudy/state")
    assert user.socket == str(home.folder / "socket")
    assert flag.state_folder == str(home.project / "here")


def test_a_socket_path_above_the_kernel_limit_is_refused(home: Home) -> None:
    fits = "/" + "s" * (MAX_SOCKET_PATH_BYTES - 1)
    home.write("project", f'daemon.socket = "{fits}"')
    assert home.load().daemon.socket == fits

    problem = home.problem(f'daemon.socket = "{fits}s"')

    assert (problem.path, problem.problem) == ("daemon.socket", "has 108 bytes")
    assert "107" in problem.hint


def test_a_default_socket_that_is_too_long_is_refused_too(home: Home) -> None:
    with pytest.raises(ConfigError, match=r"default: daemon\.socket has \d+ bytes"):
        home.load(XDG_RUNTIME_DIR="/" + "r" * 200)


@pytest.mark.parametrize(
    "origin", ["*", "null", "127.0.0.1:1", "http://", "http://a/", "ftp://a", "http://*.a", 5]
)
def test_an_origin_is_a_scheme_and_a_host(origin: object) -> None:
    with pytest.raises(ConfigError, match="allowed_origins"):
        DaemonSettings(socket="/s", state_folder="/f", allowed_origins=(origin,))  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["", "relative", "/a\0b", "/a\udcff", None, 5])
def test_a_path_is_absolute_and_text(path: object) -> None:
    with pytest.raises(ConfigError, match="state_folder"):
        DaemonSettings(socket="/s", state_folder=path)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "variables",
    [{}, {"XDG_RUNTIME_DIR": "", "XDG_STATE_HOME": "/srv"}, {"UNDERSTUDY_CONTAINMENT": "x"}],
)
def test_a_socket_without_configuration_is_that_of_the_loader(
    home: Home, variables: dict[str, str]
) -> None:
    varied = attrs.evolve(home, environ={**home.environ, **variables})

    found = unconfigured_socket(varied.project, varied.environ)

    assert found == varied.load().daemon.socket


@pytest.mark.parametrize(
    "variables",
    [
        {"UNDERSTUDY_DAEMON__SOCKET": "/s"},
        {"UNDERSTUDY_TYPO": "1"},
        {"UNDERSTUDY_CONFIG": "/nowhere"},
        {"XDG_RUNTIME_DIR": "/" + "r" * 200},
        {"XDG_RUNTIME_DIR": "/\udcff"},
    ],
)
def test_a_configured_or_invalid_socket_needs_the_loader(
    home: Home, variables: dict[str, str]
) -> None:
    assert unconfigured_socket(home.project, {**home.environ, **variables}) is None


@pytest.mark.parametrize("where", ["user", "project"])
def test_a_configuration_file_needs_the_loader(home: Home, where: str) -> None:
    home.write(where, "")

    assert unconfigured_socket(home.project, home.environ) is None
