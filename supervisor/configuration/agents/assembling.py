"""From the values of one agent, out of all layers, to its table.

What is wrong here is wrong with the agent as a whole: it has no command, or a value that its driver
has no use for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from supervisor.configuration.sources import (
    DEFAULT,
    KeyPath,
    Origin,
    Problem,
    Value,
    dotted,
)
from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions

from .presets import preset
from .table import AgentTable, Driver, McpServer

# What each driver takes; all of them take what is for their sessions.
OPTIONS: Final[Mapping[Driver, frozenset[str]]] = {
    "acp": frozenset(
        {"command", "env", "auth", "mcp_servers", "mode", "options", "handshake_seconds"}
    ),
    "command": frozenset({"command", "env", "resume_command", "output", "text", "session_id_at"}),
    "python": frozenset({"function"}),
}
_FOR_ALL: Final = frozenset({"driver", "preset", "permissions", "limits", "workspace"})


@attrs.frozen
class Assembled:
    """An agent, unless something is wrong with it, and where each of its values comes from."""

    agent: AgentTable | None
    problems: tuple[Problem, ...]
    origins: Mapping[KeyPath, Origin]


def assemble(
    name: str, given: Mapping[KeyPath, Value], *, limits: Limits, environ: Mapping[str, str]
) -> Assembled:
    """Put an agent together; paths begin after its name, and `limits` are those of everybody."""
    values = {**_from_preset(given, environ), **given}
    driver = values.get(("driver",))
    if driver is None:
        # The only thing that is ever left out, and then there is no doubt.
        driver = Value("python" if ("function",) in values else "acp", DEFAULT)
        values["driver",] = driver
    problems = tuple(_problems(name, str(driver.value), values))
    if problems:
        return Assembled(None, problems, {})
    agent = AgentTable(name=name, **_fields(values, limits))
    return Assembled(agent, (), {at: value.origin for at, value in values.items()})


def _from_preset(
    given: Mapping[KeyPath, Value], environ: Mapping[str, str]
) -> dict[KeyPath, Value]:
    chosen = given.get(("preset",))
    if chosen is None:
        return {}
    known = preset(str(chosen.value), environ)
    origin = Origin("preset", known.name)
    fields = {"driver": known.driver, "command": known.command, **known.options}
    return {(field,): Value(value, origin) for field, value in fields.items()}


def _problems(name: str, driver: str, values: Mapping[KeyPath, Value]) -> Iterator[Problem]:
    wanted: Any = OPTIONS[driver]  # type: ignore[index]  # it was read as one of them
    any_origin = next(iter(values.values())).origin
    for at, value in values.items():
        if at[0] not in wanted | _FOR_ALL and value.origin.kind != "preset":
            hint = f"an agent of driver {driver} has {', '.join(sorted(wanted))}"
            problem = f"is of no use to driver {driver}"
            yield Problem(dotted(("agents", name, *at)), problem, hint, value.origin)
    chosen, said = values.get(("preset",)), values["driver",]
    if chosen is not None and said.value != preset(str(chosen.value), {}).driver:
        where, problem = dotted(("agents", name, "driver")), f"is not that of preset {chosen.value}"
        yield Problem(where, problem, "leave it out", said.origin)
    needed = "function" if driver == "python" else "command"
    if (needed,) not in values:
        hint = f"give it a {needed}"
        hint += "" if driver == "python" else ', or a preset such as "claude"'
        yield Problem(dotted(("agents", name)), f"has no {needed}", hint, any_origin)
    if ("output",) in values and values["output",].value == "text":
        for key in ("text", "session_id_at"):
            if (key,) in values:
                where = dotted(("agents", name, key))
                hint = 'leave it out, or say output = "json_lines"'
                problem = "is a place, and plain text has none"
                yield Problem(where, problem, hint, values[key,].origin)
    yield from _problems_of_resuming(name, values)
    for server in sorted({at[1] for at in values if at[0] == "mcp_servers"}):
        has = {at[2] for at in values if at[:2] == ("mcp_servers", server)}
        if len(has & {"command", "url"}) != 1:
            where = dotted(("agents", name, "mcp_servers", server))
            yield Problem(where, "has not one of command and url", "give one of them", any_origin)


def _problems_of_resuming(name: str, values: Mapping[KeyPath, Value]) -> Iterator[Problem]:
    resumes = values.get(("resume_command",))
    if resumes is not None and "{session_id}" not in str(resumes.value):
        where = dotted(("agents", name, "resume_command"))
        problem = "does not say which conversation"
        yield Problem(where, problem, "put {session_id} among its words", resumes.origin)


def _fields(values: Mapping[KeyPath, Value], limits: Limits) -> dict[str, Any]:
    """The arguments of `AgentTable`."""
    tree: dict[str, Any] = {}
    for at, value in values.items():
        table = tree
        for part in at[:-1]:
            table = table.setdefault(part, {})
        table[at[-1]] = value.value
    if "permissions" in tree:
        tree["permissions"] = Permissions(**tree["permissions"])
        if tree["permissions"] == Permissions():
            del tree["permissions"]  # it says nothing
    if "limits" in tree:
        tree["limits"] = attrs.evolve(limits, **tree["limits"])
    if "mcp_servers" in tree:
        tree["mcp_servers"] = tuple(
            McpServer(name=name, **server) for name, server in tree["mcp_servers"].items()
        )
    wanted = OPTIONS[tree["driver"]] | _FOR_ALL
    return {name: value for name, value in tree.items() if name in wanted}
