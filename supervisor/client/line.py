"""The line to the daemon: one question, one answer, and errors as they were raised over there.

Rule 1: every question has a time-out. What is not answered in it may have happened all the same.
Rule 2: a question that changes nothing is asked once more if the connection broke under it.
Rule 3: what a newer server adds to an answer is not looked at.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Any, Final, TypeVar
from urllib.parse import urlencode

import attrs
import orjson
import trio

from supervisor.api.wire import Unreadable, decode, encode, error_of
from supervisor.core.errors import ConfigError, SupervisorError

from .address import Address
from .asking import Answer, Asker, Method, Question
from .dialling import Crowded
from .errors import AnswerLost, DaemonBusy, NoDaemon
from .stream import Broken, Unreachable

T = TypeVar("T")

# For what is answered from memory or with one commit; and for what starts, stops or copies things.
QUICK_SECONDS: Final = 30.0
SLOW_SECONDS: Final = 600.0
_ERRORS: Final = 400
_JSON: Final = {"content-type": "application/json"}
_ID: Final = re.compile(r"[a-z0-9_]{3,64}")


class Line:
    """An open line; made by `connect()`."""

    def __init__(self, asker: Asker, address: Address) -> None:
        self._asker = asker
        self.address = address
        self.is_closed = False

    @property
    def where(self) -> str:
        """Where it leads, for people."""
        return self.address.where

    def close(self) -> None:
        """Nothing is asked any more."""
        self.is_closed = True

    async def ask(
        self,
        kind: type[T],
        method: Method,
        path: str,
        given: Mapping[str, Any] | None = None,
        *,
        timeout_seconds: float = QUICK_SECONDS,
    ) -> T:
        """Ask, and have the answer as a `kind`; raises what was raised over there."""
        content = await self.fetch(method, path, given, timeout_seconds=timeout_seconds)
        try:
            return decode(kind, orjson.loads(content))
        except (Unreadable, orjson.JSONDecodeError) as problem:
            raise AnswerLost(
                f"the server's answer cannot be read: {problem}",
                hint="is it another version? `understudy version` says which this is",
            ) from problem

    async def fetch(
        self,
        method: Method,
        path: str,
        given: Mapping[str, Any] | None = None,
        *,
        timeout_seconds: float = QUICK_SECONDS,
    ) -> bytes:
        """Ask, and have the answer as it is; `given` goes into the body or, of GET, the query."""
        self.refuse_if_closed()
        question = _question(method, path, given or {})
        with trio.move_on_after(timeout_seconds):
            answer = await self._ask(question)
            if answer.status >= _ERRORS:
                raise error_from(answer.content, status=answer.status)
            return answer.content
        raise AnswerLost(
            f"no answer from {self.where} within {timeout_seconds:g} seconds",
            hint="it may have happened: look, or ask again with the same idempotency_key",
        )

    async def _ask(self, question: Question) -> Answer:
        try:
            try:
                return await self._asker.ask(question)
            except Broken:
                if question.method != "GET":
                    raise
            return await self._asker.ask(question)
        except Crowded:
            raise self.line_is_full() from None
        except Unreachable as error:
            raise self.nobody_there() from error
        except Broken as error:
            raise self.answer_lost() from error

    def refuse_if_closed(self) -> None:
        """Raise if the block of `connect()` has been left."""
        if self.is_closed:
            raise NoDaemon(
                "this connection has been closed", hint="use it inside the block of connect()"
            )

    def nobody_there(self) -> NoDaemon:
        """Nobody listens."""
        return NoDaemon(f"nobody listens on {self.where}", hint="start one with `understudy serve`")

    def line_is_full(self) -> DaemonBusy:
        """Somebody listens, and lets nobody in."""
        return DaemonBusy(
            f"the daemon on {self.where} takes no more connections just now",
            hint="nothing has happened: try again in a moment, with fewer at once",
        )

    def answer_lost(self) -> AnswerLost:
        """The line broke when something had been asked."""
        return AnswerLost(
            f"the connection to {self.where} broke before the answer",
            hint="it may have happened: look, or ask again with the same idempotency_key",
        )


def _question(method: Method, path: str, given: Mapping[str, Any]) -> Question:
    if method == "GET":
        query = urlencode(as_query(given))
        return Question(method, f"/{path}?{query}" if query else f"/{path}", {})
    content = as_body(given) if method in ("POST", "PATCH") else None
    return Question(method, f"/{path}", {} if content is None else _JSON, content)


def error_from(content: bytes, *, status: int) -> SupervisorError:
    """The error that an answer stands for."""
    try:
        said: object = orjson.loads(content)
    except orjson.JSONDecodeError:
        said = None
    return error_of(said, status=status)


def is_id(text: object) -> bool:
    """Whether it can be in a path: what cannot be an id is not there, and nobody need be asked."""
    return isinstance(text, str) and _ID.fullmatch(text) is not None


def as_query(given: Mapping[str, Any]) -> dict[str, str]:
    """Arguments as a query has them, which cannot say None."""
    return {name: _word(name, value) for name, value in given.items() if value is not None}


def _word(name: str, value: Any) -> str:  # noqa: ANN401 - an argument
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        _refuse_unless_finite(name, value)
        return repr(value)
    return str(value)


def as_body(given: Mapping[str, Any]) -> bytes:
    """Arguments as JSON; raises `ConfigError` for what JSON cannot say."""
    for name, value in given.items():
        _refuse_unless_finite(name, value)
    try:
        return encode(dict(given))
    except (TypeError, orjson.JSONEncodeError, UnicodeEncodeError) as error:
        raise ConfigError(
            f"what was given cannot be sent: {error}", hint="give plain text, numbers and lists"
        ) from error


def _refuse_unless_finite(name: str, value: Any) -> None:  # noqa: ANN401 - an argument
    # JSON has no word for these, and null would mean something else.
    if isinstance(value, float) and not math.isfinite(value):
        raise ConfigError(f"{name} is {value}", hint="give a finite number")
    if attrs.has(type(value)):
        for field in attrs.fields(type(value)):
            _refuse_unless_finite(f"{name}.{field.name}", getattr(value, field.name))
