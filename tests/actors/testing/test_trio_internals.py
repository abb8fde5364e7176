from collections import deque

import pytest
import trio

from actors.testing import SimulatorBroken, VirtualClock, simulate
from actors.testing._trio_internals import NAMES, SIGNATURES, check


def test_the_installed_trio_is_known() -> None:
    check()


@pytest.mark.parametrize("name", [*NAMES, *SIGNATURES])
def test_a_name_that_is_gone_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(f"trio.{name}")

    with pytest.raises(SimulatorBroken) as caught:
        check()

    assert caught.value.name == f"trio.{name}"
    assert f"trio {trio.__version__} no longer has trio.{name}" in str(caught.value)
    assert "mend actors/testing/_trio_internals.py" in caught.value.hint


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_function_with_other_parameters_is_named(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(f"trio.{name}", lambda other: other)

    with pytest.raises(SimulatorBroken, match=name):
        check()


def test_simulate_looks_before_it_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("trio._threads._send_message_to_trio")

    with pytest.raises(SimulatorBroken):
        simulate(trio.lowlevel.checkpoint)


def test_a_virtual_clock_looks_when_it_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr("trio._core._run.Deadlines.next_deadline")

    with pytest.raises(SimulatorBroken):
        VirtualClock()


def test_a_loop_that_takes_its_tasks_elsewhere_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def put_in_vain(_loop: object, _choose: object) -> deque[object]:
        return deque()

    monkeypatch.setattr("actors.testing._trio_internals.Loop.let_out_one_at_a_time", put_in_vain)

    with pytest.raises(SimulatorBroken, match=r"Runner\.runq"):
        simulate(trio.lowlevel.checkpoint)
