"""Log lines on standard error: as text, for the systemd journal, or as JSON.

Rule 1: secrets such as the daemon's token are redacted, and control characters that a
        terminal would obey are escaped.
Rule 2: the message is a constant phrase; variable data is in fields (`session=`, `agent=`).
Rule 3: text of users, agents and tools is not logged, unless `daemon.log_content` is on: log calls
        pass it as `Content`, and tracebacks are written without the text of their exceptions.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import io
import logging
import os
import queue
import sys
import threading
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, Protocol, TextIO, TypeAlias

import orjson

from supervisor.core.facts import AnyRecord
from supervisor.core.log_content import Content, error_content, reveal, revealed_arguments
from supervisor.core.redaction import REDACTED, redact
from supervisor.core.text import printable

MAX_QUEUED_LINES: Final = 10_000

FLUSH_SECONDS: Final = 2.0

# Priorities of the systemd journal, by log level.
_PRIORITIES: Final = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}

_OUR_LOGGERS: Final = ("supervisor", "actors")

_STANDARD_FIELDS: Final = frozenset(
    (*vars(logging.LogRecord("", 0, "", 0, "", None, None)), "message", "asctime", "taskName")
)


class SecretFilter:
    """Redacts registered secrets, and text that looks like a secret."""

    def __init__(self) -> None:
        self._secrets: list[str] = []

    def add(self, secret: str) -> None:
        """Redact this secret from now on."""
        self._secrets.append(secret)

    def redact(self, text: str) -> str:
        """Return the text without secrets."""
        for secret in self._secrets:
            text = text.replace(secret, REDACTED)
        return redact(text)


class ContentFormatter(logging.Formatter):
    """Base of the formatters: hides content, or shows it with `show_content`."""

    def __init__(self, secret_filter: SecretFilter, *, show_content: bool) -> None:
        super().__init__()
        self._secret_filter = secret_filter
        self._show_content = show_content

    def _message(self, record: logging.LogRecord) -> str:
        if not self._show_content:
            return record.getMessage()
        shown = revealed_arguments(record.args)
        return record.msg % shown if shown else str(record.msg)

    def _fields(self, record: logging.LogRecord) -> dict[str, Any]:
        """Return the fields that were passed as `extra`; hidden ones are left out."""
        return {
            name: reveal(value)
            for name, value in vars(record).items()
            if name not in _STANDARD_FIELDS
            and value is not None
            and (self._show_content or not isinstance(value, Content))
        }

    def _traceback(self, record: logging.LogRecord) -> str | None:
        """Return the traceback of a record, None if it has none."""
        error = record.exc_info[1] if record.exc_info else None
        if error is None:
            return None
        if self._show_content:
            return "".join(traceback.format_exception(error)).rstrip()
        return "".join(_traceback_without_texts(error)).rstrip()


def _traceback_without_texts(error: BaseException, depth: int = 0) -> Iterator[str]:
    """Yield the lines of a traceback; of each exception only its class, or the system's text."""
    cause = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    if cause is not None and depth < _MAX_CAUSES:
        yield from _traceback_without_texts(cause, depth + 1)
        yield "Which led to:\n"
    yield "Traceback (most recent call last):\n"
    yield from traceback.format_tb(error.__traceback__)
    yield f"{error_content(error)}\n"
    if isinstance(error, BaseExceptionGroup) and depth < _MAX_CAUSES:
        for one in error.exceptions:
            yield from _traceback_without_texts(one, depth + 1)


_MAX_CAUSES: Final = 8


