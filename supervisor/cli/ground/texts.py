"""The text of an input: words of the command, or what comes on standard input."""

from __future__ import annotations

import sys

import click

# Far more than any session takes; so that a device without an end does not fill the memory.
MOST_BYTES = 16 * 1024 * 1024


def text_given(words: tuple[str, ...]) -> str:
    """The words, or standard input if there are none or only `-`; raises click's `UsageError`."""
    if words and words != ("-",):
        return " ".join(words)
    if not words and sys.stdin.isatty():
        raise click.UsageError("There is no TEXT. Write it, or pipe it in.")
    text = sys.stdin.read(MOST_BYTES + 1)
    if len(text) > MOST_BYTES:
        raise click.UsageError(f"Standard input has more than {MOST_BYTES} characters.")
    return text.rstrip("\n")
