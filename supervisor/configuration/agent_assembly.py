"""Assembly of the table of one agent from the values of all layers.

This module reports problems of the agent as a whole: no command, or a value that its driver does
not use.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import attrs

from supervisor.core.limits import Limits
from supervisor.core.permissions import Permissions
from supervisor.core.validation import check_permission_names

from .agent_presets import find_preset
from .agent_table import AgentMcpServer, AgentTable, Driver
from .sources import DEFAULT, ConfigProblem, KeyPath, Origin, Value, dotted

# The options of each driver, besides the common ones.
DRIVER_OPTIONS: Final[Mapping[Driver, frozenset[str]]] = {
    "acp": frozenset(
        {
            *("command", "env", "auth", "mcp_servers", "mode", "options"),
            *("handshake_seconds", "tools", "subagents"),
        }
    ),
    "command": frozenset({"command", "env", "resume_command", "output", "text", "session_id_at"}),
    "python": frozenset({"function"}),
}
_COMMON_OPTIONS: Final = frozenset({"driver", "preset", "permissions", "limits", "workspace"})


@attrs.frozen
class AssembledAgent:
    """An agent with the origins of its values, or its problems."""

    agent: AgentTable | None
    problems: tuple[ConfigProblem, ...]
    origins: Mapping[KeyPath, Origin]


def assemble(
    name: str, given: Mapping[KeyPath, Value], *, limits: Limits, environ: Mapping[str, str]
) -> AssembledAgent:
    """Return the agent.

    Paths of problems start after its name, `limits` are those of the settings.
    """
    values = {**_from_preset(given, environ), **given}
    driver = values.get(("driver",))
    if driver is None:
        # The only default here: a function means python, a command acp.
        driver = Value("python" if ("function",) in values else "acp", DEFAULT)
        values["driver",] = driver
    problems = tuple(_problems(name, str(driver.value), values))
    if problems:
        return AssembledAgent(None, problems, {})
    agent = AgentTable(name=name, **_fields(values, limits))
    return AssembledAgent(agent, (), {at: value.origin for at, value in values.items()})


def _from_preset(
    given: Mapping[KeyPath, Value], environ: Mapping[str, str]
) -> dict[KeyPath, Value]:
    chosen = given.get(("preset",))
    if chosen is None:
        return {}
    known = find_preset(str(chosen.value), environ)
    origin = Origin("preset", known.name)
    fields = {"driver": known.driver, "command": known.command, **known.options}
    return {(field,): Value(value, origin) for field, value in fields.items()}


def _problems(name: str, driver: str, values: Mapping[KeyPath, Value]) -> Iterator[ConfigProblem]:
    wanted: Any = DRIVER_OPTIONS[driver]  # type: ignore[index]  # its reader allows only these
    any_origin = next(iter(values.values())).origin
    for at, value in values.items():
        if at[0] not in wanted | _COMMON_OPTIONS and value.origin.kind != "preset":
            hint = f"driver {driver} uses {', '.join(sorted(wanted))}"
            problem = f"is not used by driver {driver}"
            yield ConfigProblem(dotted(("agents", name, *at)), problem, hint, value.origin)
    chosen, said = values.get(("preset",)), values["driver",]
    if chosen is not None and said.value != find_preset(str(chosen.value), {}).driver:
        where, problem = (
            dotted(("agents", name, "driver")),
            f"differs from that of preset {chosen.value}",
        )
        yield ConfigProblem(where, problem, "leave it out", said.origin)
    needed = "function" if driver == "python" else "command"
    if (needed,) not in values:
        hint = f"give it a {needed}"
        hint += "" if driver == "python" else ', or a preset such as "claude"'
        yield ConfigProblem(dotted(("agents", name)), f"has no {needed}", hint, any_origin)
    if ("output",) in values and values["output",].value == "text":
        for key in ("text", "session_id_at"):
            if (key,) in values:
                where = dotted(("agents", name, key))
                hint = 'leave it out, or set output = "json_lines"'
                problem = "does not apply to output text"
                yield ConfigProblem(where, problem, hint, values[key,].origin)
    yield from _resume_problems(name, values)
    for server in sorted({at[1] for at in values if at[0] == "mcp_servers"}):
        has = {at[2] for at in values if at[:2] == ("mcp_servers", server)}
        if len(has & {"command", "url"}) != 1:
            where = dotted(("agents", name, "mcp_servers", server))
            yield ConfigProblem(
                where, "needs exactly one of command and url", "give one of them", any_origin
            )


def _resume_problems(name: str, values: Mapping[KeyPath, Value]) -> Iterator[ConfigProblem]:
    resumes = values.get(("resume_command",))
    if resumes is not None and "{session_id}" not in str(resumes.value):
        where = dotted(("agents", name, "resume_command"))
        problem = "does not contain {session_id}"
        yield ConfigProblem(where, problem, "add {session_id} as one of its words", resumes.origin)


def _fields(values: Mapping[KeyPath, Value], limits: Limits) -> dict[str, Any]:
    """Return the arguments of AgentTable."""
    tree: dict[str, Any] = {}
    for at, value in values.items():
        table = tree
        for part in at[:-1]:
            table = table.setdefault(part, {})
        table[at[-1]] = value.value
    if "permissions" in tree:
        tree["permissions"] = check_permission_names(Permissions(**tree["permissions"]))
        if tree["permissions"] == Permissions():
            del tree["permissions"]  # all defaults: nothing to restrict
    if "limits" in tree:
        tree["limits"] = attrs.evolve(limits, **tree["limits"])
    if "mcp_servers" in tree:
        tree["mcp_servers"] = tuple(
            AgentMcpServer(name=name, **server) for name, server in tree["mcp_servers"].items()
        )
    wanted = DRIVER_OPTIONS[tree["driver"]] | _COMMON_OPTIONS
    return {name: value for name, value in tree.items() if name in wanted}
