"""Log lines: to standard error, one a line, as people, journals or programs read them.

Rule 1: nothing that looks like a secret gets out, our own token least of all, and nothing that a
        terminal would obey.
Rule 2: what a line is about is in its fields (`session=`, `agent=`), its words are always the same.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import logging
import os
import queue
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final, TextIO

import orjson

from supervisor.core.printable import printable
from supervisor.core.redaction import COVER, redacted

MAX_WAITING: Final = 10_000
FLUSH_SECONDS: Final = 2.0

# How systemd's journal is told how serious a line is.
_PRIORITIES: Final = {
    logging.DEBUG: 7,
    logging.INFO: 6,
    logging.WARNING: 4,
    logging.ERROR: 3,
    logging.CRITICAL: 2,
}
_OURS: Final = ("supervisor", "actors")
_PLAIN: Final = frozenset(
    (*vars(logging.LogRecord("", 0, "", 0, "", None, None)), "message", "asctime", "taskName")
)


class Cover:
    """Secrets that have no shape: known by themselves, once they are told."""

    def __init__(self) -> None:
        self._secrets: list[str] = []

    def add(self, secret: str) -> None:
        """Never let this through."""
        self._secrets.append(secret)

    def over(self, text: str) -> str:
        """The text without them, and without whatever looks like one."""
        for secret in self._secrets:
            text = text.replace(secret, COVER)
        return redacted(text)


class TextLines(logging.Formatter):
    """For people, and for the journal if it reads them."""

    def __init__(self, cover: Cover, *, for_journal: bool) -> None:
        super().__init__()
        self._cover = cover
        self._for_journal = for_journal

    def format(self, record: logging.LogRecord) -> str:
        """The line, and those of a traceback indented below it."""
        fields = "".join(f" {name}={_value(value)}" for name, value in _fields(record).items())
        text = f"{record.getMessage()}{fields}"
        if record.exc_info:
            text += "\n" + self.formatException(record.exc_info)
        first, *rest = printable(self._cover.over(text)).splitlines() or [""]
        lines = [first, *(f"    {line}" for line in rest)]
        if self._for_journal:  # which has the time, and wants a number before each line
            return "\n".join(f"<{_priority(record)}>{line}" for line in lines)
        at = dt.datetime.fromtimestamp(record.created).astimezone()
        stamp = at.isoformat(sep=" ", timespec="milliseconds")
        return f"{stamp} {record.levelname.lower():<7} " + "\n".join(lines)


class JsonLines(logging.Formatter):
    """For programs: one object a line."""

    def __init__(self, cover: Cover) -> None:
        super().__init__()
        self._cover = cover

    def format(self, record: logging.LogRecord) -> str:
        """The line."""
        at = dt.datetime.fromtimestamp(record.created, dt.UTC)
        said: dict[str, Any] = {
            "at": at.isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._clean(record.getMessage()),
        }
        for name, value in _fields(record).items():
            said[name] = self._clean(value) if isinstance(value, str) else value
        if record.exc_info:
            said["traceback"] = self._clean(self.formatException(record.exc_info))
        return orjson.dumps(said, default=str).decode()

    def _clean(self, text: str) -> str:
        return printable(self._cover.over(text))


class Logs(logging.Handler):
    """Where log lines go: a queue, and a thread that writes them.

    So nobody waits for whoever reads them. What is too much for the queue is dropped, and counted.
    """

    def __init__(self, writes: logging.Handler) -> None:
        super().__init__()
        self._writes = writes
        # None is the end.
        self._queue: queue.Queue[logging.LogRecord | threading.Event | None] = queue.Queue(
            MAX_WAITING
        )
        self._thread = threading.Thread(target=self._run, name="understudy log", daemon=True)
        self.dropped = 0

    def open(self) -> None:
        """Begin to write."""
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Have the line written."""
        try:
            self._queue.put_nowait(record)
        except queue.Full:
            self.dropped += 1

    def flush(self) -> None:
        """Wait until all is written that was said so far, but not for ever."""
        written = threading.Event()
        with contextlib.suppress(queue.Full):
            self._queue.put(written, timeout=FLUSH_SECONDS)
            written.wait(FLUSH_SECONDS)

    def end(self) -> None:
        """Write what there is, and then no more; whoever is stuck is left behind."""
        self.flush()
        with contextlib.suppress(queue.Full):
            self._queue.put_nowait(None)
        self._thread.join(FLUSH_SECONDS)

    def _run(self) -> None:
        while (one := self._queue.get()) is not None:
            if isinstance(one, threading.Event):
                with contextlib.suppress(OSError, ValueError):
                    self._writes.flush()
                one.set()
            else:
                self._writes.handle(one)


@contextmanager
def logging_to(
    stream: TextIO, *, level: str, form: str, environ: Mapping[str, str], cover: Cover
) -> Iterator[Logs]:
    """Have our log lines go there while the block runs."""
    handler = logging.StreamHandler(stream)
    for_journal = _is_journal(stream, environ)
    handler.setFormatter(
        JsonLines(cover) if form == "json" else TextLines(cover, for_journal=for_journal)
    )
    logs = Logs(handler)
    logs.open()
    before = {name: (logging.getLogger(name), logging.getLogger(name).level) for name in _OURS}
    for logger, _ in before.values():
        logger.addHandler(logs)
        logger.setLevel(level.upper())
    try:
        yield logs
    finally:
        for logger, old in before.values():
            logger.removeHandler(logs)
            logger.setLevel(old)
        logs.end()


def set_level(level: str) -> None:
    """From now on, lines of this level and above."""
    for name in _OURS:
        logging.getLogger(name).setLevel(level.upper())


def _is_journal(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether the stream is the one that systemd says it has connected to the journal."""
    try:
        found = os.fstat(stream.fileno())
    except (OSError, ValueError):
        return False
    return environ.get("JOURNAL_STREAM") == f"{found.st_dev}:{found.st_ino}"


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    """What was given as `extra`."""
    return {
        name: value
        for name, value in vars(record).items()
        if name not in _PLAIN and value is not None
    }


def _value(value: object) -> str:
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
    """Where log lines go."""
    return sys.stderr
