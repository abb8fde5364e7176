"""The page is whole in itself, and nobody but us puts a tag into it."""

import base64
import hashlib
import html.parser
import re

import pytest

from supervisor.core.printable import printable
from tests.store.exporting.cast import Told, exported, records_of, rich, said_by_an_agent
from tests.store.exporting.hostile import HOSTILE

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
    """Takes a page apart, and sees that its tags are ours and fit together."""

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


def test_a_rich_session_is_a_page_whose_tags_fit_together() -> None:
    read = Reader(exported("html", rich()))

    assert read.shape.count("section") == 3
    assert read.links == ["#turn-1", "#turn-2", "#turn-3"]
    for said in ("mend it (pending)", "steered in", "allow_once", "41 passed", "Stalled"):
        assert said in read.text
    assert "still open" in read.text


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_whatever_an_agent_says_the_page_has_the_same_tags(text: str) -> None:
    harmless = Reader(exported("html", said_by_an_agent("harmless")))

    page = exported("html", said_by_an_agent(text), title=text, name="x")

    if text:
        assert Reader(page).shape == harmless.shape
    assert printable(text) in Reader(page).text
    page.encode()


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_nothing_in_it_is_obeyed_instead_of_being_read(text: str) -> None:
    page = exported("html", said_by_an_agent(text))

    controls = r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\u200e\u200f\u061c]"
    assert not re.search(controls, page)


def test_it_asks_for_nothing_from_anywhere() -> None:
    page = exported("html", rich())

    assert not re.search(r"(?i)src=|@import|url\(|<link|<script|https?:", page)


def test_it_forbids_itself_everything_but_its_own_style() -> None:
    page = exported("html", rich())

    policy = re.search(r'Content-Security-Policy" content="([^"]+)"', page)
    style = re.search(r"<style>(.*?)</style>", page, re.DOTALL)
    assert policy is not None
    assert style is not None
    digest = base64.b64encode(hashlib.sha256(style[1].encode()).digest()).decode()
    assert policy[1].split("; ")[:2] == ["default-src 'none'", f"style-src 'sha256-{digest}'"]


def test_it_can_be_read_on_a_phone_and_in_the_dark() -> None:
    page = exported("html", rich())

    assert "width=device-width" in page
    assert "prefers-color-scheme: dark" in page


def test_an_open_turn_is_closed_on_the_page() -> None:
    told = Told()
    told.begin("and then?")

    assert "still open" in Reader(exported("html", records_of(told))).text


def test_a_session_in_which_nothing_happened_is_a_page_too() -> None:
    read = Reader(exported("html", records_of(Told())))

    assert "section" not in read.shape
    assert "nightly" in read.text


def test_secrets_are_covered_if_that_was_asked_for() -> None:
    told = Told()
    told.begin("password=hunter2")
    told.say("password=hun", "ter2")

    page = exported("html", records_of(told), redact=True)

    assert "hunter2" not in page
    assert "hun" not in page.replace("hundred", "")
    assert "[redacted]" in page


def test_a_megabyte_on_one_line_is_fine() -> None:
    page = exported("html", said_by_an_agent("<" * 1_000_000), title="x")

    assert "<<" not in page
