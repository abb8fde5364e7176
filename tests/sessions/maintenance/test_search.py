"""What was said is found by its words, whatever the words are, and nothing else is."""

from __future__ import annotations

import itertools

import pytest

from supervisor import ConfigError, SearchHit, Session, Supervisor


async def saying(sup: Supervisor, *texts: str) -> Session:
    """Return a session with this user message and no answer."""
    session = await sup.create("fake")
    for text in texts:
        await session.append("user", text)
    return session


async def found(sup: Supervisor, words: str) -> list[str]:
    return [hit.snippet for hit in (await sup.search(words)).items]


# Words -----------------------------------------------------------------------------------


async def test_a_hit_has_kind_session_record_and_time(sup: Supervisor) -> None:
    session = await sup.create("echo", name="bob")
    result = await session.prompt("Hello there")

    agent, user = (await sup.search("hello")).items

    assert (user.kind, agent.kind) == ("user_text", "agent_text")
    assert {hit.turn_id for hit in (user, agent)} == {result.turn_id}
    assert (user.session_id, user.agent, user.title) == (session.id, "echo", "Hello there")
    assert (user.name, agent.name) == ("bob", "bob")
    assert user.seq < agent.seq
    assert user.snippet == "[Hello] there"
    assert isinstance(user, SearchHit)


FOUND = [
    ("the quick brown fox", "quick"),
    ("the quick brown fox", "FOX the"),
    ("naïve café", "naive CAFE"),
    ("naive cafe", "naïve café"),
    ("cafe\u0301", "café"),
    ("café", "cafe\u0301"),
    ("Straße", "Straße"),
    ("Straße", "STRASSE"),
    ("мой дом", "мой"),
    ("Ёлка", "ёлка"),
    ("안녕 세상", "안녕"),
    ("がんばって ください", "がんばって"),
    ("ΣΊΣΥΦΟΣ", "σίσυφος"),
    ("ﬁle", "file"),
    ("½ ①", "①"),
    ("漢字 かな", "漢字"),
    ("don't panic", "don't"),
    ("C++ or c#", "c++"),
    ("x = 10.5", "10.5"),
    ("call foo_bar()", "foo_bar"),
    ("a\0needle", "needle"),
    ("mail to ann@example.org", "ann@example.org"),
    ("İstanbul", "istanbul"),
    ("हिन्दी भाषा", "हिन्दी"),
    ("שלום עולם", "שלום"),
    ("word😀word2", "word2"),
    ("multi\nline\ttext", "line text"),
    ("re\u0301sume\u0301 of it", "resume"),
    ("résumé of it", "re\u0301sume\u0301"),
    ("שָׁלוֹם עולם", "שלום"),
    ("مُحَمَّد", "محمد"),
    ("نیم\u200cفصل", "نیمفصل"),
    ("co\u00adoperate", "cooperate"),
    ("\u210cello", "hello"),
    ("⑴ first", "1"),
    ("½ cup", "½"),
]


@pytest.mark.parametrize(("text", "words"), FOUND)
async def test_text_is_found_by_its_words(sup: Supervisor, text: str, words: str) -> None:
    session = await saying(sup, text, "something else")

    assert {hit.session_id for hit in (await sup.search(words)).items} == {session.id}
    assert len(await found(sup, words)) == 1


# Of a text without blanks only the whole of it is a word: parts of Chinese or Japanese sentences
# are not found, and emoji are no words at all.
NOT_FOUND = [
    ("漢字かな交じり文", "漢字"),
    ("hello 😀", "😀"),
    ("quicksand", "quick"),
    ("the fox", "the dog"),
    ("hello", "!!! ???"),
    ("hello", "-"),
    ("हिन्दी भाषा", "हनद"),
    ("की", "का"),
    ("ﷺ", "الل"),
]


@pytest.mark.parametrize(("text", "words"), NOT_FOUND)
async def test_text_is_not_found_by_other_words(sup: Supervisor, text: str, words: str) -> None:
    await saying(sup, text)

    assert await found(sup, words) == []


QUERIES = [
    "NOT", "NOT fox", "fox NOT dog", "fox OR zebra", "AND", "NEAR(", "NEAR(fox dog, 5)",
    '"', '"fox', 'fo"x', "fox*", "*", "^fox", "text:fox", "words:fox", "{text}: fox", "fox + dog",
    "(", ")", "()", "fox;", "'; DROP TABLE records; --", "\\", "%", "_", "fox\0dog", "\x1b[31m",
    "\u202e", "-fox", "fox " * 200,
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES, ids=ascii)
async def test_no_query_has_a_meaning_of_its_own(sup: Supervisor, query: str) -> None:
    await saying(sup, "a fox", "a dog")
    await saying(sup, "fox dog near not or and text words drop table records 31m 5 zebra")

    hits = (await sup.search(query)).items

    assert all("fox" in hit.snippet.lower() or "not" in hit.snippet.lower() for hit in hits)
    assert "a dog" not in [hit.snippet for hit in hits]


