from collections import deque

import pytest
import trio

from actors.testing import SimulatorBroken, VirtualClock, simulate
from actors.testing._trio_internals import NAMES, SIGNATURES, check_trio_version


def test_the_installed_trio_is_known() -> None:
    check_trio_version()


@pytest.mark.parametrize("name", [*NAMES, *SIGNATURES])
def test_a_missing_private_name_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(f"trio.{name}")

    with pytest.raises(SimulatorBroken) as caught:
        check_trio_version()

    assert caught.value.name == f"trio.{name}"
    assert f"trio {trio.__version__} no longer has trio.{name}" in str(caught.value)
    assert "adapt actors/testing/_trio_internals.py" in caught.value.hint


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_function_with_other_parameters_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"trio.{name}", lambda other: other)

    with pytest.raises(SimulatorBroken, match=name):
        check_trio_version()


def test_simulate_checks_trio_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("trio._threads._send_message_to_trio")

    with pytest.raises(SimulatorBroken):
        simulate(trio.lowlevel.checkpoint)


def test_a_virtual_clock_checks_trio_when_created(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("trio._core._run.Deadlines.next_deadline")

    with pytest.raises(SimulatorBroken):
        VirtualClock()


def test_a_loop_with_another_run_queue_is_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    def put_in_vain(_loop: object, _choose: object) -> deque[object]:
        return deque()

    monkeypatch.setattr("actors.testing._trio_internals.Loop.install_scheduler", put_in_vain)

    with pytest.raises(SimulatorBroken, match=r"Runner\.runq"):
        simulate(trio.lowlevel.checkpoint)
