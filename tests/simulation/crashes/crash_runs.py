"""Several runs of one program on one file: all but the last end with a crash of the store.

Rule 1: the first run is an unchanged attack, which is not aware of the file or the crash.
Rule 2: one oracle checks all runs. Answers of a crashed supervisor are ignored.
Rule 3: time continues between runs, sometimes with a jump.
"""

from __future__ import annotations

import random
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, closing, contextmanager
from itertools import count
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import attrs
import pytest
import trio

import supervisor
import supervisor.runtime
from supervisor import PythonAgent, Receipt, Record, Settings, Supervisor
from supervisor.core.tree.node import TreeNode
from supervisor.sessions import clock
from supervisor.store.codec import encode
from supervisor.store.list_filter import NO_FILTER
from supervisor.store.sqlite import lists, read
from supervisor.store.sqlite.files import open_reader
from tests.simulation import harness as sessions
from tests.simulation.harness import Harness
from tests.simulation.oracle import Oracle, SessionHistory
from tests.simulation.trees import tree_harness as trees
from tests.simulation.trees.tree_harness import TreeHarness
from tests.simulation.trees.tree_oracle import TreeOracle

from .crashing_store import CrashingStore

Attack = Callable[[], Awaitable[None]]

# A folder in memory, if there is one.
_IN_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - only a private folder inside it is used
_EPOCH: Final = 1_000_000_000.0


class _IgnoresCrashed:
    """Mixin that ignores observations of callers of a crashed supervisor."""

    is_crashed = False
    crashes = 0
    store: CrashingStore

    def count_crash(self) -> None:
        """Count a crash."""
        self.crashes += 1

    def forget_unwritten(self) -> None:
        """Forget what the file does not contain, before the next run."""

    def check(self, holds: bool, message: str) -> None:  # noqa: FBT001 - as in assert
        # A read begun outside is a task in the simulation, where threads are tasks.
        if message.endswith("are left after the exit") and self.store.is_read:
            return
        if not self.is_crashed:
            super().check(holds, message)  # type: ignore[misc] # the method of Oracle

    def record_refusal(self, text: str) -> None:
        if not self.is_crashed:
            super().record_refusal(text)  # type: ignore[misc]

    def record_receipt(self, receipt: Receipt, text: str, key: str | None) -> None:
        if not self.is_crashed:
            super().record_receipt(receipt, text, key)  # type: ignore[misc]


class CrashOracle(_IgnoresCrashed, Oracle):
    """Oracle of sessions over crashes."""


class CrashTreeOracle(_IgnoresCrashed, TreeOracle):
    """Oracle of trees over crashes."""

    def forget_unwritten(self) -> None:
        """Order siblings by creation: resumes of earlier runs do not change their age."""
        if self.nodes:
            self.hook_faults = None  # the hooks of the crashed run are gone
        for node in self.nodes.values():
            ordered = [one for one in self.nodes if one in node.children]
            node.children = {one: node.children[one] for one in ordered}

    def check_news_read(self, session_id: str, kind: str, child: str) -> None:
        """Skip the check: an agent reads a notification again if its reading was not written."""

    def _check_notification(self, history: SessionHistory, record: Record) -> None:
        """Accept one notification for outcome and end if a crash came between."""
        child = self.nodes.get(record.body["child"])
        if child is not None and record.kind == "child_ended" and self.crashes:
            says_both = record.body["reason"] is not None and record.body["outcome"] is not None
            at = len(child.told)
            if says_both and child.became[at : at + 2] == ["done", "over"]:
                del child.became[at]
        super()._check_notification(history, record)

    def _check_tree_node(self, member: TreeNode) -> None:
        """Skip the counts of a deleted session."""
        node = self.nodes.get(member.id)
        if node is None or not node.is_deleted:
            super()._check_tree_node(member)


class SlowTreeHarness(TreeHarness):
    """Tree harness on a file: reads take time, in which sessions may change."""

    async def _compare_what_is_shown(self) -> None:
        violations = [*self.oracle.violations]
        before = sum(len(history.records) for history in self.oracle.histories.values())
        await super()._compare_what_is_shown()
        if before != sum(len(history.records) for history in self.oracle.histories.values()):
            self.oracle.violations[:] = violations


