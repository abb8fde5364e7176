"""Log lines: their format, and what is never in them."""

from __future__ import annotations

import io
import json
import logging
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from supervisor import Record
from supervisor.core.ids import SessionId, TurnId
from supervisor.core.log_content import Content, error_content
from supervisor.daemon import logging_
from supervisor.daemon.logging_ import EventLog, SecretFilter, logging_to, set_level

logger = logging.getLogger("supervisor.test")
TOKEN = "Zm9vYmFyYmF6cXV4Zm9vYmFyYmF6cXV4"  # noqa: S105 - an example


@contextmanager
def lines(
    form: str = "text", level: str = "info", *, show_content: bool = False, **environ: str
) -> Iterator[io.StringIO]:
    secret_filter = SecretFilter()
    secret_filter.add(TOKEN)
    out = io.StringIO()
    with logging_to(
        out,
        level=level,
        form=form,
        environ=environ,
        secret_filter=secret_filter,
        show_content=show_content,
    ):
        yield out


def test_a_line_has_its_time_its_level_and_its_fields() -> None:
    with lines() as out:
        logger.warning("agent is started again", extra={"session": "s_one", "agent": "my agent"})

    assert out.getvalue().endswith("agent is started again session=s_one agent='my agent'\n")
    assert " warning " in out.getvalue()


def test_a_line_for_programs_is_one_object() -> None:
    with lines("json") as out:
        logger.info("turn ended", extra={"session": "s_one", "seconds": 1.5, "turn": None})

    said = json.loads(out.getvalue())
    assert (said["message"], said["level"], said["session"]) == ("turn ended", "info", "s_one")
    assert said["seconds"] == 1.5
    assert "turn" not in said


def test_a_journal_line_begins_with_its_priority() -> None:
    read, write = os.pipe()
    stat = os.fstat(write)
    with os.fdopen(write, "w") as out, os.fdopen(read) as journal:
        environ = {"JOURNAL_STREAM": f"{stat.st_dev}:{stat.st_ino}"}
        with logging_to(
            out, level="info", form="text", environ=environ, secret_filter=SecretFilter()
        ):
            logger.error("two\nlines")

        assert [journal.readline(), journal.readline()] == ["<3>two\n", "<3>    lines\n"]


@pytest.mark.parametrize("form", ["text", "json"])
def test_secrets_are_redacted(form: str) -> None:
    with lines(form) as out:
        logger.info("got %s and password=hunter22", TOKEN)
        logger.info("field", extra={"session": TOKEN})
        logger.error("it failed", exc_info=ValueError(f"Bearer {TOKEN}"))

    assert TOKEN not in out.getvalue()
    assert "hunter22" not in out.getvalue()
    assert "ValueError" in out.getvalue()


@pytest.mark.parametrize("form", ["text", "json"])
def test_control_characters_are_escaped(form: str) -> None:
    with lines(form) as out:
        logger.info("a\x1b[31mb\x07c\x9b1m", extra={"session": "x\x1b]0;title\x07y"})

    assert not set(out.getvalue()) & set("\x1b\x07\x9b")


def test_lines_below_the_level_are_left_out_until_it_changes() -> None:
    with lines(level="warning") as out:
        logger.info("one")
        set_level("debug")
        logger.debug("two")

    assert "one" not in out.getvalue()
    assert "two" in out.getvalue()


def test_logging_does_not_wait_for_a_slow_reader(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging_, "MAX_QUEUED_LINES", 5)
    monkeypatch.setattr(logging_, "FLUSH_SECONDS", 0.01)
    may_read = threading.Event()

    class Stuck(io.StringIO):
        def write(self, text: str) -> int:
            may_read.wait(10)
            return super().write(text)

    with logging_to(
        Stuck(), level="info", form="text", environ={}, secret_filter=SecretFilter()
    ) as made:
        for _ in range(50):
            logger.info("hello")

        assert made.dropped >= 40
    may_read.set()


def test_logging_to_restores_handlers_and_levels() -> None:
    ours = logging.getLogger("supervisor")
    before = (ours.level, list(ours.handlers))

    with lines():
        pass

    assert (ours.level, list(ours.handlers)) == before


