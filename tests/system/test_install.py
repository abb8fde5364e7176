"""What is built is what the project says it is."""

import subprocess
import sys
import tomllib
import zipfile
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path

import pytest

import supervisor

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Iterator[zipfile.ZipFile]:
    folder = tmp_path_factory.mktemp("wheel")
    build = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(build, cwd=ROOT, check=True, capture_output=True)
    (path,) = folder.glob("understudy-*.whl")
    with zipfile.ZipFile(path) as archive:
        yield archive


def test_the_wheel_holds_both_packages_and_nothing_else(wheel: zipfile.ZipFile) -> None:
    dist_info = f"understudy-{PROJECT['version']}.dist-info"

    assert {name.split("/")[0] for name in wheel.namelist()} == {"supervisor", "actors", dist_info}


@pytest.mark.parametrize("package", ["supervisor", "actors"])
def test_the_packages_have_py_typed(wheel: zipfile.ZipFile, package: str) -> None:
    assert f"{package}/py.typed" in wheel.namelist()


def test_the_version_is_the_one_of_the_project_file() -> None:
    assert supervisor.__version__ == metadata.version("understudy") == PROJECT["version"]


def test_an_installed_understudy_owns_both_import_names(
    wheel: zipfile.ZipFile, tmp_path: Path
) -> None:
    wheel.extractall(tmp_path)
    ask = (
        "from importlib.metadata import packages_distributions as owners;"
        "print([owners()[name] for name in ('supervisor', 'actors')])"
    )

    answer = subprocess.run(
        [sys.executable, "-S", "-c", ask],  # -S: only what lies in this folder
        cwd=tmp_path,
        check=True,
        capture_output=True,
        text=True,
    )

    assert answer.stdout.strip() == "[['understudy'], ['understudy']]"


def test_an_unknown_attribute_of_supervisor_raises() -> None:
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        supervisor.nonsense  # noqa: B018 - reading it is the test
