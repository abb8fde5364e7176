"""Values that come as text, one by one: from variables of the environment, and from flags.

`UNDERSTUDY_QUEUE_CAP` is `settings.queue_cap`, `UNDERSTUDY_LIMITS__MAX_DEPTH` is
`settings.limits.max_depth`, `UNDERSTUDY_DAEMON__SOCKET` is `daemon.socket`. Agents are described in
files: their names have small letters, and variables are seen by everybody.
"""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from typing import Any, Final

import attrs

from .schema import Layer, Table, leaves, walk
from .sources import KeyPath, Origin, Problem, Source, dotted

PREFIX: Final = "UNDERSTUDY_"
# Names a file to be read instead of all others.
FILE_VARIABLE: Final = "UNDERSTUDY_CONFIG"
# What others read, or set for agents: no settings, and no mistakes.
OTHERS: Final = frozenset({FILE_VARIABLE, "UNDERSTUDY_CONTAINMENT"})


def variables(schema: Table) -> dict[str, KeyPath]:
    """The path of each value that can be given in the environment, by the variable's name."""
    found = {}
    for path in leaves(schema):
        said = path[1:] if path[0] == "settings" else path
        found[PREFIX + "__".join(said).upper()] = path
    return found


def read_environment(schema: Table, environ: Mapping[str, str], source: Source) -> Layer:
    """What the environment says; a variable that begins like ours and is none is a problem."""
    layer = Layer()
    known = variables(schema)
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in OTHERS:
            continue
        path = known.get(name)
        named = attrs.evolve(source, name=name)
        if path is None:
            close = difflib.get_close_matches(name, known, n=1)
            hint = f"did you mean {close[0]}?" if close else "unset it"
            origin = Origin("environment", ascii(name)[1:-1])
            layer.problems.append(Problem("", "is no variable of ours", hint, origin))
            continue
        said = walk(schema, _nested({dotted(path): environ[name]}), named)
        layer.values.update(said.values)
        layer.problems.extend(said.problems)
    return layer


def read_flags(schema: Table, flags: Mapping[str, object], source: Source) -> Layer:
    """What the flags say, by their paths; those that are None were not given."""
    return walk(schema, _nested(flags), source)


def _nested(values: Mapping[str, object]) -> dict[str, Any]:
    tables: dict[str, Any] = {}
    for path, value in values.items():
        if value is None:
            continue
        *above, name = path.split(".")
        table = tables
        for part in above:
            inside = table.get(part)
            # A copy, for it may be the caller's; and of two flags for one place the later counts.
            table[part] = dict(inside) if isinstance(inside, Mapping) else {}
            table = table[part]
        table[name] = value
    return tables
