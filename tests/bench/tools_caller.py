"""A program that calls the tools of a session, over the bridge or over HTTP; run with -I -S.

The first line of its input is JSON: the way, the path of the socket, the token and the path of the
bridge. Each further line is a tool and its arguments. It answers each with a line: the seconds that
the call took, when its answer was there by the monotonic clock, and the answer.
"""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from typing import Any


class OverBridge:
    """A client of the bridge, as an agent is one."""

    def __init__(self, path: str, token: str, bridge: str) -> None:
        environ = {"UNDERSTUDY_TOOLS_SOCKET": path, "UNDERSTUDY_SESSION_TOKEN": token}
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", bridge],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
        )

    def ask(self, body: bytes) -> bytes:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(body + b"\n")
        self._process.stdin.flush()
        return self._process.stdout.readline()


class OverHttp:
    """A client over HTTP on one connection, that does as little as it can."""

    def __init__(self, path: str, token: str, _: str) -> None:
        self._connection = socket.socket(socket.AF_UNIX)
        self._connection.connect(path)
        self._head = (
            "POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            f"authorization: Bearer {token}\r\ncontent-length: "
        ).encode()

    def ask(self, body: bytes) -> bytes:
        self._connection.sendall(self._head + b"%d\r\n\r\n" % len(body) + body)
        read = b""
        while b"\r\n\r\n" not in read:
            read += self._read()
        head, _, answer = read.partition(b"\r\n\r\n")
        size = int(head.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        while len(answer) < size:
            answer += self._read()
        return answer

    def _read(self) -> bytes:
        read = self._connection.recv(1 << 16)
        assert read, "the server has hung up"
        return read


def main() -> None:
    way, path, token, bridge = json.loads(sys.stdin.readline())
    client = (OverBridge if way == "bridge" else OverHttp)(path, token, bridge)
    for number, line in enumerate(sys.stdin):
        tool, arguments = json.loads(line)
        params: dict[str, Any] = {"name": tool, "arguments": arguments}
        body = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}
        whole = json.dumps(body).encode()
        begun = time.perf_counter()
        answer = client.ask(whole)
        ended = time.perf_counter()
        print(json.dumps([ended - begun, ended, json.loads(answer)]), flush=True)


if __name__ == "__main__":
    main()
