"""What the tests of any trio program need: seeded schedules, virtual time, and patience.

    simulate(main, seed=7)                  one run, one task per tick; same seed, same trace
    explore(main, seeds=range(1_000))       many runs; answers with the seeds that failed
    await settle()                          until every other task is blocked
    trio.run(main, clock=VirtualClock())    time-outs cost no time, deadlocks are said aloud

    probe = await Probe.start(system)       an actor that keeps what it is told

Only `Probe` needs the rest of `actors`; nothing that is shipped to run imports any of it.
"""

from ._clock import VirtualClock
from ._errors import Deadlock, Livelock, SimulationError, SimulatorBroken
from ._explore import FailingSeed, explore
from ._probe import Probe
from ._schedule import Step
from ._settle import settle
from ._simulate import simulate

__all__ = [
    "Deadlock",
    "FailingSeed",
    "Livelock",
    "Probe",
    "SimulationError",
    "SimulatorBroken",
    "Step",
    "VirtualClock",
    "explore",
    "settle",
    "simulate",
]
