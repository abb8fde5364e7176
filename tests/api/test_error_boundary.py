"""What a client and the log get to know about an exception that no operation handles."""

from __future__ import annotations

import errno
import logging
from typing import Any

import httpx
import pytest

from supervisor.api.app import ErrorBoundary


def raising(error: Exception) -> httpx.ASGITransport:
    async def app(*_: Any) -> None:  # noqa: ANN401 - scope, receive, send
        raise error

    return httpx.ASGITransport(ErrorBoundary(app))


async def answer(error: Exception) -> httpx.Response:
    async with httpx.AsyncClient(transport=raising(error), base_url="http://localhost") as client:
        return await client.get("/v1/backups")


@pytest.mark.parametrize("code", [errno.EMFILE, errno.ENFILE])
async def test_a_lack_of_descriptors_is_a_refusal_and_one_line(
    caplog: pytest.LogCaptureFixture, code: int
) -> None:
    refused = await answer(OSError(code, "Too many open files"))

    assert (refused.status_code, refused.json()["code"]) == (503, "out_of_descriptors")
    assert refused.headers["retry-after"] == "1"
    (line,) = caplog.records
    assert line.getMessage() == "request failed: GET /v1/backups: Too many open files"
    assert (line.levelno, line.exc_info) == (logging.ERROR, None)


@pytest.mark.parametrize("error", [ZeroDivisionError(), OSError(errno.EIO, "I/O error")])
async def test_any_other_exception_is_a_bug_with_its_traceback_in_the_log(
    caplog: pytest.LogCaptureFixture, error: Exception
) -> None:
    failed = await answer(error)

    assert (failed.status_code, failed.json()["code"]) == (500, "internal_error")
    (line,) = caplog.records
    assert line.exc_info is not None