# Content -------------------------------------------------------------------------------------

CONTENT = "the-secret-plan"


def log_content() -> None:
    """Log content in every way: argument, field, exception, its cause and its group."""
    logger.warning("junk from %s: %s", "robot", Content(CONTENT))
    logger.warning("refused: %s", error_content(KeyError(CONTENT)))
    logger.info("permission requested", extra={"tool": Content(CONTENT)})
    error = ExceptionGroup(CONTENT, [ValueError(CONTENT)])
    error.__cause__ = KeyError(CONTENT)
    logger.error("it failed", exc_info=error)


@pytest.mark.parametrize("form", ["text", "json"])
def test_content_is_hidden_and_its_kind_is_not(form: str) -> None:
    with lines(form, "debug") as out:
        log_content()

    said = out.getvalue()
    assert CONTENT not in said
    assert "junk from robot: (15 characters)" in said
    assert "refused: KeyError" in said
    assert all(one in said for one in ("KeyError", "ExceptionGroup", "ValueError"))


@pytest.mark.parametrize("form", ["text", "json"])
def test_content_is_shown_on_request(form: str) -> None:
    with lines(form, "debug", show_content=True) as out:
        log_content()

    assert out.getvalue().count(CONTENT) >= 6


def test_the_text_of_the_system_stays_in_a_traceback() -> None:
    with lines() as out:
        logger.error("failed", exc_info=OSError(28, "No space left on device", CONTENT))

    assert "OSError: No space left on device" in out.getvalue()
    assert CONTENT not in out.getvalue()


def test_a_long_chain_of_causes_ends() -> None:
    error = ValueError()
    error.__cause__ = error
    with lines() as out:
        logger.error("failed", exc_info=error)

    assert 1 < out.getvalue().count("ValueError") < 20


@pytest.mark.parametrize(("reason", "shown"), [("refusal", True), (CONTENT, False)])
def test_only_known_reasons_of_agents_are_logged(reason: str, shown: object) -> None:
    with lines() as out:
        EventLog(lambda _: None).log_record(record("turn_ended", stop_reason=reason))

    assert (reason in out.getvalue()) is shown


def test_the_tool_of_a_permission_request_is_not_logged() -> None:
    with lines() as out:
        EventLog(lambda _: None).log_record(
            record("permission_asked", request_id="req_1", tool=CONTENT)
        )

    assert "permission requested" in out.getvalue()
    assert CONTENT not in out.getvalue()


def test_a_log_that_has_ended_is_not_flushed_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Python flushes it once more before the process exits, and its thread has ended."""
    logs = logging_.QueuedHandler(logging.NullHandler())
    logs.open()
    logs.end()
    monkeypatch.setattr(logging_, "FLUSH_SECONDS", 0.0)

    logs.flush()

    assert logs._queue.empty()


# What happens to sessions --------------------------------------------------------------------


def record(kind: str, **body: object) -> Record:
    return Record(SessionId("s_one"), 1, 1.0, TurnId("turn_1"), kind, body)  # type: ignore[arg-type] # a kind


def test_a_session_line_has_ids_and_no_text() -> None:
    journal = EventLog(lambda _: "coder")
    with lines() as out:
        journal.log_record(
            record("turn_ended", outcome="completed", text="the secret plan", seconds=1.23456)
        )
        journal.log_record(record("agent_text", text="the secret plan"))

    line = out.getvalue()
    assert "turn ended session=s_one agent=coder turn=turn_1 outcome=completed" in line
    assert "secret plan" not in line


@pytest.mark.parametrize(
    ("said", "level"),
    [
        (record("turn_ended", outcome="completed"), "info"),
        (record("turn_ended", outcome="failed"), "warning"),
        (record("session_stopped", reason="user_cancelled", failure=None), "info"),
        (record("session_stopped", reason="agent_crashed", failure={"kind": "x"}), "warning"),
        (record("stalled", waits_for="model"), "warning"),
    ],
)
def test_failures_are_logged_as_warnings(said: Record, level: str) -> None:
    journal = EventLog(lambda _: None)
    with lines("json") as out:
        journal.log_record(said)

    assert json.loads(out.getvalue())["level"] == level
