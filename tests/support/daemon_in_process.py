"""A daemon in this process, in a home of its own."""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path

import attrs
import trio

from supervisor import Supervisor
from supervisor.client import RemoteSupervisor, connect
from supervisor.configuration import Configuration, load
from supervisor.daemon import DaemonSignals, ExitCode, serve
from supervisor.daemon.exit_watchdog import ExitWatchdog
from supervisor.daemon.logging_ import SecretFilter
from supervisor.runtime import MakeToolbox


@attrs.define
class Home:
    """Where everything lies, and the file that says how it is to be."""

    folder: Path

    @property
    def environ(self) -> dict[str, str]:
        return {
            "HOME": str(self.folder),
            "XDG_RUNTIME_DIR": str(self.folder),
            "XDG_CONFIG_DIRS": str(self.folder / "etc"),
        }

    @property
    def file(self) -> Path:
        return self.folder / ".config" / "understudy" / "understudy.toml"

    def write(self, text: str) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        # In one step, for a daemon may read it at any time.
        new = self.file.with_suffix(".new")
        new.write_text(text)
        new.replace(self.file)

    def load(self) -> Configuration:
        return load(cwd=None, environ=self.environ)

    @property
    def socket(self) -> str:
        """Where the daemon listens, whatever is in the file."""
        return str(self.folder / "understudy" / "understudy.sock")

    @property
    def has_socket(self) -> bool:
        return Path(self.socket).exists()

    def everything(self) -> list[Path]:
        """All that a daemon makes, and the folders around it."""
        folders = [Path(self.socket).parent, Path(self.load().daemon.state_folder)]
        return [*folders, *(path for folder in folders for path in folder.iterdir())]


@contextmanager
def temporary_home(text: str) -> Iterator[Home]:
    """Yield a home with this configuration; its name is short, as the path of a socket must be."""
    with tempfile.TemporaryDirectory(prefix="us-") as folder:
        home = Home(Path(folder))
        home.write(text)
        yield home


@attrs.define
class Running:
    """A daemon that runs; `code` is there once it has left."""

    home: Home
    orders: DaemonSignals
    sup: Supervisor
    remote: RemoteSupervisor
    code: ExitCode | None = None


@asynccontextmanager
async def running(
    home: Home,
    *,
    environ: Mapping[str, str] | None = None,
    secret_filter: SecretFilter | None = None,
    make_toolbox: MakeToolbox | None = None,
    seconds: float = 30.0,
) -> AsyncIterator[Running]:
    """Run a daemon and yield it with a client; it exits with the block, within this time."""
    ended: list[int] = []
    orders = DaemonSignals()
    codes: list[ExitCode] = []
    with ExitWatchdog(ended.append) as exit_watchdog:
        work = partial(
            serve,
            home.load(),
            load=home.load,
            environ={**home.environ, **(environ or {})},
            signals=orders,
            secret_filter=secret_filter,
            exit_watchdog=exit_watchdog,
            make_toolbox=make_toolbox,
        )

        async def run(task_status: trio.TaskStatus[Supervisor]) -> None:
            codes.append(await work(task_status=task_status))

        async with trio.open_nursery() as nursery:
            with trio.fail_after(seconds):
                sup = await nursery.start(run)
                async with connect(home.socket) as remote:
                    made = Running(home, orders, sup, remote)
                    yield made
                if orders.urgency == "none":
                    orders.leave()
                while not codes:  # noqa: ASYNC110 - its end is bounded by the time above
                    await trio.sleep(0.005)
            made.code = codes[0]
    assert ended == []
