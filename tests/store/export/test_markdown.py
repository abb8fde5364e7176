"""Export as markdown: no text of a session changes the structure of the page."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.text import printable
from supervisor.store.export.markdown import escaped, fenced, span
from tests.support.export_samples import SampleHistory, agent_says, exported, records_of, rich
from tests.support.hostile_text import HOSTILE

OPENING = re.compile(r"(`{3,})(?:text|json)")
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")


def outside(markdown: str) -> list[str]:
    """Return the lines outside of fenced blocks, parsed as CommonMark does."""
    left, fence = [], ""
    for line in markdown.split("\n"):
        if fence:
            closes = re.fullmatch(r" {0,3}(`{3,})[ \t]*", line)
            fence = "" if closes and len(closes[1]) >= len(fence) else fence
        elif opens := OPENING.fullmatch(line):
            fence = opens[1]
        else:
            left.append(line)
    assert not fence
    return left


def shape(markdown: str) -> list[str]:
    """Return the markup of our own, without code spans and escaped characters."""
    spans = re.compile(r"(`+)(?!`)(?:.*?[^`])??\1(?!`)|\(empty\)")
    return [re.sub(r"\\.", "", spans.sub("S", line)) for line in outside(markdown)]


def test_a_session_with_many_kinds_is_rendered() -> None:
    page = exported("markdown", rich())

    headings = [line for line in outside(page) if line.startswith("#")]
    assert headings[1:] == ["## Turn 1", "## Turn 2", "# Chapter 2", "## Turn 3"]
    assert "**Tool** `bash`: failed, 4.0 s *14:13:44*" in page
    assert "**User**, steered into the turn" in page
    assert "Answer: `allow_once`, by `person`" in page
    assert (
        "*Turn over: completed, end\\_turn, 12.5 s, 1,200 tokens in, 340 out, cost 0.0125*" in page
    )
    assert "*Turn over: still open*" in page


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_of_an_agent_changes_the_structure_of_the_page(text: str) -> None:
    harmless = shape(exported("markdown", agent_says("harmless"), title="x"))

    page = exported("markdown", agent_says(text), title="x")

    if text.strip():
        assert shape(page) == harmless
    assert not OBEYED.search(page)
    page.encode()


@given(st.text(st.sampled_from("`~#<>\\ \n*_[]()x\x1b\u202e")))
def test_no_text_closes_its_fenced_block(text: str) -> None:
    assert outside(fenced(text)) == ["", ""]
    assert printable(text) in fenced(text)


@given(st.text(st.sampled_from("` \nx|<*")))
def test_no_text_closes_its_one_line_span(text: str) -> None:
    line = span(text)

    assert "\n" not in line
    ticks = re.match("`*", line)
    assert ticks is not None
    if ticks[0]:
        inside = line[len(ticks[0]) : -len(ticks[0])]
        assert line.endswith(ticks[0])
        assert ticks[0] not in re.findall("`+", inside)


def test_a_title_is_escaped() -> None:
    assert escaped("a_b *c* <d> [e](f)\n# g") == r"a\_b \*c\* \<d\> \[e\](f) \# g"


def test_names_of_custom_data_are_escaped() -> None:
    page = exported("markdown", records_of(SampleHistory()), custom={"# <b>\n- x": "y\n# z"})

    assert r"- custom \# \<b\> - x: `y # z`" in page


def test_secrets_are_redacted() -> None:
    secret = "sk-" + "a1B2c3D4e5F6g7H8i9J0"
    history = SampleHistory()
    history.begin(f"password=hunter2 {secret}")
    history.say(secret[:10], secret[10:])
    history.call(secret, {"k": secret}, [secret])
    history.finish(error=secret)

    page = exported("markdown", records_of(history), redact=True)

    assert "[redacted]" in page
    assert "hunter2" not in page
    assert secret not in page


def test_a_session_without_turns_is_rendered() -> None:
    page = exported("markdown", records_of(SampleHistory()))

    assert page.startswith("# nightly\n\n- session: `s_one`\n")
    assert "Turn" not in page


def test_a_line_of_a_megabyte_is_rendered() -> None:
    page = exported("markdown", agent_says("`" * 1_000_000), title="x")

    assert len(page) > 1_000_000
