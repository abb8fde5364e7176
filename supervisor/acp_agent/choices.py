"""Options that a client shows as menus: ours, and the agent's own. Pure.

Rule 1: the ids of ours begin with `understudy.`, so that they never meet an agent's.
Rule 2: an option that cannot be changed any more is listed with its one value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, get_args

import attrs

from supervisor.core.agent_list import ListedAgent
from supervisor.core.agent_options import AgentOption, OptionValue
from supervisor.core.info import Info
from supervisor.core.permissions import DEFAULT_MODE
from supervisor.core.session_values import WhenBusy
from supervisor.drivers.acp.content import as_list, as_mapping, as_text
from supervisor.json_rpc.rpc_messages import INVALID_PARAMS, RpcError

AGENT: Final = "understudy.agent"
BUSY_MODE: Final = "understudy.busy_mode"
PERMISSION_MODE: Final = "understudy.permission_mode"

Option = dict[str, Any]

_BUSY_NAMES: Final[Mapping[WhenBusy, tuple[str, str]]] = {
    "queue": ("Queue", "A prompt sent while a turn runs waits for its end."),
    "steer": ("Steer", "It goes to the running turn."),
    "interrupt": ("Interrupt", "The running turn is interrupted first."),
    "reject": ("Reject", "It is refused."),
}
_MODE_NAMES: Final = {
    "deny_all": ("Deny all", "Nothing is allowed, and nothing is asked."),
    "approve_reads": (
        "Approve reads",
        "Reads in the workspace are allowed, the rest is asked.",
    ),
    "approve_all": ("Approve all", "Everything is allowed without asking."),
}


@attrs.frozen(kw_only=True)
class SessionChoices:
    """What can be chosen in one session, and what is chosen.

    `is_new`: no prompt was sent, so agent and permission mode can still be changed.
    `agent_options` are those of the agent itself.
    """

    agent: str
    agents: Sequence[ListedAgent] = ()
    busy_mode: WhenBusy = "queue"
    permission_mode: str = DEFAULT_MODE
    is_new: bool = False
    agent_options: Sequence[Mapping[str, Any]] = ()

    def options(self) -> list[Option]:
        """Return all options, the agent's first."""
        return [*map(dict, self.agent_options), *self._ours()]

    def _ours(self) -> list[Option]:
        agents = {one.name: (one.name, one.detail) for one in self.agents if one.installed}
        modes: Mapping[str, tuple[str, str | None]] = _MODE_NAMES
        return [
            self._select(AGENT, "Agent", self.agent, agents, can_change=self.is_new),
            self._select(BUSY_MODE, "While busy", self.busy_mode, _BUSY_NAMES, can_change=True),
            self._select(
                PERMISSION_MODE, "Permissions", self.permission_mode, modes, can_change=self.is_new
            ),
        ]

    def _select(
        self,
        option: str,
        name: str,
        current: str,
        offered: Mapping[Any, tuple[str, str | None]],
        *,
        can_change: bool,
    ) -> Option:
        names = {current: offered.get(current, (current, None)), **(offered if can_change else {})}
        values = []
        for value, (shown, described) in names.items():
            item = {"value": value, "name": shown}
            values.append(item if described is None else item | {"description": described})
        return {
            "id": option,
            "name": name,
            "type": "select",
            "currentValue": current,
            "options": values,
        }

    def check(self, option: str, value: object) -> None:
        """Raise `RpcError` unless the value of one of our options can be chosen now."""
        ours = next((one for one in self._ours() if one["id"] == option), None)
        if ours is None:
            raise RpcError(INVALID_PARAMS, f"the session has no option {option!r}")
        offered = [item["value"] for item in ours["options"]]
        if value not in offered:
            hint = "" if len(offered) > 1 else "; it can be chosen before the first prompt only"
            raise RpcError(INVALID_PARAMS, f"{option} is one of {', '.join(offered)}{hint}")


def agent_options(info: Info, reported: object, *, switches: bool) -> list[Option]:
    """Return the options of the agent as it has reported them, with the values that are wanted.

    `reported` may lack some, such as modes that the agent offers in another way. Without
    `switches`, options that are true or false are left out.
    """
    known = {as_text(as_mapping(one).get("id")): one for one in as_list(reported)}
    return [
        _option_of(option, as_mapping(known.get(option.id)), info.options.get(option.id))
        for option in info.offered_options
        if switches or option.kind == "select"
    ]


def _option_of(
    option: AgentOption, reported: Mapping[str, Any], wanted: OptionValue | None
) -> Option:
    current = option.current if wanted is None else wanted
    found: Option = {"id": option.id, "name": option.name, "type": option.kind}
    if option.category in _CATEGORIES:
        found["category"] = option.category
    if option.kind == "select":
        found["options"] = [{"value": one, "name": one} for one in option.values]
    kept = {name: reported[name] for name in _REPORTED_FIELDS if reported.get(name) is not None}
    default = False if option.kind == "boolean" else next(iter(option.values), "")
    return {**found, **kept, "currentValue": default if current is None else current}


_CATEGORIES: Final = ("mode", "model", "model_config", "thought_level")
# What only the agent knows: descriptions, and the names of values, maybe in groups.
_REPORTED_FIELDS: Final = ("description", "options")


def is_ours(option: str) -> bool:
    """Return True for the id of an option of the supervisor."""
    return option in (AGENT, BUSY_MODE, PERMISSION_MODE)


assert set(_BUSY_NAMES) == set(get_args(WhenBusy))
