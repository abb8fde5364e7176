"""Values given as text: environment variables and flags.

`UNDERSTUDY_QUEUE_CAP` is `settings.queue_cap`, `UNDERSTUDY_LIMITS__MAX_DEPTH` is
`settings.limits.max_depth`, `UNDERSTUDY_DAEMON__SOCKET` is `daemon.socket`. Agents are described in
files only: their names are lower case, and child processes inherit variables.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

import attrs

from .schema import Layer, Table, leaves, read_layer
from .sources import ConfigProblem, KeyPath, Origin, Source, dotted

PREFIX: Final = "UNDERSTUDY_"
# Path of a file that replaces all others.
FILE_VARIABLE: Final = "UNDERSTUDY_CONFIG"
# Variables with our prefix that are not settings.
IGNORED_VARIABLES: Final = frozenset({FILE_VARIABLE, "UNDERSTUDY_CONTAINMENT"})


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
        if not name.startswith(PREFIX) or name in IGNORED_VARIABLES:
            continue
        path = known.get(name)
        named = attrs.evolve(source, name=name)
        if path is None:
            close = difflib.get_close_matches(name, known, n=1)
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
    """Return the layer of the flags, by path; None means not given."""
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
