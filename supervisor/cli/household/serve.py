"""`understudy serve` and `understudy reload`: the daemon."""

from __future__ import annotations

import click

from supervisor.cli.ground.options import config_option, json_option
from supervisor.core.errors import SupervisorError


@click.command()
@config_option
@json_option
def serve(*, config_path: str | None, as_json: bool) -> int:  # noqa: ARG001 - for the daemon
    """Run the daemon, which holds sessions and serves them to everybody else."""
    raise SupervisorError(
        "this version has no daemon yet", hint="`understudy run` and `chat` need none"
    )


@click.command()
@json_option
def reload(*, as_json: bool) -> int:  # noqa: ARG001 - for the daemon
    """Have the daemon read its configuration again; live sessions are not touched."""
    raise SupervisorError(
        "this version has no daemon yet", hint="`understudy run` and `chat` need none"
    )
