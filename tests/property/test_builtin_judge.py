"""Laws of the built-in judge."""

import asyncio
import json

from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.judges.builtin import BuiltinJudge, assess
from ragmonitor.judges.sentences import split
from ragmonitor.records import Chunk, Interaction, Verdict
from tests.support.judge_caches import clear_kept

VOCABULARY = """
    the a tower river Berlin Paris 1889 330 metres km 3.5 million not never five twenty-five April
    Monday May increased fell is was of and , . ? ! : 巴黎 铁塔 高 米 年 三 月 不 没有 增长 ， 。 ？
    二十五 - 1. % $5 U.S. don't I know (NASM) [3] two hundred 9 am 18:30 9:00 p.m. to 上午九点
    下午3点半 2021-03-05 ½ 1½ 三分之一 e-mail Zu\u0308rich
"""
WORDS = st.sampled_from([*VOCABULARY.split(), "\n"])
PROSE = st.lists(WORDS, max_size=30).map(" ".join)
TEXTS = st.one_of(st.text(max_size=200), PROSE)
CHUNKS = st.lists(TEXTS, max_size=4)
KEYS = st.sampled_from(
    ["name", "price", "WiFi", "hours", "Monday", "is_open", "stars", "reviews", "营业时间", "外卖"]
)
VALUES = st.sampled_from(
    ["Elm Books", "no", "9:0-18:0", "closed", "$40", "4.5", "", "是", "周一休息", True, None, 17]
)
OBJECTS = st.recursive(
    VALUES, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4)
)
PAIRS = st.lists(st.tuples(KEYS, VALUES), min_size=3, max_size=6)
RECORDS = st.one_of(
    OBJECTS.map(json.dumps),
    OBJECTS.map(repr),
    PAIRS.map(lambda pairs: "\n".join(f"{key}: {value}" for key, value in pairs)),
    PAIRS.map(lambda pairs: "\n".join(f"| {a} | {b} |\n|---|---|" for a, b in pairs)),
)
SAID_WORDS = """
    Elm Books has no free Wi-Fi It is open on Mondays from 9 am until 5 pm The average price $40
    three reviews not cheapest closed , and but . 名称 没有 外卖 周一 营业 17 4.5 stars Whether
"""
SAID = st.lists(st.sampled_from(SAID_WORDS.split()), max_size=20).map(" ".join)


@given(TEXTS, CHUNKS, TEXTS)
def test_any_text_is_accepted(query: str, chunks: list[str], answer: str):
    """Nothing raises, and every number is within its range."""
    found = assess(query, chunks, answer)
    shares = [s.support for s in found.sentences or () if s.support is not None]
    shares += [x for x in (found.risk, found.answer_relevancy) if x is not None]
    shares += found.chunk_relevance or ()
    assert all(0.0 <= share <= 1.0 for share in shares)
    for sentence in found.sentences or ():
        assert answer[sentence.start : sentence.end] == sentence.text
        assert all(word in sentence.text for word in sentence.words)
        assert all(0 <= chunk < len(chunks) for chunk in sentence.chunks)
    assert found.chunk_relevance is None or len(found.chunk_relevance) == len(chunks)


@given(TEXTS, CHUNKS, TEXTS)
def test_the_same_again(query: str, chunks: list[str], answer: str):
    """The judge is deterministic, and says the same as its plain function."""
    interaction = Interaction(
        id="1",
        query=query,
        chunks=tuple(Chunk(text=chunk) for chunk in chunks),
        answer=answer,
        framework="python",
        started_ns=0,
        ended_ns=1,
    )
    found = assess(query, chunks, answer)
    assert asyncio.run(BuiltinJudge().assess(interaction)) == found
    assert assess(query, chunks, answer) == found


@given(st.data(), TEXTS.filter(str.strip), CHUNKS)
def test_a_copy_is_supported(data: st.DataObject, chunk: str, others: list[str]):
    """A sentence copied from a chunk is never absent from it nor contradicted by it."""
    sentence = data.draw(st.sampled_from(split(chunk)))
    found = assess("", [*others, chunk], sentence.text)
    flagged = {Verdict.ABSENT, Verdict.CONTRADICTED}
    assert not any(s.verdict in flagged for s in found.sentences or ())


@given(CHUNKS, TEXTS, TEXTS)
def test_one_more_chunk_never_lowers_support(chunks: list[str], more: str, answer: str):
    """Support counts what stands anywhere; another chunk cannot take it away."""
    before = assess("", chunks, answer).sentences
    after = assess("", [*chunks, more], answer).sentences
    if before is None or after is None:
        return
    for old, new in zip(before, after, strict=True):
        assert (old.support is None) == (new.support is None)
        assert old.support is None or new.support >= old.support - 1e-12


@given(st.data(), TEXTS, CHUNKS, TEXTS)
def test_the_order_of_chunks_only_renumbers(
    data: st.DataObject, query: str, chunks: list[str], answer: str
):
    """Shuffled chunks give the same verdicts and the same texts as evidence."""
    order = data.draw(st.permutations(range(len(chunks))))
    shuffled = [chunks[at] for at in order]
    one, two = assess(query, chunks, answer), assess(query, shuffled, answer)
    assert (one.risk, one.evasive, one.answer_relevancy) == (
        two.risk,
        two.evasive,
        two.answer_relevancy,
    )
    if one.chunk_relevance is not None:
        assert two.chunk_relevance == tuple(one.chunk_relevance[at] for at in order)
    for a, b in zip(one.sentences or (), two.sentences or (), strict=True):
        assert (a.verdict, a.support, a.words, a.reasons) == (
            b.verdict,
            b.support,
            b.words,
            b.reasons,
        )
        plain = [" ".join(chunks[at].lower().split()) for at in a.chunks]
        assert plain == [" ".join(shuffled[at].lower().split()) for at in b.chunks]


@given(st.data(), st.lists(RECORDS, max_size=3), SAID)
def test_records_are_read_whatever_they_hold(data: st.DataObject, chunks: list[str], answer: str):
    """Nothing raises, and the order of structured chunks makes no difference either."""
    shuffled = data.draw(st.permutations(chunks))
    one, two = assess(answer, chunks, answer), assess(answer, shuffled, answer)
    assert one.risk == two.risk
    for a, b in zip(one.sentences or (), two.sentences or (), strict=True):
        assert (a.verdict, a.support, a.words, a.reasons) == (
            b.verdict,
            b.support,
            b.words,
            b.reasons,
        )
        assert a.support is None or 0.0 <= a.support <= 1.0


@given(TEXTS, CHUNKS, TEXTS)
def test_a_chunk_read_before_changes_nothing(query: str, chunks: list[str], answer: str):
    """What is kept of a chunk is what it says, and no answer leaves anything behind in it."""
    clear_kept()
    fresh = assess(query, chunks, answer)
    assess(query, [*chunks, answer], query)
    assert assess(query, chunks, answer) == fresh
