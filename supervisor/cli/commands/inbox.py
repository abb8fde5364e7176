"""`understudy inbox` and `understudy answer`: list and answer permission requests and questions."""

from __future__ import annotations

import time
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final

import click

from supervisor.cli.async_runner import run_reading, run_requests
from supervisor.cli.failures import WrongUsage
from supervisor.cli.options import json_option
from supervisor.cli.output import Screen, json_text
from supervisor.cli.target import all_sessions, find_id, find_session, open_target
from supervisor.cli.text_format import Cell, format_age, format_duration
from supervisor.core.errors import (
    AmbiguousId,
    PermissionNotFound,
    SessionNotFound,
    short_repr,
)
from supervisor.core.ids import RequestId
from supervisor.core.match import Match
from supervisor.core.text import one_line

if TYPE_CHECKING:
    from supervisor.cli.target import Target
    from supervisor.sessions.inbox import PermissionRequest


_MAX_CHARACTERS: Final = 4_000


@click.command()
@json_option
def inbox(*, as_json: bool) -> int:
    """List pending permission requests and questions, oldest first; see `understudy answer`."""
    screen = Screen(as_json=as_json)
    return run_reading(screen, None, partial(_inbox, screen))


async def _inbox(screen: Screen) -> None:
    async with open_target(screen, access="read") as sup:
        requests = await sup.permissions()
        names = {} if screen.as_json or not requests else await _session_names(sup)
    if screen.as_json:
        screen.data({"items": requests, "next": None})
        return
    if not requests:
        screen.note("No pending requests.")
        return
    now = time.time()
    for one in requests:
        about = f"  {names.get(one.session_id, one.session_id)}  {one_line(one.tool)}"
        about += f"  {format_age(now - one.asked_at)}"
        screen.line(Cell(one.id, "bold"), Cell(about, "dim"), Cell(_time_left(one, now), "yellow"))
        screen.line("    ", one_line(one.question))
        if one.input:
            screen.line("    ", request_input_text(one))
        for choice in one.choices:
            screen.line("    ", Cell(f"- {one_line(choice)}", "dim"))
        if one.options:
            screen.line("    ", Cell(", ".join(one.options), "dim"))
    kinds = {one.asks for one in requests}
    if "permission" in kinds:
        screen.note("Decide with `understudy answer REQUEST yes`, or no, always, never.")
    if "question" in kinds:
        screen.note('Answer a question with `understudy answer REQUEST "TEXT"`.')


async def _session_names(sup: Target) -> dict[str, str]:
    """Return the names of the sessions that wait for a decision, by id."""
    waiting = all_sessions(sup, badge="waiting-for-you")
    return {info.id: info.name async for info in waiting if info.name is not None}


def _time_left(request: PermissionRequest, now: float) -> str:
    """Return how long the request still waits; nothing if it waits until it is answered."""
    if request.expires_at is None:
        return ""
    end = "closed" if request.asks == "question" else "rejected"
    return f"  {end} in {format_duration(max(0.0, request.expires_at - now))}"


def request_input_text(request: PermissionRequest) -> str:
    """Return the tool's input, cut to a maximum, which users read before they decide."""
    text = json_text(request.input)
    more = len(text) - _MAX_CHARACTERS
    return text if more <= 0 else f"{text[:_MAX_CHARACTERS]}… and {more} more characters"


_DECISIONS: Final = ("allow_once", "allow_always", "reject_once", "reject_always")
_SHORT_WORDS: Final = {
    "yes": "allow_once",
    "no": "reject_once",
    "always": "allow_always",
    "never": "reject_always",
}


class _Answer(click.Choice[str]):
    """A decision, or the text that answers a question; only the request tells which it is."""

    def convert(
        self,
        value: object,
        param: click.Parameter | None,  # noqa: ARG002 - click's signature
        ctx: click.Context | None,  # noqa: ARG002
    ) -> str:
        """Return the text."""
        return str(value)


@click.command()
@click.argument("request", metavar="ID|REQUEST")
@click.argument("given", metavar="DECISION|TEXT", type=_Answer([*_SHORT_WORDS, *_DECISIONS]))
@json_option
def answer(*, request: str, given: str, as_json: bool) -> int:
    """Answer a permission request or a question; `understudy inbox` lists them.

    A session with one pending request stands for that request. DECISION is yes, no, always or
    never; allow_once, reject_once, allow_always and reject_always are the same. A question takes
    any TEXT.
    """
    screen = Screen(as_json=as_json)
    return run_requests(screen, partial(_answer, screen, request, given))


async def _answer(screen: Screen, named: str, given: str) -> None:
    async with open_target(screen) as sup:
        request_id = await _find_request(sup, named)
        pending = {one.id: one for one in await sup.permissions()}
        request = pending.get(RequestId(request_id))
        if request is not None and request.asks == "question":
            answered = {"text": given}
            await sup.answer_question(request_id, given)
        else:
            decision = _SHORT_WORDS.get(given, given)
            answered = {"decision": decision}
            if request is not None and decision not in _DECISIONS:
                raise WrongUsage(
                    f"request {request_id} asks for permission, and {short_repr(given)} is no"
                    " decision",
                    hint="answer yes, no, always or never",
                )
            await sup.answer(request_id, decision)  # type: ignore[arg-type]  # the daemon checks it
    if screen.as_json:
        screen.data({"request_id": request_id, **answered})
    else:
        screen.line(f"{request_id}: {one_line(next(iter(answered.values())))}")


async def _find_request(sup: Target, text: str) -> str:
    """Return the id of the pending request that the text names: by its id, or by its session.

    Raise `PermissionNotFound` if there is none, and `AmbiguousId` if there are several.
    """
    with suppress(PermissionNotFound):
        return await find_id(sup, "request", text)
    if text.startswith("req_"):  # the daemon knows if it was answered already
        return text
    pending = await sup.permissions()
    try:
        session = await find_session(sup, text)
    except SessionNotFound:
        raise PermissionNotFound(
            f"no pending request or session matches {short_repr(text)}",
            hint="`understudy inbox` lists the pending requests",
        ) from None
    ids = [one.id for one in pending if one.session_id == session.id]
    if len(ids) == 1:
        return ids[0]
    if not ids:
        raise PermissionNotFound(
            f"session {text} has no pending request",
            hint=f"`understudy why {text}` says what it waits for",
        )
    name = (await session.info()).name
    raise AmbiguousId(
        f"session {text} has {len(ids)} pending requests: {', '.join(ids)}",
        hint="write the id of one of them",
        candidates=[Match("request", one, session.id, name) for one in ids],
    )
