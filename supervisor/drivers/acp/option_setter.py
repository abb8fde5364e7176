"""Setting of the options that the session wants of an ACP agent.

Rule 1: options are set while no prompt runs; those that come in meanwhile, before the next prompt.
Rule 2: every wait is bounded. An option that is not set is reported, and the session goes on.
Rule 3: nothing is set that is current already, and nothing that the agent does not offer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

import trio

from supervisor.core import agent_events
from supervisor.core.agent_options import (
    AgentOption,
    OptionValue,
    by_precedence,
    find_option,
    fitting_value,
)
from supervisor.core.errors import InvalidOverride
from supervisor.drivers.port import DriverContext
from supervisor.json_rpc.rpc_connection import CallTimeout, ConnectionLost, RpcConnection
from supervisor.json_rpc.rpc_messages import RpcError, Unsendable

from .client import AcpClient
from .turn_result import describe_rpc_error

# Time for the agent to set one option.
OPTION_SECONDS: Final = 10.0


class OptionSetter:
    """The wanted options of one agent that are not set yet."""

    def __init__(
        self,
        context: DriverContext,
        connection: RpcConnection,
        client: AcpClient,
        *,
        session_id: str,
        wanted: Mapping[str, OptionValue],
    ) -> None:
        self._context = context
        self._connection = connection
        self._client = client
        self._session_id = session_id
        self._wanted = dict(wanted)
        # So that a prompt waits for options that are being set.
        self._lock = trio.Lock()

    @property
    def has_wanted(self) -> bool:
        """True if options wait to be set."""
        return bool(self._wanted)

    def want(self, options: Mapping[str, OptionValue]) -> None:
        """Set these options with the next `apply`."""
        self._wanted |= options

    async def apply(self) -> None:
        """Set the wanted options, each within a bound; report values and failures.

        An option whose setting is cancelled stays wanted. Raise `ConnectionLost`.
        """
        async with self._lock:
            if not self._wanted:
                return
            try:
                while self._wanted:
                    name = by_precedence(self._wanted)[0]
                    value = self._wanted[name]
                    await self._apply_one(name, value)
                    if self._wanted.get(name) == value:  # not replaced meanwhile
                        del self._wanted[name]
            finally:
                self._client.report_choices()

    async def apply_between_turns(self, on_lost: Callable[[str], None]) -> None:
        """Set the wanted options as `apply` does; call `on_lost` if the connection is lost."""
        try:
            await self.apply()
        except ConnectionLost as error:
            on_lost(error.reason)

    async def _apply_one(self, name: str, value: OptionValue) -> None:
        option = find_option(self._client.offered_options(), name)
        if option is None:
            return  # the session has warned of it
        try:
            value = fitting_value(option, value)
            if value != option.current:
                await self._set(option, value)
        except InvalidOverride:
            return  # as above
        except CallTimeout as error:
            # The agent is unlikely to answer for the others, which would each wait as long.
            unset, self._wanted = self._wanted, {}
            for wanted in unset.items():
                self._report_refused(*wanted, str(error))
        except (RpcError, Unsendable) as error:
            problem = describe_rpc_error(error) if isinstance(error, RpcError) else str(error)
            self._report_refused(option.id, value, problem)

    def _report_refused(self, option: str, value: OptionValue, problem: str) -> None:
        event = agent_events.OptionRefused(
            option=option, value=value, problem=problem, **self._context.stamp()
        )
        self._context.report_eventually(event)

    async def _set(self, option: AgentOption, value: OptionValue) -> None:
        status = self._client.updates.status
        if all(item.get("id") != option.id for item in status.config_options):
            await self._call("session/set_mode", {"modeId": value})
            self._client.set_mode(str(value))
            return
        chosen: dict[str, Any] = {"configId": option.id, "value": value}
        if isinstance(value, bool):
            chosen["type"] = "boolean"
        answer = await self._call("session/set_config_option", chosen)
        self._client.set_option(option.id, value, answer)

    async def _call(self, method: str, chosen: Mapping[str, Any]) -> object:
        params = {"sessionId": self._session_id, **chosen}
        return await self._connection.call(method, params, timeout_seconds=OPTION_SECONDS)
