"""Reload of the configuration: agents and settings apply at once, the rest at the next start."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

import attrs

from supervisor.api.operation import Operation, operation
from supervisor.api.params import OperationCall
from supervisor.configuration import AgentCatalog, Configuration, DaemonSettings, make_agents
from supervisor.core.errors import ConfigError, SupervisorError
from supervisor.handles.supervisor import Supervisor
from supervisor.sessions.maintenance_reports import Reloaded

from .descriptors import within_descriptors
from .logging_ import set_level
from .signals import DaemonSignals
from .systemd import Notifier

logger = logging.getLogger("supervisor.daemon")

Load: TypeAlias = Callable[[], Configuration]
# Daemon settings that apply at once.
_RELOADABLE: Final = frozenset({"log_level"})


class Reloader:
    """Reloads the configuration on request."""

    def __init__(
        self,
        sup: Supervisor,
        configuration: Configuration,
        load: Load | None,
        environ: Mapping[str, str],
        agent_catalog: AgentCatalog,
    ) -> None:
        self._sup = sup
        self._configuration = configuration
        self._load = load
        self._environ = environ
        self._agent_catalog = agent_catalog

    async def run(self, signals: DaemonSignals, notifier: Notifier, status: str) -> None:
        """Reload on each request until cancelled; an invalid configuration changes nothing."""
        while True:
            await signals.wait_to_reload()
            notifier.reloading()
            try:
                await self.reload()
            except SupervisorError as error:
                logger.error("configuration not reloaded: %s", error)  # noqa: TRY400 - the text is complete
            notifier.ready(status)

    async def reload(self) -> Reloaded:
        """Load and apply the configuration and return the changes.

        Raise `ConfigError` if the configuration is invalid; nothing changes then.
        """
        wanted = self._configuration if self._load is None else self._load()
        agents = make_agents(wanted, environ=self._environ)
        before = self._configuration.agents
        self._agent_catalog.replace(wanted.agents)
        try:
            changes = await self._sup.reload(
                agents=agents, settings=within_descriptors(wanted.settings)
            )
        except SupervisorError:
            self._agent_catalog.replace(before)
            raise
        set_level(wanted.daemon.log_level)
        changes = self._with_daemon_settings(changes, wanted.daemon)
        self._configuration = attrs.evolve(
            wanted, daemon=self._merged_daemon_settings(wanted.daemon)
        )
        logger.info(
            "configuration reloaded",
            extra={
                "agents_added": ",".join(changes.added) or None,
                "agents_changed": ",".join(changes.changed) or None,
                "agents_removed": ",".join(changes.removed) or None,
                "settings": ",".join(changes.settings) or None,
            },
        )
        if changes.fixed:
            logger.warning("restart needed to apply: %s", ", ".join(changes.fixed))
        return changes

    def operation(self) -> Operation:
        """Return the HTTP operation that reloads and replies with the changes or the error."""

        async def reload(call: OperationCall) -> Reloaded:  # noqa: ARG001 - it has no parameters
            """Reload the configuration and apply its agents and settings.

            Running sessions are not changed. The response lists the changes, and under `fixed` the
            settings that need a restart. An invalid configuration changes nothing.
            """
            return await self.reload()

        return operation("POST", "/v1/reload", raises=(ConfigError,))(reload)

    def _with_daemon_settings(self, changes: Reloaded, wanted: DaemonSettings) -> Reloaded:
        """Add the changed daemon settings to the supervisor's changes."""
        changed = [
            field.name
            for field in attrs.fields(DaemonSettings)
            if getattr(self._configuration.daemon, field.name) != getattr(wanted, field.name)
        ]
        applied = tuple(f"daemon.{name}" for name in changed if name in _RELOADABLE)
        fixed = tuple(f"daemon.{name}" for name in changed if name not in _RELOADABLE)
        return attrs.evolve(
            changes, settings=changes.settings + applied, fixed=changes.fixed + fixed
        )

    def _merged_daemon_settings(self, wanted: DaemonSettings) -> DaemonSettings:
        applied = {name: getattr(wanted, name) for name in _RELOADABLE}
        return attrs.evolve(self._configuration.daemon, **applied)
