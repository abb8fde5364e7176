"""The daemon as a process: arguments, configuration, log, descriptor limit, exit code."""

from __future__ import annotations

import argparse
import logging
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Final, TextIO

import trio

from supervisor.configuration import Configuration, DaemonSettings, load
from supervisor.core.errors import ConfigError, SupervisorError

from .descriptors import raise_descriptor_limit
from .exit_watchdog import THREAD_PREFIX, ExitWatchdog
from .log_file import CappedLog, is_log_file
from .logging_ import SecretFilter, logging_to, standard_error
from .process_note import note_exit
from .reload import Load
from .service import ExitCode, serve

logger = logging.getLogger("supervisor.daemon")

# For the log lines of a failed thread.
_FAILED_THREAD_SECONDS: Final = 1.0


def run(
    configuration: Configuration,
    *,
    load: Load | None = None,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Run the daemon until a signal ends it; log any error and return the exit code.

    `load` reads the configuration again on SIGHUP. Call this in the main thread.
    """
    environ = os.environ if environ is None else environ
    daemon, secret_filter = configuration.daemon, SecretFilter()
    with logging_to(
        _log_stream(daemon),
        level=daemon.log_level,
        form=daemon.log_format,
        show_content=daemon.log_content,
        environ=environ,
        secret_filter=secret_filter,
    ) as logs:

        def end_process(code: int) -> None:
            try:
                note_exit(daemon.socket, code)
                logs.flush()
            finally:
                os._exit(code)

        with ExitWatchdog(end_process) as exit_watchdog, _failing_threads_end(exit_watchdog):
            code = _exit_code(
                configuration,
                partial(
                    serve,
                    configuration,
                    load=load,
                    environ=environ,
                    secret_filter=secret_filter,
                    exit_watchdog=exit_watchdog,
                ),
            )
            note_exit(daemon.socket, code)
            return code


def _log_stream(daemon: DaemonSettings) -> TextIO | CappedLog:
    """Return standard error, capped if it is the log file of a detached daemon."""
    stream, path = standard_error(), Path(daemon.log_file)
    return CappedLog(stream, path) if is_log_file(stream, path) else stream


@contextmanager
def _failing_threads_end(exit_watchdog: ExitWatchdog) -> Iterator[None]:
    """End the process soon after an exception has ended one of our threads.

    Threads of agents may fail as they like.
    """
    before = threading.excepthook

    def on_exception(failed: threading.ExceptHookArgs) -> None:
        name = "" if failed.thread is None else failed.thread.name
        if name.startswith(THREAD_PREFIX):
            line = f"exiting because the thread {name} failed"
            exit_watchdog.exit_within(_FAILED_THREAD_SECONDS, ExitCode.FAILED, line)
        before(failed)

    threading.excepthook = on_exception
    try:
        yield
    finally:
        threading.excepthook = before


def _exit_code(configuration: Configuration, work: Callable[[], Awaitable[ExitCode]]) -> int:
    """Run `work` under trio and return the exit code; errors are logged."""
    try:
        raise_descriptor_limit(
            connections=configuration.daemon.max_connections,
            agents=configuration.settings.max_agent_processes,
        )
        return trio.run(work)
    except SupervisorError as error:
        logger.error("%s", error)  # noqa: TRY400 - the text is complete, a traceback adds nothing
        return ExitCode.MISCONFIGURED if isinstance(error, ConfigError) else ExitCode.FAILED
    except (
        BaseException
    ) as error:  # an agent may even raise SystemExit, whose code means nothing here
        known = _known_errors(error)
        for line in known:
            logger.error("%s", line)  # noqa: TRY400 - see above
        if not known:
            logger.exception("daemon failed")
        return ExitCode.FAILED


def _known_errors(error: BaseException) -> list[str]:
    """Return the texts of the errors in a group; empty if one of them needs its traceback."""
    if isinstance(error, SupervisorError):
        return [str(error)]
    if not isinstance(error, BaseExceptionGroup):
        return []
    inside = [_known_errors(one) for one in error.exceptions]
    return list(dict.fromkeys(chain.from_iterable(inside))) if all(inside) else []


def start(arguments: list[str] | None = None) -> int:
    """Load the configuration, run the daemon, and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m supervisor.daemon")
    parser.add_argument("--config", metavar="PATH", help="read only this configuration file")
    parser.add_argument("--tcp", metavar="PORT", help="also listen on 127.0.0.1, with a token")
    options = parser.parse_args(arguments)
    flags = {} if options.tcp is None else {"daemon.tcp_port": options.tcp}
    read = partial(load, cwd=Path.cwd(), environ=os.environ, flags=flags, path=options.config)
    try:
        configuration = read()
    except SupervisorError as error:
        sys.stderr.write(f"{error}\n")
        return ExitCode.MISCONFIGURED
    return run(configuration, load=read)
