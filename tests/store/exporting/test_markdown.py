"""In markdown, what somebody said stays where it was put."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from supervisor.core.printable import printable
from supervisor.store.exporting.markdown import escaped, fenced, span
from tests.store.exporting.cast import Told, exported, records_of, rich, said_by_an_agent
from tests.store.exporting.hostile import HOSTILE

OPENING = re.compile(r"(`{3,})(?:text|json)")
OBEYED = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]")


def outside(markdown: str) -> list[str]:
    """The lines that do not stand between fences, read as CommonMark reads them."""
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
    """What is ours, with code spans and escaped letters taken out."""
    spans = re.compile(r"(`+)(?!`)(?:.*?[^`])??\1(?!`)|\(empty\)")
    return [re.sub(r"\\.", "", spans.sub("S", line)) for line in outside(markdown)]


def test_a_rich_session_reads_well() -> None:
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
def test_whatever_an_agent_says_the_page_has_the_same_shape(text: str) -> None:
    harmless = shape(exported("markdown", said_by_an_agent("harmless"), title="x"))

    page = exported("markdown", said_by_an_agent(text), title="x")

    if text.strip():
        assert shape(page) == harmless
    assert not OBEYED.search(page)
    page.encode()


@given(st.text(st.sampled_from("`~#<>\\ \n*_[]()x\x1b\u202e")))
def test_a_block_is_never_left(text: str) -> None:
    assert outside(fenced(text)) == ["", ""]
    assert printable(text) in fenced(text)


@given(st.text(st.sampled_from("` \nx|<*")))
def test_a_span_is_one_line_and_never_left(text: str) -> None:
    line = span(text)

    assert "\n" not in line
    ticks = re.match("`*", line)
    assert ticks is not None
    if ticks[0]:
        inside = line[len(ticks[0]) : -len(ticks[0])]
        assert line.endswith(ticks[0])
        assert ticks[0] not in re.findall("`+", inside)


def test_a_title_means_only_itself() -> None:
    assert escaped("a_b *c* <d> [e](f)\n# g") == r"a\_b \*c\* \<d\> \[e\](f) \# g"


def test_names_of_custom_data_mean_only_themselves() -> None:
    page = exported("markdown", records_of(Told()), custom={"# <b>\n- x": "y\n# z"})

    assert r"- custom \# \<b\> - x: `y # z`" in page


def test_secrets_are_covered_if_that_was_asked_for() -> None:
    secret = "sk-" + "a1B2c3D4e5F6g7H8i9J0"
    told = Told()
    told.begin(f"password=hunter2 {secret}")
    told.say(secret[:10], secret[10:])
    told.call(secret, {"k": secret}, [secret])
    told.finish(error=secret)

    page = exported("markdown", records_of(told), redact=True)

    assert "[redacted]" in page
    assert "hunter2" not in page
    assert secret not in page


def test_a_session_in_which_nothing_happened_is_a_page_too() -> None:
    page = exported("markdown", records_of(Told()))

    assert page.startswith("# nightly\n\n- session: `s_one`\n")
    assert "Turn" not in page


def test_a_megabyte_on_one_line_is_fine() -> None:
    page = exported("markdown", said_by_an_agent("`" * 1_000_000), title="x")

    assert len(page) > 1_000_000
