"""The daemon from its arguments: the configuration read, and run."""

from __future__ import annotations

import argparse
import os
import sys
from functools import partial
from pathlib import Path

from supervisor.configuration import load
from supervisor.core.errors import SupervisorError

from .exits import Exit
from .running import run


def start(arguments: list[str] | None = None) -> int:
    """Read the configuration and run; gives the exit code."""
    parser = argparse.ArgumentParser(prog="python -m supervisor.daemon")
    parser.add_argument("--config", metavar="PATH", help="read this file, and no other")
    parser.add_argument("--tcp", metavar="PORT", help="listen on 127.0.0.1 too, with a token")
    given = parser.parse_args(arguments)
    flags = {} if given.tcp is None else {"daemon.tcp_port": given.tcp}
    read = partial(load, cwd=Path.cwd(), environ=os.environ, flags=flags, path=given.config)
    try:
        configuration = read()
    except SupervisorError as error:
        sys.stderr.write(f"{error}\n")
        return Exit.MISCONFIGURED
    return run(configuration, load=read)
