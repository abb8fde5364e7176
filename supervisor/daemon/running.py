"""The daemon as a process: its log, its descriptors, its exit code."""

from __future__ import annotations

import logging
import os
from collections.abc import Awaitable, Callable, Mapping
from functools import partial

import trio

from supervisor.configuration import Configuration
from supervisor.core.errors import ConfigError, SupervisorError

from .exits import Exit
from .reloading import Load
from .serving import serve
from .system.descriptors import make_room
from .system.orders import Orders
from .telling.logs import Cover, logging_to, standard_error

logger = logging.getLogger("supervisor.daemon")


def run(
    configuration: Configuration,
    *,
    load: Load | None = None,
    environ: Mapping[str, str] | None = None,
) -> int:
    """Run the daemon until a signal ends it; gives the exit code, and has said why.

    `load` reads the configuration again, for HUP. To be called in the main thread.
    """
    environ = os.environ if environ is None else environ
    daemon, cover = configuration.daemon, Cover()
    with logging_to(
        standard_error(),
        level=daemon.log_level,
        form=daemon.log_format,
        environ=environ,
        cover=cover,
    ) as logs:

        def end_process(code: int) -> None:
            logs.flush()
            os._exit(code)

        return _exit_code(
            configuration,
            partial(
                serve,
                configuration,
                load=load,
                environ=environ,
                cover=cover,
                orders=Orders(end_process=end_process),
                end_process=end_process,
            ),
        )


def _exit_code(configuration: Configuration, work: Callable[[], Awaitable[Exit]]) -> int:
    """Have the work done; how it ended."""
    try:
        make_room(
            connections=configuration.daemon.max_connections,
            agents=configuration.settings.max_agent_processes,
        )
        return trio.run(work)
    except SupervisorError as error:
        logger.error("%s", error)  # noqa: TRY400 - it says all
        return Exit.MISCONFIGURED if isinstance(error, ConfigError) else Exit.FAILED
    except Exception:
        logger.exception("the daemon has failed")
        return Exit.FAILED
