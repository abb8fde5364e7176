"""The import contracts hold, and each of them can fail.

Every contract of pyproject.toml is broken once, on a copy of the packages, and must be the
one that is reported. A contract that never failed may check the wrong thing.
"""

import ast
import re
import shutil
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PACKAGES = ("supervisor", "actors")
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
LINT = "from importlinter.cli import lint_imports_command as lint; lint()"
CONTRACTS = {c["id"]: c["name"] for c in PYPROJECT["tool"]["importlinter"]["contracts"]}

# The contract, the crime, and the files that commit it.
PLANTED = [
    ("layers", "a lower package imports a higher one", {
        "supervisor/telemetry/planted.py": "import supervisor.configuration",
    }),
    ("layers", "siblings import each other", {
        "supervisor/store/__init__.py": "",
        "supervisor/drivers/__init__.py": "import supervisor.store",
    }),
    ("layers", "a late import goes up", {
        "supervisor/config.py": "",
        "supervisor/core/planted.py": "def late():\n    import supervisor.config",
    }),
    ("layers", "a package has no place in the contract", {"supervisor/attic.py": ""}),
    ("acyclic", "two modules of a package import each other", {
        "supervisor/core/planted.py": "from supervisor.core import planted_too",
        "supervisor/core/planted_too.py": "from supervisor.core import planted",
    }),
    ("acyclic", "a type-only import closes a cycle", {
        "supervisor/core/planted.py": "from supervisor.core import planted_too",
        "supervisor/core/planted_too.py": (
            "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n"
            "    from supervisor.core import planted"
        ),
    }),
    ("acyclic", "two folders import each other", {
        "supervisor/core/one/__init__.py": "",
        "supervisor/core/one/a.py": "from supervisor.core.two import b",
        "supervisor/core/two/__init__.py": "",
        "supervisor/core/two/b.py": "from supervisor.core.one import c",
        "supervisor/core/one/c.py": "",
    }),
    ("acyclic", "actors import each other", {
        "actors/planted.py": "from actors import planted_too",
        "actors/planted_too.py": "from actors import planted",
    }),
    ("actors-below", "actors import supervisor", {"actors/planted.py": "import supervisor.core"}),
    *(
        ("core-pure", f"the core imports {name}", {"supervisor/core/planted.py": f"import {name}"})
        for name in ("trio", "actors", "time", "random", "os", "uuid")
    ),
    ("sql-in-store", "the daemon imports sqlite3", {"supervisor/daemon.py": "import sqlite3"}),
    ("sql-in-store", "actors import sqlite_utils", {
        "actors/planted.py": "from sqlite_utils import Database",
    }),
    ("testing-apart", "actors import their tests' tools", {
        "actors/planted.py": "from actors import testing",
    }),
    ("testing-apart", "supervisor imports them", {
        "supervisor/daemon.py": "from actors.testing import settle",
    }),
]  # fmt: skip

# What the contracts must let pass.
ALLOWED = {
    "supervisor/daemon.py": "import supervisor.sessions, supervisor.api, actors, trio, time, os",
    "supervisor/api.py": "import supervisor.sessions",
    "supervisor/sessions.py": "import actors, supervisor.core, supervisor.store.records",
    "supervisor/store/__init__.py": "import sqlite3",
    "supervisor/store/records.py": "import sqlite_utils, actors, supervisor.core",
    "supervisor/core/planted.py": "import attrs, enum, supervisor.core",
}


@pytest.fixture
def packages(tmp_path: Path) -> Path:
    """A copy of the packages and their contracts, free to be spoilt."""
    for package in PACKAGES:
        shutil.copytree(
            ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__")
        )
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def plant(packages: Path, files: dict[str, str]) -> None:
    for name, source in files.items():
        path = packages / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(source + "\n")


def broken_contracts(folder: Path) -> set[str]:
    """The names of the contracts that import-linter reports as broken in a folder."""
    # A process of its own: import-linter looks at what `import supervisor` finds, and here
    # that is the real one.
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache", "--no-logo"],
        cwd=folder,
        env={"COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    verdicts = dict(re.findall(r"^(.+) (KEPT|BROKEN)\b", done.stdout, re.MULTILINE))
    assert set(verdicts) == set(CONTRACTS.values()), done.stdout + done.stderr
    return {name for name, verdict in verdicts.items() if verdict == "BROKEN"}


def test_the_packages_keep_their_contracts() -> None:
    assert broken_contracts(ROOT) == set()


def test_allowed_imports_break_no_contract(packages: Path) -> None:
    plant(packages, ALLOWED)

    assert broken_contracts(packages) == set()


@pytest.mark.parametrize(
    ("contract", "files"),
    [pytest.param(contract, files, id=crime) for contract, crime, files in PLANTED],
)
def test_a_planted_violation_breaks_exactly_its_contract(
    packages: Path, contract: str, files: dict[str, str]
) -> None:
    plant(packages, files)

    assert broken_contracts(packages) == {CONTRACTS[contract]}


def test_every_contract_was_seen_to_fail() -> None:
    assert {contract for contract, _, _ in PLANTED} == set(CONTRACTS)


# import-linter sees an outside package as one thing, so it cannot tell trio's private
# modules from its public ones. This can.

THE_ONE_FILE = "actors/testing/_trio_internals.py"


def private_names_of_trio(source: str) -> Iterator[str]:
    """Every private name of trio that a source imports or reaches through `trio.`."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names):
                dotted = [alias.name for alias in names]
            case ast.ImportFrom(module=str(module), names=names, level=0):
                dotted = [f"{module}.{alias.name}" for alias in names]
            case ast.Attribute():
                dotted = [ast.unparse(node)]
            case _:
                continue
        for name in dotted:
            first, *rest = name.split(".")
            if first == "trio" and any(re.match(r"_(?!_)", part) for part in rest):
                yield name


def users_of_private_trio(folder: Path) -> set[str]:
    return {
        path.relative_to(folder).as_posix()
        for package in PACKAGES
        for path in (folder / package).rglob("*.py")
        if any(private_names_of_trio(path.read_text()))
    }


def test_one_file_alone_uses_private_names_of_trio() -> None:
    assert users_of_private_trio(ROOT) <= {THE_ONE_FILE}


@pytest.mark.parametrize(
    "crime",
    [
        "import trio._core",
        "import trio._core._run as run",
        "from trio._core import Task",
        "from trio import _core",
        "import trio\ntrio._core.current_task()",
    ],
)
def test_a_second_user_of_private_trio_is_found(packages: Path, crime: str) -> None:
    plant(packages, {"actors/planted.py": crime})

    assert users_of_private_trio(packages) - {THE_ONE_FILE} == {"actors/planted.py"}


def test_public_names_of_trio_are_free() -> None:
    source = "import trio.testing\nfrom trio.lowlevel import Task\nprint(trio.__version__)"

    assert not list(private_names_of_trio(source))
