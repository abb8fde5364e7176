"""Export as HTML: the page is self-contained, and no text of a session becomes a tag."""

import base64
import hashlib
import html.parser
import re

import pytest

from supervisor.core.text import printable
from tests.support.export_samples import SampleHistory, agent_says, exported, records_of, rich
from tests.support.hostile_text import HOSTILE

VOID = {"meta"}
TAGS = {
    "html", "head", "meta", "title", "style", "body", "main", "footer", "h1", "h2", "dl", "dt",
    "dd", "section", "header", "time", "span", "a", "article", "div", "details", "summary", "p",
    "pre", "ol", "li",
}  # fmt: skip
ATTRIBUTES = {
    "lang", "charset", "http-equiv", "content", "name", "class", "id", "href", "title", "dir",
    "open",
}  # fmt: skip


class Reader(html.parser.HTMLParser):
    """A parser that checks that the tags of a page are known and balanced."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.shape: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in TAGS
        assert {name for name, _ in attrs} <= ATTRIBUTES
        self.links += [value or "" for name, value in attrs if name == "href"]
        self.shape.append(tag)
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.text += data

    def handle_comment(self, data: str) -> None:
        raise AssertionError(data)


def test_a_session_with_many_kinds_has_balanced_tags() -> None:
    read = Reader(exported("html", rich()))

    assert read.shape.count("section") == 3
    assert read.links == ["#turn-1", "#turn-2", "#turn-3"]
    for said in ("mend it (pending)", "steered in", "allow_once", "41 passed", "Stalled"):
        assert said in read.text
    assert "still open" in read.text


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_of_an_agent_changes_the_tags_of_the_page(text: str) -> None:
    harmless = Reader(exported("html", agent_says("harmless")))

    page = exported("html", agent_says(text), title=text, name="x")

    if text:
        assert Reader(page).shape == harmless.shape
    assert printable(text) in Reader(page).text
    page.encode()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_is_interpreted_as_markup(text: str) -> None:
    page = exported("html", agent_says(text))

    controls = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]"
    assert not re.search(controls, page)


def test_the_page_loads_nothing() -> None:
    page = exported("html", rich())

    assert not re.search(r"(?i)src=|@import|url\(|<link|<script|https?:", page)


def test_the_content_policy_allows_only_the_style_of_the_page() -> None:
    page = exported("html", rich())

    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert policy is not None
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy[1].split("; ")[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]


def test_the_style_supports_small_screens_and_dark_mode() -> None:
    page = exported("html", rich())

    assert "width=device-width" in page
    assert "prefers-color-scheme: dark" in page


def test_an_open_turn_is_closed_on_the_page() -> None:
    history = SampleHistory()
    history.begin("and then?")

    assert "still open" in Reader(exported("html", records_of(history))).text


def test_a_session_without_turns_is_rendered() -> None:
    read = Reader(exported("html", records_of(SampleHistory())))

    assert "section" not in read.shape
    assert "nightly" in read.text


def test_secrets_are_redacted() -> None:
    history = SampleHistory()
    history.begin("password=hunter2")
    history.say("password=hun", "ter2")

    page = exported("html", records_of(history), redact=True)

    assert "hunter2" not in page
    assert "hun" not in page.replace("hundred", "")
    assert "[redacted]" in page


def test_a_line_of_a_megabyte_is_rendered() -> None:
    page = exported("html", agent_says("<" * 1_000_000), title="x")

    assert "<<" not in page
