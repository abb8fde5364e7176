"""Backups over HTTP: always in the daemon's folder, under a checked or generated name."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import httpx
import pytest

import supervisor
from supervisor import Supervisor
from supervisor.api import backup_folder
from supervisor.api.app import make_app
from supervisor.api.backup_folder import BackupFolder
from supervisor.api.drain import DrainState
from supervisor.http_server.gate import TcpGate, UnixGate

TOKEN = "0123456789abcdefghijklmnopqrstuvwxyz"  # noqa: S105 - of no gate but this


@pytest.fixture
async def sup(tmp_path: Path) -> AsyncIterator[Supervisor]:
    async with supervisor.open(tmp_path / "state.db") as opened:
        yield opened


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "backups"


@pytest.fixture
async def client(
    sup: Supervisor, drain_state: DrainState, folder: Path
) -> AsyncIterator[httpx.AsyncClient]:
    gate = UnixGate(own_uid=None)
    app = make_app(sup, gate=gate, drain_state=drain_state, backup_folder=folder)
    async with httpx.AsyncClient(
        transport=httpx.ASGITransport(app), base_url="http://localhost"
    ) as made:
        yield made


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def make_folder(path: Path, wanted: int) -> Path:
    path.mkdir()
    path.chmod(wanted)
    return path


def left_in(folder: Path) -> set[str]:
    return {one.name for one in folder.iterdir()} if folder.exists() else set()


async def test_a_backup_gets_a_generated_name_in_the_private_folder(
    client: httpx.AsyncClient, folder: Path
) -> None:
    made = (await client.post("/v1/backup")).json()

    file = folder / made["name"]
    assert left_in(folder) == {made["name"]}
    assert (made["path"], made["bytes"]) == (str(file), file.stat().st_size)
    assert [mode(folder), mode(file)] == [0o700, 0o600]


async def test_a_backup_is_listed_downloaded_and_deleted(
    client: httpx.AsyncClient, sup: Supervisor, tmp_path: Path
) -> None:
    session = await sup.create("echo")
    made = (await client.post("/v1/backup", json={"path": "nightly.db"})).json()

    listed = (await client.get("/v1/backups")).json()
    file = await client.get("/v1/backups/nightly.db")
    head = await client.head("/v1/backups/nightly.db")
    deleted = await client.delete("/v1/backups/nightly.db")

    assert listed == {"items": [made], "next": None}
    assert int(file.headers["content-length"]) == len(file.content) == made["bytes"]
    assert (head.headers["content-length"], head.content) == (str(made["bytes"]), b"")
    (tmp_path / "copy.db").write_bytes(file.content)
    with closing(sqlite3.connect(tmp_path / "copy.db")) as copy:
        assert copy.execute("SELECT id FROM sessions").fetchall() == [(session.id,)]
    assert deleted.status_code == 204
    assert (await client.get("/v1/backups")).json()["items"] == []


@pytest.mark.parametrize(
    "path",
    [
        "/etc/cron.d/x",
        "/x.db",
        "../x.db",
        "a/b.db",
        "..",
        ".hidden",
        "",
        "-rf",
        "a\nb",
        "a\0b",
        "x" * 101,
        "state.db-wal",
        "state.db-journal",
        "state.db-shm",
        "x.unfinished",
        "ü.db",
    ],
)
async def test_a_backup_takes_no_path(
    client: httpx.AsyncClient, folder: Path, tmp_path: Path, path: str
) -> None:
    before = left_in(tmp_path)
    answer = await client.post("/v1/backup", json={"path": path})

    assert answer.status_code == 422
    assert answer.json()["paths"][0]["path"] == "$.path"
    assert "GET /v1/backups/{name}" in answer.json()["hint"]
    assert "understudy backup PATH" in answer.json()["hint"]
    assert (left_in(tmp_path), left_in(folder)) == (before, set())


async def test_a_backup_overwrites_nothing(client: httpx.AsyncClient, folder: Path) -> None:
    await client.post("/v1/backup", json={"path": "nightly.db"})
    before = (folder / "nightly.db").read_bytes()

    again = await client.post("/v1/backup", json={"path": "nightly.db"})

    assert (again.status_code, again.json()["code"]) == (422, "config_error")
    assert (folder / "nightly.db").read_bytes() == before


@pytest.mark.parametrize("method", ["GET", "DELETE"])
async def test_only_backups_in_the_folder_are_found(
    client: httpx.AsyncClient, folder: Path, tmp_path: Path, method: str
) -> None:
    make_folder(folder, 0o700)
    secret = tmp_path / "secret"
    secret.write_text("precious")
    (folder / "link.db").symlink_to(secret)
    (folder / "folder.db").mkdir()
    os.mkfifo(folder / "pipe.db")
    (folder / "x.db-wal").write_text("")

    names = ["link.db", "folder.db", "pipe.db", "x.db-wal", "none.db", "..", "%2e%2e", "a%2fb"]
    answers = [await client.request(method, f"/v1/backups/{name}") for name in names]

    assert {answer.status_code for answer in answers} == {404}
    assert secret.read_text() == "precious"
    assert (await client.get("/v1/backups")).json()["items"] == []


async def test_the_number_of_backups_is_bounded(
    client: httpx.AsyncClient, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(backup_folder, "MAX_BACKUPS", 1)
    await client.post("/v1/backup")

    answer = await client.post("/v1/backup")

    assert answer.status_code == 422
    assert "DELETE /v1/backups/{name}" in answer.json()["hint"]
    assert len(left_in(folder)) == 1


async def test_a_folder_open_to_others_is_not_used(client: httpx.AsyncClient, folder: Path) -> None:
    make_folder(folder, 0o755)

    answer = await client.post("/v1/backup")

    assert (answer.status_code, answer.json()["hint"]) == (422, f"chmod 700 {folder}")


def test_unfinished_backups_of_a_killed_daemon_are_removed(folder: Path) -> None:
    folder.mkdir()
    for name in ("a.db", "a.db.x1.unfinished", "a.db.x1.unfinished-journal"):
        (folder / name).write_text("")

    BackupFolder(folder).remove_unfinished()
    BackupFolder(folder / "none").remove_unfinished()

    assert left_in(folder) == {"a.db"}


async def test_an_import_is_served_on_the_unix_socket_only(
    sup: Supervisor, drain_state: DrainState, tmp_path: Path
) -> None:
    session = await sup.create("echo")
    (tmp_path / "x.jsonl").write_text(await session.export("jsonl"))
    app = make_app(sup, gate=TcpGate(port=8700, token=TOKEN), drain_state=drain_state)
    headers = {"authorization": f"Bearer {TOKEN}"}
    transport = httpx.ASGITransport(app)
    async with httpx.AsyncClient(
        transport=transport, base_url="http://127.0.0.1:8700", headers=headers
    ) as client:
        answer = await client.post("/v1/import", json={"path": str(tmp_path / "x.jsonl")})

    assert (answer.status_code, answer.json()["code"]) == (403, "unix_socket_only")
    assert "understudy" in answer.json()["hint"]
    assert len((await sup.list()).items) == 1
