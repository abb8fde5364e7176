"""The environment that an agent inherits."""

from __future__ import annotations

import os

import pytest

from supervisor.drivers.process.contained import ContainedProcesses
from supervisor.drivers.process.environment import MARKER_VARIABLE, agent_environment
from supervisor.drivers.process.processes import Launch
from tests.support.process_programs import output_of

OURS = {
    "PATH": "/bin",
    "HOME": "/home/me",
    "LC_ALL": "C.UTF-8",
    "XDG_CONFIG_HOME": "/config",
    "SSL_CERT_FILE": "/certificates",
    "https_proxy": "http://proxy",
}
SECRETS = {
    "UNDERSTUDY_TOKEN": "t",
    MARKER_VARIABLE: "another's",
    "OPENAI_API_KEY": "k",
    "AWS_SECRET_ACCESS_KEY": "k",
    "SSH_AUTH_SOCK": "/socket",
    "LD_PRELOAD": "/library",
    "PYTHONPATH": "/code",
    "PATH_TO_SECRETS": "/secrets",
    "LC": "nearly",
}


@pytest.fixture
def _known_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        monkeypatch.delenv(name)
    for name, value in {**OURS, **SECRETS}.items():
        monkeypatch.setenv(name, value)


@pytest.mark.usefixtures("_known_environment")
def test_an_agent_inherits_listed_variables_and_no_secret() -> None:
    assert agent_environment({}) == OURS


@pytest.mark.usefixtures("_known_environment")
def test_variables_of_the_agent_override_inherited_variables() -> None:
    given = {"PATH": "/opt/bin", "OPENAI_API_KEY": "its own"}

    assert agent_environment(given) == {**OURS, **given}


@pytest.mark.usefixtures("_known_environment")
async def test_the_agent_sees_the_environment_that_was_built(
    processes: ContainedProcesses,
) -> None:
    os.environ.pop("LD_PRELOAD")  # the library does not exist, and the guardian must start
    environment = agent_environment({"TASK": "tests"})
    launch = Launch(("/usr/bin/env",), environment)

    said = await output_of(processes, launch)

    seen = dict(line.split("=", 1) for line in said.splitlines())
    assert seen.pop(MARKER_VARIABLE) != "another's"
    assert seen == environment
