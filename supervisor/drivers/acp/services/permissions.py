"""`session/request_permission`: an agent's question, and the way back of the answer.

Rule 1: options are known by their kind; ids and words differ from agent to agent. Of several of one
        kind the first counts.
Rule 2: an agent is never granted more than was decided. A yes for always may become a yes for once,
        and a no for once and for always stand for each other, since both are a no; but a yes for
        once never becomes one for always. If nothing fits, the request is cancelled.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, get_args

import attrs
import trio

from supervisor.core.session import Decision
from supervisor.drivers.acp.news.tools import ToolFacts, facts_of
from supervisor.drivers.acp.reading import as_list, as_mapping
from supervisor.drivers.acp.rpc.messages import INVALID_PARAMS, RpcError
from supervisor.drivers.port import Office

from .asking import ALLOWED, Answer, Ask, Question
from .grants import Grants
from .ground import Ground, OffLimits, Pin

MAX_OPTIONS: Final = 100
MAX_QUESTION_LETTERS: Final = 4000
MAX_OPTION_ID_LETTERS: Final = 1000
_DECISIONS: Final[tuple[Decision, ...]] = get_args(Decision)
_INSTEAD: Final[Mapping[Decision, tuple[Decision, ...]]] = {
    "allow_once": ("allow_once",),
    "allow_always": ("allow_always", "allow_once"),
    "reject_once": ("reject_once", "reject_always"),
    "reject_always": ("reject_always", "reject_once"),
}


@attrs.frozen
class Request:
    """What an agent asked: what it is about, and the id of the option for each decision."""

    facts: ToolFacts
    options: Mapping[Decision, str]

    def result(self, answer: Answer) -> dict[str, object]:
        """What to answer the agent when this was decided."""
        for decision in () if answer == "cancelled" else _INSTEAD[answer]:
            if decision in self.options:
                chosen = {"outcome": "selected", "optionId": self.options[decision]}
                return {"outcome": chosen}
        return {"outcome": {"outcome": "cancelled"}}


def parse_request(params: object, known: Callable[[object], ToolFacts]) -> Request:
    """The question in these params; raises `RpcError` if they are none.

    `known` gives what was said of a tool call before.
    """
    given = as_mapping(params)
    call = given.get("toolCall")
    if not isinstance(call, dict):
        raise RpcError(INVALID_PARAMS, "toolCall is no object")
    options = _options_of(given.get("options"))
    if not options:
        kinds = ", ".join(_DECISIONS)
        raise RpcError(INVALID_PARAMS, f"options has none whose kind is one of {kinds}")
    return Request(known(call.get("toolCallId")).joined(facts_of(call)), options)


def _options_of(offered: object) -> dict[Decision, str]:
    """By decision, in their own order; the first of each kind."""
    found: dict[Decision, str] = {}
    for item in as_list(offered)[:MAX_OPTIONS]:
        option = as_mapping(item)
        kind, option_id = option.get("kind"), option.get("optionId")
        if not isinstance(option_id, str) or len(option_id) > MAX_OPTION_ID_LETTERS:
            continue
        if kind in _DECISIONS and kind not in found:
            found[kind] = option_id
    return {decision: found[decision] for decision in _DECISIONS if decision in found}


class PermissionDesk:
    """Where an agent's questions go; one for each agent."""

    def __init__(
        self,
        office: Office,
        *,
        ask: Ask,
        grants: Grants,
        known: Callable[[object], ToolFacts],
        limiter: trio.CapacityLimiter,
        pin: Pin | None = None,
    ) -> None:
        self._office = office
        self._ask = ask
        self._grants = grants
        self._known = known
        self._limiter = limiter
        self._pin = pin

    async def request(self, params: object) -> dict[str, object]:
        """Have a question decided, and give what the agent is answered; raises `RpcError`.

        Lasts as long as whoever decides takes; the session bounds that.
        """
        request = parse_request(params, self._known)
        facts = request.facts
        places = await self._places(facts)
        answer = await self._ask(
            Question(
                tool=facts.tool(self._office.permissions),
                question=(facts.title or facts.shown_name)[:MAX_QUESTION_LETTERS],
                kind=facts.kind,
                inside_workspace=bool(places),
                input=facts.input,
                options=tuple(request.options),
            )
        )
        if answer in ALLOWED and answer != "cancelled":
            self._grants.add(facts, answer, places=places)
        return request.result(answer)

    async def _places(self, facts: ToolFacts) -> tuple[str, ...]:
        """Where its paths really lead; nothing if one is not on the ground, or there is none."""
        ground = Ground.of(self._office, self._pin)
        if ground is None or not facts.paths:
            return ()
        return await trio.to_thread.run_sync(
            _all_places, ground, facts.paths, limiter=self._limiter, abandon_on_cancel=True
        )


def _all_places(ground: Ground, paths: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(ground.place_of(path).path for path in paths)
    except OffLimits:
        return ()