class TextFormatter(ContentFormatter):
    """Lines for people, or for the systemd journal."""

    def __init__(
        self, secret_filter: SecretFilter, *, show_content: bool, for_journal: bool
    ) -> None:
        super().__init__(secret_filter, show_content=show_content)
        self._for_journal = for_journal

    def format(self, record: logging.LogRecord) -> str:
        """Return the line, with an indented traceback below it."""
        fields = "".join(
            f" {name}={_format_value(value)}" for name, value in self._fields(record).items()
        )
        text = f"{self._message(record)}{fields}"
        if (stack := self._traceback(record)) is not None:
            text += "\n" + stack
        first, *rest = printable(self._secret_filter.redact(text)).splitlines() or [""]
        lines = [first, *(f"    {line}" for line in rest)]
        if self._for_journal:  # it adds the time itself, and needs a priority before each line
            return "\n".join(f"<{_priority(record)}>{line}" for line in lines)
        at = dt.datetime.fromtimestamp(record.created).astimezone()
        stamp = at.isoformat(sep=" ", timespec="milliseconds")
        return f"{stamp} {record.levelname.lower():<7} " + "\n".join(lines)


class JsonFormatter(ContentFormatter):
    """Lines for programs: one JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        """Return the line."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC)
        line: dict[str, Any] = {
            "at": at.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._clean(self._message(record)),
        }
        for name, value in self._fields(record).items():
            line[name] = self._clean(value) if isinstance(value, str) else value
        if (stack := self._traceback(record)) is not None:
            line["traceback"] = self._clean(stack)
        return orjson.dumps(line, default=str).decode()

    def _clean(self, text: str) -> str:
        return printable(self._secret_filter.redact(text))


class QueuedHandler(logging.Handler):
    """A queue of log records and the thread that writes them.

    Logging never blocks on a slow reader. Records that do not fit into the queue are dropped and
    counted.
    """

    def __init__(self, handler: logging.Handler) -> None:
        super().__init__()
        self._handler = handler
        # None ends the thread.
        self._queue: queue.Queue[logging.LogRecord | threading.Event | None] = queue.Queue(
            MAX_QUEUED_LINES
        )
        self._thread = threading.Thread(target=self._run, name="understudy log", daemon=True)
        self.dropped = 0
        self._has_ended = False

    def open(self) -> None:
        """Start the thread."""
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Queue the record, or count it as dropped."""
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def flush(self) -> None:
        """Wait until all queued records are written, at most `FLUSH_SECONDS`.

        Return at once after `end`: Python flushes all handlers again before the process exits.
        """
        if self._has_ended:
            return
        written = threading.Event()
        with contextlib.suppress(queue.Full):
            self._queue.put(written, timeout=FLUSH_SECONDS)
            written.wait(FLUSH_SECONDS)

    def end(self) -> None:
        """Write the queued records and end the thread; abandon a thread that is blocked."""
        self.flush()
        self._has_ended = True
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(FLUSH_SECONDS)

    def _run(self) -> None:
        while (one := self._queue.get()) is not None:
            if isinstance(one, threading.Event):
                with contextlib.suppress(OSError, ValueError):
                    self._handler.flush()
                one.set()
            else:
                self._handler.handle(one)


class LogStream(Protocol):
    """A stream for log lines."""

    def write(self, text: str, /) -> object:
        """Write the text."""

    def flush(self) -> None:
        """Write buffered text."""


@contextmanager
def logging_to(
    stream: LogStream,
    *,
    level: str,
    form: str,
    environ: Mapping[str, str],
    secret_filter: SecretFilter,
    show_content: bool = False,
) -> Iterator[QueuedHandler]:
    """Send our log lines to the stream during the block; see rule 3 for `show_content`."""
    handler = logging.StreamHandler[LogStream](stream)
    for_journal = isinstance(stream, io.TextIOBase) and _is_journal(stream, environ)
    handler.setFormatter(
        JsonFormatter(secret_filter, show_content=show_content)
        if form == "json"
        else TextFormatter(secret_filter, show_content=show_content, for_journal=for_journal)
    )
    logs = QueuedHandler(handler)
    logs.open()
    before = {
        name: (logging.getLogger(name), logging.getLogger(name).level) for name in _OUR_LOGGERS
    }
    for ours, _ in before.values():
        ours.addHandler(logs)
        ours.setLevel(level.upper())
    try:
        yield logs
    finally:
        for ours, old in before.values():
            ours.removeHandler(logs)
            ours.setLevel(old)
        logs.end()


def set_level(level: str) -> None:
    """Log lines of this level and above from now on."""
    for name in _OUR_LOGGERS:
        logging.getLogger(name).setLevel(level.upper())


def _is_journal(stream: io.TextIOBase, environ: Mapping[str, str]) -> bool:
    """Return True if systemd has connected the stream to the journal."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _format_value(value: object) -> str:
    text = str(value)
    return text if text and text.isprintable() and " " not in text else repr(text)