async def test_query_syntax_is_searched_as_plain_words(sup: Supervisor) -> None:
    await saying(sup, "fox", "fox not dog", "dog")

    assert await found(sup, "fox NOT dog") == ["[fox] [not] [dog]"]


@pytest.mark.parametrize("query", ["", " ", "\n\t", "x" * 2_000])
async def test_empty_and_too_long_queries_are_refused(sup: Supervisor, query: str) -> None:
    with pytest.raises(ConfigError) as refused:
        await sup.search(query)

    assert refused.value.hint


# Snippets --------------------------------------------------------------------------------


async def test_a_snippet_is_the_text_around_the_match(sup: Supervisor) -> None:
    await saying(sup, "before " * 100 + "needle in a haystack " + "after " * 100)

    [snippet] = await found(sup, "haystack needle")

    assert "[needle] in a [haystack]" in snippet
    assert snippet.startswith("...")
    assert snippet.endswith("...")
    assert len(snippet) < 200


async def test_a_snippet_is_short_even_for_a_long_word(sup: Supervisor) -> None:
    await saying(sup, "x" * 50_000)

    assert await found(sup, "x" * 1_000) == []
    await saying(sup, "y" * 1_000)
    [snippet] = await found(sup, "y" * 1_000)
    assert len(snippet) < 1_200


async def test_a_snippet_marks_whole_words_with_their_punctuation(sup: Supervisor) -> None:
    await saying(sup, "the re\u0301sume\u0301 of हिन्दी")

    assert await found(sup, "resume") == ["the [re\u0301sume\u0301] of हिन्दी"]
    assert await found(sup, "हिन्दी") == ["the re\u0301sume\u0301 of [हिन्दी]"]


async def test_a_snippet_of_many_lines_keeps_the_text(sup: Supervisor) -> None:
    await saying(sup, "one\ntwo [three] four\r\nfive")

    assert await found(sup, "three") == ["one\ntwo [[three]] four\r\nfive"]


# Where, and how many ---------------------------------------------------------------------


async def test_a_search_can_be_limited_to_a_session(sup: Supervisor) -> None:
    one, other = await saying(sup, "fox one"), await saying(sup, "fox other")

    page = await sup.search("fox", session=one.id)

    assert [hit.snippet for hit in page.items] == ["[fox] one"]
    assert {hit.session_id for hit in (await sup.search("fox")).items} == {one.id, other.id}
    assert (await sup.search("fox", session="s_unknown_1")).items == ()


async def test_deleted_text_is_not_found(sup: Supervisor) -> None:
    gone, kept = await saying(sup, "fox"), await saying(sup, "fox")

    await sup.delete(gone.id)

    assert [hit.session_id for hit in (await sup.search("fox")).items] == [kept.id]


async def test_text_of_an_earlier_chapter_is_found(sup: Supervisor) -> None:
    session = await saying(sup, "fox")

    await session.clear()
    await session.stop()
    await session.archive()

    assert len(await found(sup, "fox")) == 1


async def test_pages_have_each_hit_once_while_text_is_added(sup: Supervisor) -> None:
    session = await saying(sup, *(f"fox {number}" for number in range(25)))
    seen: list[int] = []
    cursor = None
    for number in itertools.count():
        page = await sup.search("fox", limit=4, cursor=cursor)
        seen += [hit.seq for hit in page.items]
        cursor = page.next
        if cursor is None:
            break
        await session.append("user", f"another fox {number}")

    before = sorted(seen)
    assert len(seen) == 25
    assert seen == before[::-1]
    assert len(set(seen)) == 25


async def test_a_cursor_of_a_deleted_session_ends_the_search(sup: Supervisor) -> None:
    old = await saying(sup, *(["fox"] * 5))
    new = await saying(sup, *(["fox"] * 5))
    page = await sup.search("fox", limit=3)

    await sup.delete(new.id)
    rest = await sup.search("fox", limit=10, cursor=page.next)

    assert {hit.session_id for hit in page.items} == {new.id}
    assert [hit.session_id for hit in rest.items] == [old.id] * 5
    assert rest.next is None


async def test_a_page_that_is_just_full_has_no_next(sup: Supervisor) -> None:
    await saying(sup, "fox", "fox")

    assert (await sup.search("fox", limit=2)).next is None
    assert (await sup.search("fox", limit=1)).next is not None


async def test_streamed_text_is_found_when_its_record_is_closed(sup: Supervisor) -> None:
    session = await sup.create("scripted")
    await session.prompt("say the fox\nsay jumps")

    assert {hit.kind for hit in (await sup.search("fox jumps")).items} <= {
        "user_text",
        "agent_text",
    }
    assert [hit.kind for hit in (await sup.search("jumps")).items].count("user_text") == 1
