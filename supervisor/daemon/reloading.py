"""The configuration, read again: agents and settings are taken over, the rest waits for a start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import attrs

from supervisor.api.describing.operations import Call, Operation, operation
from supervisor.configuration import Configuration, DaemonSettings, make_agents
from supervisor.core.errors import ConfigError, SupervisorError
from supervisor.sessions.house.reloading import Reloaded
from supervisor.sessions.surface.supervisor import Supervisor

from .system.notify import Notifier
from .system.orders import Orders
from .telling.logs import set_level

logger = logging.getLogger("supervisor.daemon")

Load: TypeAlias = Callable[[], Configuration]
# Of the daemon's own settings, what is taken over at once.
_TAKEN_OVER: Final = frozenset({"log_level"})


class Reloading:
    """Reads the configuration whenever it is told to."""

    def __init__(
        self,
        sup: Supervisor,
        configuration: Configuration,
        load: Load | None,
        environ: Mapping[str, str],
    ) -> None:
        self._sup = sup
        self._has = configuration
        self._load = load
        self._environ = environ

    async def run(self, orders: Orders, notifier: Notifier, status: str) -> None:
        """Obey orders to read it again, until cancelled; a wrong one changes nothing."""
        while True:
            await orders.wait_to_reload()
            notifier.reloading()
            try:
                await self.reload()
            except SupervisorError as error:
                logger.error("the configuration is left as it was: %s", error)  # noqa: TRY400 - it says all
            notifier.ready(status)

    async def reload(self) -> Reloaded:
        """Read it, and take over what can be; raises what is wrong with it."""
        wanted = self._has if self._load is None else self._load()
        agents = make_agents(wanted, environ=self._environ)
        said = await self._sup.reload(agents=agents, settings=wanted.settings)
        set_level(wanted.daemon.log_level)
        said = self._with_our_own(said, wanted.daemon)
        self._has = attrs.evolve(wanted, daemon=self._kept(wanted.daemon))
        logger.info(
            "the configuration is taken over",
            extra={
                "agents_added": ",".join(said.added) or None,
                "agents_changed": ",".join(said.changed) or None,
                "agents_removed": ",".join(said.removed) or None,
                "settings": ",".join(said.settings) or None,
            },
        )
        if said.fixed:
            logger.warning("only a new start takes these over: %s", ", ".join(said.fixed))
        return said

    def operation(self) -> Operation:
        """The same over HTTP, where whoever asked hears what has changed, or what is wrong."""

        async def reload(call: Call) -> Reloaded:  # noqa: ARG001 - there is nothing to be said
            """Read the configuration again: agents and settings are taken over.

            No session that lives is touched. The answer says what has changed, and as `fixed` what
            only a new start takes over. A configuration that is wrong changes nothing.
            """
            return await self.reload()

        return operation("POST", "/v1/reload", raises=(ConfigError,))(reload)

    def _with_our_own(self, said: Reloaded, wanted: DaemonSettings) -> Reloaded:
        """What has changed of the supervisor, and of the process around it."""
        ours = [
            field.name
            for field in attrs.fields(DaemonSettings)
            if getattr(self._has.daemon, field.name) != getattr(wanted, field.name)
        ]
        taken = tuple(f"daemon.{name}" for name in ours if name in _TAKEN_OVER)
        fixed = tuple(f"daemon.{name}" for name in ours if name not in _TAKEN_OVER)
        return attrs.evolve(said, settings=said.settings + taken, fixed=said.fixed + fixed)

    def _kept(self, wanted: DaemonSettings) -> DaemonSettings:
        taken = {name: getattr(wanted, name) for name in _TAKEN_OVER}
        return attrs.evolve(self._has.daemon, **taken)