@attrs.define(eq=False)
class CrashRuns:
    """The runs on one file."""

    path: Path
    # Number of writes before the crash of each run; None for the last run.
    crashes: list[int | None]
    oracle: Any = None
    agents: list[PythonAgent] = attrs.Factory(list)
    settings: Settings | None = None
    store: CrashingStore | None = None
    scope: trio.CancelScope = attrs.Factory(trio.CancelScope)
    down_seconds: float = 0.0
    was_crashed: bool = False

    def make_store(self, oracle: Any) -> CrashingStore:  # noqa: ANN401 - an oracle of this module
        self.oracle = oracle
        oracle.forget_unwritten()
        crash_after = self.crashes.pop(0)
        self.store = CrashingStore(self.path, oracle, crash_after=crash_after, on_crash=self.crash)
        oracle.store = self.store
        return self.store

    def crash(self) -> None:
        self.was_crashed = True
        self.oracle.is_crashed = True
        self.oracle.count_crash()
        self.scope.cancel()

    def open(
        self,
        real: Callable[..., AbstractAsyncContextManager[Supervisor]],
        agents: list[PythonAgent],
        settings: Settings | None,
    ) -> AbstractAsyncContextManager[Supervisor]:
        self.agents, self.settings = agents, settings
        return real(agents=agents, settings=settings)

    async def run(self, attack: Attack) -> bool:
        """Run an attack; return True if it ended without a crash."""
        self.was_crashed = False
        self.scope = trio.CancelScope()
        with self.scope:
            await attack()
        assert self.store is not None
        self.store.close_now()
        self.oracle.is_crashed = False
        if self.was_crashed:
            self.oracle.raise_violations()
            self.oracle.executing.clear()
        self.compare()
        return not self.was_crashed

    def compare(self) -> None:
        """Check that the file equals the commits reported to the oracle, byte by byte."""
        with closing(open_reader(self.path)) as connection:
            stored, _ = lists.page_of_rows(connection, 0, NO_FILTER)
            ids = {one.row.id for one in stored}
            histories = {
                one: history for one, history in self.oracle.histories.items() if history.records
            }
            assert ids == histories.keys(), f"the file has {ids}, expected {histories.keys()}"
            for one in stored:
                history = histories[one.row.id]
                records = read.records(connection, one.row.id, 0, None, None)
                assert [*map(encode, records)] == [*map(encode, history.records)]
                assert one.row == history.row, f"{one.row.id}: its row in the file differs"
                assert one.epoch == history.epoch, (
                    f"{one.row.id}: epoch {one.epoch}, {history.epoch}"
                )

    # The next runs ------------------------------------------------------------------------

    @asynccontextmanager
    async def reopen(self) -> AsyncIterator[Supervisor]:
        """Open a supervisor on the file of the previous run."""
        store = self.make_store(self.oracle)
        now = _EPOCH + trio.current_time() + self.down_seconds
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(supervisor.runtime, "MemoryStore", lambda: store)
            patch.setattr(clock, "_VIRTUAL_EPOCH", now)
            async with supervisor.open(agents=self.agents, settings=self.settings) as sup:
                yield sup

    async def recover_sessions(self) -> None:
        """Continue an attack on sessions after a crash."""
        async with self.reopen() as sup:
            harness = self._harness(sup)
            for info in (await sup.list()).items:
                if not info.archived and random.random() < 0.5:
                    await harness.send(sup.session(info.id), f"again {info.id} say tool")
            await harness.check_when_quiet()
        self.oracle.close()

    async def recover_trees(self) -> None:
        """Continue an attack on trees after a crash until it settles."""
        async with self.reopen() as sup:
            self.oracle.inspect(sup._parts)
            harness = self._harness(sup)
            tree_harness = SlowTreeHarness(harness, self.oracle, harness.scripted, sup)  # type: ignore[arg-type]
            if self.crashes or random.random() < 0.5:
                await tree_harness.act_repeatedly(
                    3, "spawn", "stop", "resume", "say", "delete", "interrupt"
                )
            await tree_harness.wait_until_settled()
        self.oracle.close()

    def _harness(self, sup: Supervisor) -> Harness:
        scripted: Any = self.agents[0].function.__self__  # type: ignore[attr-defined]
        # Texts are unique over all runs.
        numbers = count(1_000 * (1 + self.oracle.crashes))
        return Harness(self.oracle, self.store, scripted, sup, numbers)  # type: ignore[arg-type]


@contextmanager
def _replaced_by(runs: CrashRuns) -> Iterator[None]:
    real = supervisor.open

    def open_recorded(
        *, agents: list[PythonAgent], settings: Settings | None = None
    ) -> AbstractAsyncContextManager[Supervisor]:
        return runs.open(real, agents, settings)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sessions, "ObservedStore", runs.make_store)
        patch.setattr(sessions, "Oracle", CrashOracle)
        patch.setattr(trees, "TreeOracle", CrashTreeOracle)
        patch.setattr(trees, "TreeHarness", SlowTreeHarness)
        patch.setattr(supervisor, "open", open_recorded)
        patch.setattr(clock, "_VIRTUAL_EPOCH", _EPOCH)
        yield


async def run_with_crashes(attack: Attack, max_writes: int) -> None:
    """Run an attack with one or two crashes of the store, then recover in a last run."""
    crash_count = random.choice((1, 1, 2))
    crashes = [random.randrange(max_writes) for _ in range(crash_count)]
    in_memory = _IN_MEMORY if _IN_MEMORY.is_dir() else None
    with TemporaryDirectory(dir=in_memory) as folder:
        runs = CrashRuns(Path(folder) / "state.db", [*crashes, None])
        with _replaced_by(runs):
            if await runs.run(attack):
                runs.crashes = [None]
            recover = runs.recover_sessions
            if isinstance(runs.oracle, TreeOracle):
                recover = runs.recover_trees
            while runs.crashes:
                runs.down_seconds = random.choice((0.0, 0.0, 2.0, 100.0))
                await runs.run(recover)