def _priority(record: logging.LogRecord) -> int:
    return next(
        (
            number
            for level, number in sorted(_PRIORITIES.items(), reverse=True)
            if record.levelno >= level
        ),
        7,
    )


def standard_error() -> TextIO:
    """Return the stream for log lines."""
    return sys.stderr


logger = logging.getLogger("supervisor.sessions")

Body: TypeAlias = Mapping[str, Any]

_FAILED_OUTCOMES: Final = ("failed", "timed_out", "lost")

# By record kind: level, message, and the body fields to log.
_RECORD_LINES: Final[Mapping[str, tuple[int, str, tuple[str, ...]]]] = {
    "session_created": (logging.INFO, "session created", ()),
    "session_resumed": (logging.DEBUG, "session resumed", ("woken",)),
    "session_suspended": (logging.DEBUG, "session suspended", ()),
    "session_cleared": (logging.INFO, "session cleared", ("chapter",)),
    "session_stopped": (logging.INFO, "session stopped", ("reason",)),
    "turn_started": (logging.DEBUG, "turn started", ("source",)),
    "turn_ended": (logging.INFO, "turn ended", ("outcome", "stop_reason", "seconds")),
    "interrupted": (logging.INFO, "interrupted", ("scope", "step", "matched", "unreachable")),
    "permission_asked": (logging.INFO, "permission requested", ("request_id", "tool")),
    "spawn_refused": (logging.WARNING, "spawn refused", ("limit", "used", "allowed")),
    "stalled": (logging.WARNING, "session stalled", ("waits_for", "seconds")),
    "progress_resumed": (logging.INFO, "session makes progress again", ()),
    "agent_restarting": (logging.WARNING, "agent restarting", ()),
}


# Fields whose text comes from the agent: the name or title of a tool, and a reason of its own.
_CONTENT_FIELDS: Final = frozenset({"tool", "stop_reason"})
_KNOWN_STOP_REASONS: Final = frozenset(
    {"end_turn", "max_tokens", "max_turn_requests", "refusal", "cancelled"}
)


class EventLog:
    """Logs records after their commit; the daemon calls it with each record."""

    def __init__(self, agent_of: Callable[[AnyRecord], str | None]) -> None:
        self._agent_of = agent_of

    def log_record(self, record: AnyRecord) -> None:
        """Log the record if its kind is of interest to operators."""
        kind, body = record.kind, record.body
        known = _RECORD_LINES.get(kind)
        if known is None:
            return
        level, message, names = known
        level = _raised_level(kind, body) or level
        if not logger.isEnabledFor(level):
            return
        fields = {name: body[name] for name in names if body.get(name) is not None}
        for name in _CONTENT_FIELDS & fields.keys():
            if fields[name] not in _KNOWN_STOP_REASONS:
                fields[name] = Content(fields[name])
        if isinstance(fields.get("seconds"), float):
            fields["seconds"] = round(fields["seconds"], 3)
        context = {
            "session": record.session_id,
            "agent": self._agent_of(record),
            "turn": record.turn_id,
        }
        logger.log(level, message, extra=context | fields)


def _raised_level(kind: str, body: Body) -> int | None:
    """Return the log level of a record that reports a failure; None for other records."""
    if kind == "session_stopped" and body.get("failure") is not None:
        return logging.WARNING
    if kind == "turn_ended" and body.get("outcome") in _FAILED_OUTCOMES:
        return logging.WARNING
    return None
