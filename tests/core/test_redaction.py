"""Redaction: secrets are found by shape, prose stays, and no text makes it slow."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core import redaction
from supervisor.core.redaction import (
    REDACTED,
    cover_secret,
    redact,
    redact_pieces,
    redact_value,
)

# Put together here, so that no scanner takes the tests for a leak.
LETTERS = "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8"
SECRETS = {
    "an api key": "sk-" + LETTERS,
    "an api key of one that names itself": "sk-ant-api03-" + LETTERS + "_x-y",
    "a project's api key": "sk-proj-" + LETTERS,
    "a payment key": "sk_" + "live_" + LETTERS[:24],
    "a forge's token": "ghp_" + LETTERS,
    "a forge's fine token": "github_" + "pat_" + LETTERS,
    "a chat token": "xox" + "b-123456789012-" + LETTERS[:20],
    "a cloud's key id": "AKIA" + "IOSFODNN7EXAMPLE",
    "a map's key": "AIza" + LETTERS[:35],
    "a web token": "eyJhbGciOiJI.eyJzdWIiOiIx." + LETTERS,
    "a session token": "ust-1." + "ses_0a1b2c3d4e5f.12.self." + LETTERS,
}
PROSE = [
    "sk-learn-compatible-estimators-everywhere are fine",
    "the risk-management-department-of-the-bank-1 said no",
    "the bearer of news, Bearer responsibilities-and-duties",
    "password: none is needed here",
    "What is the secret? token = get_token(user)",
    "input_tokens: 123456, output_tokens=654321",
    "see http://localhost:8080/path and mailto:someone@somewhere",
    "login(password=password, token=token)",
    "PWD=/home/user1/dir2",
    'GEMINI_API_KEY = "$GEMINI_API_KEY"',
    r"{\"token\": \"$COPILOT_GITHUB_TOKEN\"}",
    "eyJust.a.sentence",
    "a ust-1.2 is not a must-1.ses_1.2.self",
    "-----BEGIN PUBLIC KEY----- follows",
    "write -----BEGIN PRIVATE KEY----- and then what?",
    "AKIA is not enough, xoxb- neither, ghp_ neither",
    "",
]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS)
def test_a_known_token_is_redacted_anywhere(secret: str) -> None:
    for before, after in [("", ""), ("use ", " now"), ('"', '"'), ("(", ")."), ("a\n", "\nb")]:
        assert redact(before + secret + after) == before + REDACTED + after


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("Authorization: Bearer abc123def456", f"Authorization: Bearer {REDACTED}"),
        ("authorization: basic dXNlcjpwYXNz", f"authorization: basic {REDACTED}"),
        ("postgres://me:hunter2@db/x", f"postgres://me:{REDACTED}@db/x"),
        ("redis://:p%40ss@cache", f"redis://:{REDACTED}@cache"),
        ('{"api_key": "abcdef"}', f'{{"api_key": "{REDACTED}"}}'),
        (r"{\"token\": \"abcdef\"}", rf"{{\"token\": \"{REDACTED}\"}}"),
        ("password=hunter2", f"password={REDACTED}"),
        ("my-secret : s3cr3t!", f"my-secret : {REDACTED}"),
        ("DB_PASSWORD=correcthorse", f"DB_PASSWORD={REDACTED}"),
        ("X_API_KEY=abcd\nY=1", f"X_API_KEY={REDACTED}\nY=1"),
        ("apikey: 'zzzz'", f"apikey: '{REDACTED}'"),
        ("password = '$ECRET'", f"password = '{REDACTED}'"),
        ("password = '$MY_SECRET1'", f"password = '{REDACTED}'"),
    ],
)
def test_the_name_of_a_secret_stays_readable(text: str, left: str) -> None:
    assert redact(text) == left


BEGIN, END = "-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----"


def test_a_private_key_is_redacted_whole() -> None:
    headers = "\nProc-Type: 4,ENCRYPTED\n\n"

    left = redact(f"a\n{BEGIN}{headers}{LETTERS}\n{LETTERS[:7]}=\n{END}\nb")

    assert left == f"a\n{BEGIN}{REDACTED}{END}\nb"


def test_a_private_key_without_end_is_redacted_to_the_end() -> None:
    left = redact(f"{BEGIN}\n{LETTERS}\n{LETTERS}\nand then some prose")

    assert left == f"{BEGIN}{REDACTED}\nand then some prose"


@pytest.mark.parametrize("text", PROSE)
def test_ordinary_prose_stays_as_it_is(text: str) -> None:
    assert redact(text) == text


@given(st.text(st.sampled_from("sk-token=:\"' eyJ.ghp_Bearer@/1aA\n\\"), max_size=200))
def test_redacting_twice_changes_nothing(text: str) -> None:
    once = redact(text)

    assert redact(once) == once


@pytest.mark.parametrize("seam", range(0, len(SECRETS["an api key"]) + 8, 3))
def test_a_secret_across_pieces_is_redacted_once(seam: int) -> None:
    text = f"use {SECRETS['an api key']} now"

    pieces = redact_pieces([text[:seam], text[seam:]])

    assert "".join(pieces) == f"use {REDACTED} now"
    assert len(pieces) == 2


@given(st.lists(st.sampled_from(["", "x", *SECRETS.values(), " ", "token=", "hunter2 "])))
def test_pieces_are_redacted_like_the_whole(pieces: list[str]) -> None:
    left = redact_pieces(pieces)

    assert len(left) == len(pieces)
    assert "".join(left) == redact("".join(pieces))


def test_only_texts_inside_plain_data_are_redacted() -> None:
    data = {"cmd": ["curl", "Bearer abc123def456"], "n": 5, "token": "short", "password": None}

    left = redact_value(data)

    assert left == {
        "cmd": ["curl", f"Bearer {REDACTED}"],
        "n": 5,
        "token": REDACTED,
        "password": None,
    }


MEGABYTE = 1_000_000
HOSTILE = [
    "sk-", "sk-a", "eyJ", "eyJaaaaaaaaa.", "eyJaaaaaaaaa", "ghp_", "AKIA", "AIza", "Bearer ",
    "Bearer a", "token=", "token=1", 'token="', 'token="a', "token", "secret :", "password=1(",
    "://", "://a:", "://a:b", "-----BEGIN PRIVATE KEY-----", "-----BEGIN ", "-", "\\", "\n",
    "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAAAAAAA\n", "xoxb-", " ", "a", "A1-", "TOKEN=",
    "authorization: basic ", "github_pat_", "api_key" + " " * 8,
]  # fmt: skip


@pytest.mark.parametrize("piece", HOSTILE, ids=range(len(HOSTILE)))
def test_a_megabyte_is_redacted_quickly(piece: str) -> None:
    text = (piece * (MEGABYTE // len(piece) + 1))[:MEGABYTE]
    began = time.process_time()

    redact(text)

    assert time.process_time() - began < 10  # a shape that is not linear would take hours


def test_a_covered_secret_is_redacted_whatever_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_covered", ())
    for secret in ("plain words", "words and more", "short"):
        cover_secret(secret)

    assert redact("a plain words and more, short") == f"a {REDACTED}, short"
    assert redact_pieces(["plain ", "words"]) == [REDACTED, ""]


def test_the_secrets_covered_last_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(redaction, "_covered", ())
    for number in range(redaction._MAX_COVERED + 1):
        cover_secret(f"secret number {number}")

    assert redact("secret number 0") == "secret number 0"
    assert redact("secret number 1") == REDACTED
