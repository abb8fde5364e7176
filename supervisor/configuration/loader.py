"""Merge of all layers into one configuration: defaults, files, environment, flags.

A later layer wins. Only the configuration files are read; the environment is an argument.

Environment variables and flags give values as text.

`UNDERSTUDY_QUEUE_CAP` is `settings.queue_cap`, `UNDERSTUDY_LIMITS__MAX_DEPTH` is
`settings.limits.max_depth`, `UNDERSTUDY_DAEMON__SOCKET` is `daemon.socket`. Agents are described in
files only: their names are lower case, and child processes inherit variables.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeAlias

import attrs

from supervisor.config import Settings
from supervisor.core.errors import AgentUnknown, ConfigError, short_repr

from .agent_assembly import assemble
from .agent_schema import AGENTS
from .agent_table import AgentTable
from .paths import (
    FILE_VARIABLE,
    PREFIX,
    configuration_files,
    expand_path,
    home_folder,
    is_setting,
)
from .schema import (
    EXAMPLE,
    DaemonSettings,
    Layer,
    Table,
    leaves,
    make_daemon_settings,
    read_layer,
    table_for_class,
)
from .sources import (
    DEFAULT,
    ConfigProblem,
    InvalidValue,
    KeyPath,
    Origin,
    Source,
    Value,
    config_error,
    dotted,
    escape_unprintable,
)
from .toml_file import read_file

# All names share the prefix, so that even unrelated ones are similar.
_CLOSE_VARIABLE: Final = 0.85


def variable_paths(schema: Table) -> dict[str, KeyPath]:
    """Return the path of each setting by the name of its variable."""
    found = {}
    for path in leaves(schema):
        names = path[1:] if path[0] == "settings" else path
        found[PREFIX + "__".join(names).upper()] = path
    return found


def read_environment(schema: Table, environ: Mapping[str, str], source: Source) -> Layer:
    """Return the layer of the environment; an unknown variable with our prefix is a problem."""
    layer = Layer()
    known = variable_paths(schema)
    for name in sorted(environ):
        if not is_setting(name):
            continue
        path = known.get(name)
        named = attrs.evolve(source, name=name)
        if path is None:
            close = difflib.get_close_matches(name, known, n=1, cutoff=_CLOSE_VARIABLE)
            hint = f"did you mean {close[0]}?" if close else "unset it"
            origin = Origin("environment", ascii(name)[1:-1])
            layer.problems.append(
                ConfigProblem("", "is not a variable of understudy", hint, origin)
            )
            continue
        read = read_layer(schema, _nested({dotted(path): environ[name]}), named)
        layer.values.update(read.values)
        layer.problems.extend(read.problems)
    return layer


def read_flags(schema: Table, flags: Mapping[str, object], source: Source) -> Layer:
    """Return the layer of the flags, by path; a flag that is None was not given."""
    return read_layer(schema, _nested(flags), source)


def _nested(values: Mapping[str, object]) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for path, value in values.items():
        if value is None:
            continue
        *above, name = path.split(".")
        table = tables
        for part in above:
            inside = table.get(part)
            # A copy, because the caller owns it. Of two flags for one path the later wins.
            table[part] = dict(inside) if isinstance(inside, Mapping) else {}
            table = table[part]
        table[name] = value
    return tables


# The options of `understudy serve`, by the settings that they set.
OPTIONS_OF_SERVE: Final = {
    "daemon.tcp_port": "--tcp",
    "daemon.socket": "--socket",
    "daemon.state_folder": "--state-folder",
}

AnyPath: TypeAlias = str | os.PathLike[str]

SCHEMA: Final = Table(
    {
        "settings": table_for_class(Settings()),
        "daemon": table_for_class(EXAMPLE),
        "agents": AGENTS,
    }
)
# Printed by `understudy config --json` beside the values; not a setting.
ORIGINS: Final = "origins"


@attrs.frozen(kw_only=True)
class Configuration:
    """A complete configuration; `origins` has the origin of every value by its path."""

    settings: Settings
    agents: tuple[AgentTable, ...]
    daemon: DaemonSettings
    origins: Mapping[str, Origin]
    files: tuple[str, ...]

    def agent(self, name: str) -> AgentTable:
        """Return the table of an agent; raise AgentUnknown if it is not configured."""
        for agent in self.agents:
            if agent.name == name:
                return agent
        names = ", ".join(agent.name for agent in self.agents) or "none"
        raise AgentUnknown(
            f"no agent {short_repr(name)} is configured", hint=f"configured agents: {names}"
        )


def load(
    *,
    cwd: AnyPath | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    path: AnyPath | None = None,
) -> Configuration:
    """Return the configuration for the directory `cwd`; None leaves out the project file.

    With a `path`, or UNDERSTUDY_CONFIG in the environment, only that file is read. `flags` are
    values by their paths. Raise one ConfigError with every problem.
    """
    found = read(cwd=cwd, environ=environ, flags=flags, path=path)
    if found.problems or found.configuration is None:
        raise config_error(found.problems)
    return found.configuration


@attrs.frozen
class LoadResult:
    """A configuration without its invalid values, if one can be built, and all problems."""

    configuration: Configuration | None
    problems: list[ConfigProblem]


def read(
    *,
    cwd: AnyPath | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object] | None = None,
    path: AnyPath | None = None,
) -> LoadResult:
    """Read the same sources as `load`, and return the problems beside the configuration."""
    merged = _read_layers(cwd, environ, flags or {}, path)
    built = _build(merged, environ)
    return LoadResult(built.configuration, [*merged.problems, *built.problems])


@attrs.frozen
class _MergedLayers:
    """The merged values of all layers."""

    values: dict[KeyPath, Value] = attrs.field(factory=dict)
    problems: list[ConfigProblem] = attrs.field(factory=list)
    files: list[str] = attrs.field(factory=list)

    def add(self, layer: Layer) -> None:
        """Add a layer; its values replace those of earlier layers."""
        self.values.update(layer.values)
        self.problems.extend(layer.problems)

    def add_file(self, layer: Layer) -> None:
        """Add a file. An agent in a file replaces the whole agent of an earlier file.

        Otherwise a project file could change the command or a variable of an agent of the user,
        and run its own program with the keys that the user gave to the agent.
        """
        redefined = {path[1] for path in layer.values if path[0] == "agents"}
        for path in [path for path in self.values if path[0] == "agents" and path[1] in redefined]:
            del self.values[path]
        self.add(layer)


def _read_layers(
    cwd: AnyPath | None,
    environ: Mapping[str, str],
    flags: Mapping[str, object],
    path: AnyPath | None,
) -> _MergedLayers:
    merged = _MergedLayers()
    home = home_folder(environ)
    folder = Path(os.path.abspath("." if cwd is None else cwd))  # noqa: PTH100 - normal as well
    only = path if path is not None else environ.get(FILE_VARIABLE)
    if only:
        file = Path(expand_path(os.fspath(only), folder=folder, home=home))
        _add_file(merged, file, home, is_required=True)
    else:
        for file in _unique_files(configuration_files(None if cwd is None else folder, environ)):
            _add_file(merged, file, home, is_required=False)
    variables = Source(kind="environment", folder=folder, home=home, is_text=True)
    merged.add(read_environment(SCHEMA, environ, variables))
    flag_source = Source(
        kind="flag", folder=folder, home=home, is_text=True, names=OPTIONS_OF_SERVE
    )
    merged.add(read_flags(SCHEMA, flags, flag_source))
    return merged


def _unique_files(files: Iterable[Path]) -> Iterator[Path]:
    """Yield each file once, at its last position, because `cwd` may be an XDG directory."""
    last = {os.path.realpath(file): file for file in files}
    return iter(last.values())


def _add_file(merged: _MergedLayers, file: Path, home: Path, *, is_required: bool) -> None:
    name = escape_unprintable(str(file))
    try:
        read = read_file(file)
    except FileNotFoundError:
        if is_required:
            wrong = InvalidValue("file not found", hint="check the path, or leave it out")
            merged.problems.append(_file_problem(name, wrong))
        return
    except InvalidValue as wrong:
        merged.problems.append(_file_problem(name, wrong))
        return
    merged.files.append(str(file))
    tables = dict(read.tables)
    if file.suffix == ".json":
        tables.pop(ORIGINS, None)  # origins of the printed values, not settings
    source = Source(kind="file", name=name, folder=file.parent, home=home, lines=read.lines)
    merged.add_file(read_layer(SCHEMA, tables, source))


def _file_problem(name: str, wrong: InvalidValue) -> ConfigProblem:
    return ConfigProblem("", wrong.problem, wrong.hint, Origin("file", name))


def _build(merged: _MergedLayers, environ: Mapping[str, str]) -> LoadResult:
    values, problems = merged.values, list[ConfigProblem]()
    settings = _settings(values)
    origins = dict.fromkeys(leaves(SCHEMA), DEFAULT)
    origins |= {path: value.origin for path, value in values.items()}
    agents = []
    for name in dict.fromkeys(path[1] for path in values if path[0] == "agents"):
        if _has_problem(name, merged.problems):
            continue
        given = {path[2:]: value for path, value in values.items() if path[:2] == ("agents", name)}
        made = assemble(name, given, limits=settings.limits, environ=environ)
        problems += made.problems
        origins |= {("agents", name, *path): origin for path, origin in made.origins.items()}
        agents += [made.agent] if made.agent is not None else []
    try:
        daemon = make_daemon_settings(_table_values(values, "daemon"), environ)
    except ConfigError as error:
        wrong = str(error.args[0]).removeprefix("daemonsettings.socket ")
        problems.append(ConfigProblem("daemon.socket", wrong, error.hint, DEFAULT))
        return LoadResult(None, problems)
    configuration = Configuration(
        settings=settings,
        agents=tuple(agents),
        daemon=daemon,
        origins=MappingProxyType({dotted(path): origin for path, origin in origins.items()}),
        files=tuple(merged.files),
    )
    return LoadResult(configuration, problems)


def _has_problem(agent: str, problems: Iterable[ConfigProblem]) -> bool:
    # A wrong value is absent, so the agent as a whole would be reported as incomplete.
    above = dotted(("agents", agent))
    return any(f"{problem.path}.".startswith(f"{above}.") for problem in problems)


def _settings(values: Mapping[KeyPath, Value]) -> Settings:
    plain = Settings()
    given = _table_values(values, "settings")
    for part in ("limits", "restart", "ladder"):
        given[part] = attrs.evolve(getattr(plain, part), **_table_values(values, "settings", part))
    return attrs.evolve(plain, **given)


def _table_values(values: Mapping[KeyPath, Value], *table: str) -> dict[str, Any]:
    """Return the values directly in a table, by name."""
    return {path[-1]: value.value for path, value in values.items() if path[:-1] == table}
