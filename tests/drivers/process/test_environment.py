"""What of our environment reaches an agent, and that nothing else does."""

from __future__ import annotations

import os

import pytest

from supervisor.drivers.process.contained import ContainedProcesses
from supervisor.drivers.process.environment import environment_for
from supervisor.drivers.process.leftovers.marker import VARIABLE
from supervisor.drivers.process.port import Launch
from tests.drivers.process.programs import output_of

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
    VARIABLE: "another's",
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
def test_an_agent_gets_what_is_on_the_list_and_no_secret() -> None:
    assert environment_for({}) == OURS


@pytest.mark.usefixtures("_known_environment")
def test_what_is_given_for_an_agent_goes_before_what_is_ours() -> None:
    given = {"PATH": "/opt/bin", "OPENAI_API_KEY": "its own"}

    assert environment_for(given) == {**OURS, **given}


@pytest.mark.usefixtures("_known_environment")
async def test_what_was_put_together_is_what_the_agent_sees(
    processes: ContainedProcesses,
) -> None:
    os.environ.pop("LD_PRELOAD")  # there is no such library, and the guardian must be found whole
    environment = environment_for({"TASK": "tests"})
    launch = Launch(("/usr/bin/env",), environment)

    said = await output_of(processes, launch)

    seen = dict(line.split("=", 1) for line in said.splitlines())
    assert seen.pop(VARIABLE) != "another's"
    assert seen == environment
