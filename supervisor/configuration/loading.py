"""Layer upon layer to one configuration: defaults, files, environment, flags. The later one wins.

Nothing outside is touched but the files that are read; what is in the environment is given.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from supervisor.config import Settings
from supervisor.core.errors import AgentUnknown, ConfigError, shown

from .agents.assembling import assemble
from .agents.reading import AGENTS
from .agents.table import AgentTable
from .daemon import EXAMPLE, DaemonSettings, daemon_settings
from .fields import table_of
from .files import read_file
from .places import configuration_files, expanded, home_folder
from .schema import Layer, Table, leaves, walk
from .sources import (
    DEFAULT,
    KeyPath,
    Origin,
    Problem,
    Source,
    Value,
    Wrong,
    dotted,
    printable,
    refusal,
)
from .texts import FILE_VARIABLE, read_environment, read_flags

AnyPath: TypeAlias = str | os.PathLike[str]

SCHEMA: Final = Table(
    {
        "settings": table_of(Settings()),
        "daemon": table_of(EXAMPLE),
        "agents": AGENTS,
    }
)
# What `understudy config --json` prints beside the values, and what is no setting itself.
ORIGINS: Final = "origins"


@attrs.frozen(kw_only=True)
class Configuration:
    """All there is to know before anything starts; `origins` has the path of every value."""

    settings: Settings
    agents: tuple[AgentTable, ...]
    daemon: DaemonSettings
    origins: Mapping[str, Origin]
    files: tuple[str, ...]

    def agent(self, name: str) -> AgentTable:
        """The table of that agent; raises `AgentUnknown`."""
        for agent in self.agents:
            if agent.name == name:
                return agent
        names = ", ".join(agent.name for agent in self.agents) or "none"
        raise AgentUnknown(
            f"no agent called {shown(name)} is configured", hint=f"there are: {names}"
        )


def load(
    *,
    cwd: AnyPath | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    path: AnyPath | None = None,
) -> Configuration:
    """Read the configuration of somebody who stands in `cwd`; None leaves the project's file out.

    With a `path`, or UNDERSTUDY_CONFIG in the environment, only that file is read. `flags` are
    values by their paths. Raises one `ConfigError` that says all that is wrong.
    """
    gathered = _gather(cwd, environ, flags or {}, path)
    built = _build(gathered, environ)
    problems = [*gathered.problems, *built.problems]
    if problems or built.configuration is None:
        raise refusal(problems)
    return built.configuration


def check(
    path: AnyPath | None = None,
    *,
    cwd: AnyPath | None = None,
    environ: Mapping[str, str] | None = None,
    flags: Mapping[str, object] | None = None,
) -> list[Problem]:
    """All that is wrong with one file, or with everything that `load` would read."""
    environ = {} if environ is None else environ
    gathered = _gather(cwd, environ, flags or {}, path)
    return [*gathered.problems, *_build(gathered, environ).problems]


@attrs.frozen
class _Gathered:
    """What all layers say together."""

    values: dict[KeyPath, Value] = attrs.field(factory=dict)
    problems: list[Problem] = attrs.field(factory=list)
    files: list[str] = attrs.field(factory=list)

    def add(self, layer: Layer) -> None:
        """Put a layer upon those that are there, value by value."""
        self.values.update(layer.values)
        self.problems.extend(layer.problems)

    def add_file(self, layer: Layer) -> None:
        """Put a file upon those that are there; whoever describes an agent describes it all.

        For a file from somewhere could else have an agent of yours run something of its own, with
        the keys that you gave to it: by another command, or by a variable that leads to one.
        """
        anew = {path[1] for path in layer.values if path[0] == "agents"}
        for path in [path for path in self.values if path[0] == "agents" and path[1] in anew]:
            del self.values[path]
        self.add(layer)


def _gather(
    cwd: AnyPath | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    path: AnyPath | None,
) -> _Gathered:
    gathered = _Gathered()
    home = home_folder(environ)
    folder = Path(os.path.abspath("." if cwd is None else cwd))  # noqa: PTH100 - normal as well
    only = path if path is not None else environ.get(FILE_VARIABLE)
    if only:
        file = Path(expanded(os.fspath(only), folder=folder, home=home))
        _add_file(gathered, file, home, must_be_there=True)
    else:
        for file in _once(configuration_files(None if cwd is None else folder, environ)):
            _add_file(gathered, file, home, must_be_there=False)
    variables = Source(kind="environment", folder=folder, home=home, is_text=True)
    gathered.add(read_environment(SCHEMA, environ, variables))
    said = Source(kind="flag", folder=folder, home=home, is_text=True)
    gathered.add(read_flags(SCHEMA, flags, said))
    return gathered


def _once(files: Iterable[Path]) -> Iterator[Path]:
    """Each file at its last place: whoever stands in a folder of XDG sees it twice."""
    last = {os.path.realpath(file): file for file in files}
    return iter(last.values())


def _add_file(gathered: _Gathered, file: Path, home: Path, *, must_be_there: bool) -> None:
    name = printable(str(file))
    try:
        read = read_file(file)
    except FileNotFoundError:
        if must_be_there:
            wrong = Wrong("is not there", hint="check the path, or leave it out")
            gathered.problems.append(_of_file(name, wrong))
        return
    except Wrong as wrong:
        gathered.problems.append(_of_file(name, wrong))
        return
    gathered.files.append(str(file))
    tables = dict(read.tables)
    if file.suffix == ".json":
        tables.pop(ORIGINS, None)  # it says of the values where they came from, once
    source = Source(kind="file", name=name, folder=file.parent, home=home, lines=read.lines)
    gathered.add_file(walk(SCHEMA, tables, source))


def _of_file(name: str, wrong: Wrong) -> Problem:
    return Problem("", wrong.problem, wrong.hint, Origin("file", name))


@attrs.frozen
class _Built:
    """A configuration, unless something is wrong."""

    configuration: Configuration | None
    problems: list[Problem]


def _build(gathered: _Gathered, environ: Mapping[str, str]) -> _Built:
    values, problems = gathered.values, list[Problem]()
    settings = _settings(values)
    origins = dict.fromkeys(leaves(SCHEMA), DEFAULT)
    origins |= {path: value.origin for path, value in values.items()}
    agents = []
    for name in dict.fromkeys(path[1] for path in values if path[0] == "agents"):
        if _is_spoilt(name, gathered.problems):
            continue
        given = {path[2:]: value for path, value in values.items() if path[:2] == ("agents", name)}
        made = assemble(name, given, limits=settings.limits, environ=environ)
        problems += made.problems
        origins |= {("agents", name, *path): origin for path, origin in made.origins.items()}
        agents += [made.agent] if made.agent is not None else []
    try:
        daemon = daemon_settings(_below(values, "daemon"), environ)
    except ConfigError as error:
        wrong = str(error.args[0]).removeprefix("daemonsettings.socket ")
        problems.append(Problem("daemon.socket", wrong, error.hint, DEFAULT))
        return _Built(None, problems)
    configuration = Configuration(
        settings=settings,
        agents=tuple(agents),
        daemon=daemon,
        origins=MappingProxyType({dotted(path): origin for path, origin in origins.items()}),
        files=tuple(gathered.files),
    )
    return _Built(configuration, problems)


def _is_spoilt(agent: str, problems: Iterable[Problem]) -> bool:
    # With one value missing because it is wrong, the rest would be blamed for what it is not.
    above = dotted(("agents", agent))
    return any(f"{problem.path}.".startswith(f"{above}.") for problem in problems)


def _settings(values: Mapping[KeyPath, Value]) -> Settings:
    plain = Settings()
    given = _below(values, "settings")
    for part in ("limits", "restart", "ladder"):
        given[part] = attrs.evolve(getattr(plain, part), **_below(values, "settings", part))
    return attrs.evolve(plain, **given)


def _below(values: Mapping[KeyPath, Value], *table: str) -> dict[str, Any]:
    """The values that stand in a table itself, by their names."""
    return {path[-1]: value.value for path, value in values.items() if path[:-1] == table}
