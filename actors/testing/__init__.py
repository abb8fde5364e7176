"""Tools for tests of any trio program: seeded schedules, virtual time, waits for quiet.

    simulate(main, seed=7)                  one run, one task per tick; same seed, same trace
    explore(main, seeds=range(1_000))       many runs; returns the seeds that failed
    await settle()                          wait until every other task is blocked
    trio.run(main, clock=VirtualClock())    time-outs cost no time, deadlocks are reported

    probe = await Probe.start(system)       an actor that keeps the messages it receives

Only `Probe` needs the rest of `actors`; no production code imports any of it.
"""

from ._clock import VirtualClock
from ._errors import Deadlock, Livelock, OutOfTime, SimulationError, SimulatorBroken
from ._explore import FailingSeed, explore
from ._probe import Probe
from ._schedule import Step
from ._settle import settle
from ._simulate import simulate

__all__ = [
    "Deadlock",
    "FailingSeed",
    "Livelock",
    "OutOfTime",
    "Probe",
    "SimulationError",
    "SimulatorBroken",
    "Step",
    "VirtualClock",
    "explore",
    "settle",
    "simulate",
]
