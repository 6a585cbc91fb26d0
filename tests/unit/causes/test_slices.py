"""Where a rise concentrates: slices, pairs of them, new values, and shifts of the mix."""

from __future__ import annotations

import math
import random
import sys
from dataclasses import replace

import pytest

from ragmonitor import Chunk, Generation, Interaction, Retrieval
from ragmonitor.causes import answer_log
from ragmonitor.causes.answer_log import AnswerLog
from ragmonitor.causes.bands import banded
from ragmonitor.causes.slice_names import SliceNames
from ragmonitor.causes.slice_search import SliceSearch
from ragmonitor.causes.slices import Slices, slice_rates
from ragmonitor.estimation.signals import outcomes
from tests.support.slice_answers import answer
from tests.support.slice_rows import RATE, SIGNAL, SINCE_S, Traffic, only
from tests.support.streams import JUDGE, Records


def names(*leave_out: str) -> SliceNames:
    return SliceNames(leave_out=leave_out, topic=lambda _: "topic-01")


def finder(**options: object) -> Slices:
    return Slices(
        **{
            "max_importance_weight": 2.0,
            "higher_is_better": lambda signal: signal == "faithfulness",
            **options,
        }
    )


# --- what is found ----------------------------------------------------------------------------


def test_a_route_that_got_worse_is_named_first():
    """Its rates, and that it explains the rise, are within their intervals."""
    first = Traffic(rates=only(route="billing")(0.5)).slices()[0]
    assert first.name == "route=billing"
    assert first.is_discovery
    assert first.e_value > 1_000
    assert first.now is not None
    assert first.now.lower < 0.5 < first.now.upper
    assert first.before is not None
    assert first.before.lower < RATE < first.before.upper
    assert first.explained_lower is not None
    assert first.explained_lower < 1 < first.explained_upper


def test_a_pair_is_named_where_neither_of_its_slices_says_as_much():
    """Half of a route's answers got worse: those in one language."""
    traffic = Traffic(
        now=1_000, billing=(0.3, 0.3), rates=only(route="billing", language="zh")(0.5)
    )
    assert traffic.slices()[0].name == "language=zh, route=billing"


def test_a_pair_that_says_no_more_than_its_slice_is_left_out():
    """Of a route that got worse, its part in each language did too, and needs no line."""
    found = Traffic(now=600, rates=only(route="billing")(0.5)).slices()
    assert not [each.name for each in found if each.name == "language=zh, route=billing"]


def test_a_pair_is_not_named_where_its_slice_got_worse_without_it_too():
    """The slice alone explains as much, and more: what is left of it is at 25 instead of 4 %."""

    def rates(since: bool, values: dict[str, str]) -> float:
        if not since or values["route"] != "billing":
            return RATE
        return 0.6 if values["language"] == "zh" else 0.25

    for seed in (1, 3):
        traffic = Traffic(seed=seed, now=600, billing=(0.2, 0.2), rates=rates)
        assert traffic.discoveries() == ["route=billing"]


def test_a_topic_says_what_it_is_about():
    """Its name stays the number, and the words stand beside it."""
    topics = {"topic": lambda since: "topic-01" if next(turns) % 3 else "topic-02"}
    turns = iter(range(10**9))
    rows = Traffic(now=600, rates=only(topic="topic-02")(0.5), extra=topics).rows()
    search = SliceSearch(
        rows,
        SIGNAL,
        SINCE_S,
        is_flipped=False,
        max_weight=1.0,
        title=lambda each: "return, parcel" if each == ("topic", "topic-02") else "",
    )
    first, *others = search.slices(())
    assert (first.name, first.title) == ("topic=topic-02", "return, parcel")
    assert not [each.title for each in others if "topic-02" not in each.name and each.title]


def test_slices_that_are_bad_by_a_pair_alone_stand_behind_it():
    """Each holds the pair's bad answers among others that are fine, and says so."""
    traffic = Traffic(
        now=1_500, billing=(0.2, 0.2), rates=only(route="billing", language="zh")(0.5)
    )
    pair, *slices = [each for each in traffic.slices() if each.is_discovery]
    assert pair.name == "language=zh, route=billing"
    assert {each.name for each in slices} == {"language=zh", "route=billing"}
    assert {each.only_in for each in slices} == {pair.name}
    assert all("by the answers of language=zh, route=billing alone" in s.detail for s in slices)


def test_a_pair_with_what_nearly_all_answers_are_adds_nothing_to_its_slice():
    """It is drawn by chance: what is left of the slice is as bad as the pair."""
    for seed in range(5):
        chance = random.Random(seed)
        traffic = Traffic(
            seed=seed,
            now=400,
            billing=(0.2, 0.2),
            rates=only(route="billing")(0.35),
            extra={"chunks": lambda _, c=chance: "few" if c.random() < 0.1 else "many"},
        )
        found = [each.name for each in traffic.slices()]
        assert "route=billing" in found
        assert not [each for each in found if "route=billing" in each and "," in each]


def test_two_names_of_the_same_answers_are_listed_once():
    """The attribute of the application's stays, and not what goes with it."""
    turns = iter(range(10**9))
    shops = []

    def shop(_since: bool) -> str:
        shops.append("eu" if next(turns) % 3 else "us")
        return shops[-1]

    traffic = Traffic(
        now=600,
        rates=lambda since, values: 0.4 if since and values["shop"] == "us" else RATE,
        extra={"shop": shop, "model": lambda _: {"us": "small", "eu": "large"}[shops[-1]]},
    )
    found = [each.name for each in traffic.slices()]
    assert found[0] == "shop=us"
    assert "model=small" not in found


def test_the_rates_of_the_largest_slices_are_at_hand():
    """Without an alarm; a slice that is all answers is left out."""
    traffic = Traffic(now=600, rates=only(route="billing")(0.5), extra={"shop": lambda _: "us"})
    found = {each["name"]: each for each in slice_rates(traffic.rows())}
    assert "shop=us" not in found
    billing = found["route=billing"]
    assert billing["rate"]["lower"] < billing["rate"]["mean"] < billing["rate"]["upper"]
    assert billing["rate"]["lower"] > found["route=faq"]["rate"]["upper"]
    assert billing["judged"] == billing["answers"]
    assert slice_rates(()) == []


def test_a_slice_that_always_was_bad_is_not_named():
    """The others got worse, and it did not: no evidence is gained from being bad."""

    def rates(since: bool, values: dict[str, str]) -> float:
        if values["route"] == "legal":
            return 0.3
        return 0.4 if since and values["route"] == "billing" else RATE

    assert Traffic(now=600, rates=rates).discoveries()[0] == "route=billing"
    assert "route=legal" not in Traffic(now=600, rates=rates).discoveries()


def test_a_shift_of_the_mix_is_no_slice_that_got_worse():
    """More of a hard route: the mix explains the rise, and nothing got worse."""

    def rates(since: bool, values: dict[str, str]) -> float:
        return 0.3 if values["route"] == "billing" else RATE

    search = Traffic(now=800, billing=(0.1, 0.5), rates=rates).search()
    first = next(iter(search.mixes(())))
    assert (first.kind, first.name) == ("mix", "route=billing")
    assert first.is_discovery
    assert first.explained_lower < 1 < first.explained_upper
    assert "of the answers" in first.detail
    assert not [each for each in search.slices(()) if each.is_discovery]


@pytest.mark.parametrize(("before", "is_compared"), [(100, False), (2_000, True)])
def test_a_slice_with_few_verdicts_before_is_not_said_to_have_got_worse(before, is_compared):
    """It is worse than the others, and may have been before: nothing tells."""

    def rates(since: bool, values: dict[str, str]) -> float:
        return 0.6 if values["route"] == "billing" and (since or not is_compared) else RATE

    traffic = Traffic(before=before, now=600, billing=(0.05, 0.5), rates=rates)
    first = next(iter(traffic.search().slices(())))
    assert (first.name, first.is_discovery) == ("route=billing", True)
    assert first.is_compared is is_compared


def test_a_new_version_is_a_slice_and_no_shift_of_the_mix():
    """It was no kind of answers that was bad before: there were none of it."""

    def rates(since: bool, values: dict[str, str]) -> float:
        return 0.3 if values["version"] == "1.1" else RATE

    turns = iter(range(10**9))
    traffic = Traffic(
        now=600,
        rates=rates,
        extra={"version": lambda since: "1.1" if since and next(turns) % 2 else "1.0"},
    )
    search = traffic.search()
    first = next(iter(search.slices(())))
    assert (first.name, first.before) == ("version=1.1", None)
    assert first.explained == pytest.approx(1, abs=0.3)
    assert not [each for each in search.mixes(()) if each.is_discovery]


def test_answers_of_one_session_count_once():
    """Twenty bad answers of one session are no evidence against its route."""
    traffic = Traffic(
        before=3_000, now=600, in_sessions_of=20, rates=only(route="billing")(0.5), noise=1
    )
    alike, apart = traffic.slices(), replace(traffic, in_sessions_of=1).slices()
    assert apart[0].is_discovery
    assert not [each for each in alike if each.is_discovery]


def test_nothing_is_said_without_a_rise():
    """Neither before there are answers, nor where the rate fell."""
    assert not finder().candidates(SIGNAL, SINCE_S)
    assert not Traffic(rates=lambda since, _: 0.0 if since else RATE).search().is_possible


def test_a_signal_that_is_better_the_higher_is_turned_around():
    """Estimates are on the signal's own scale: a faithfulness that fell."""
    rows = [
        row._replace(signals=("faithfulness",), values=tuple(1 - each for each in row.values))
        for row in Traffic(rates=only(route="billing")(0.5)).rows()
    ]
    search = SliceSearch(rows, "faithfulness", SINCE_S, is_flipped=True, max_weight=1.0)
    first = next(iter(search.slices(())))
    assert first.name == "route=billing"
    assert first.now.lower < 0.5 < first.now.upper
    assert first.now.mean < first.before.mean


def test_the_part_finds_the_route_among_completed_answers():
    """A sampled judge's verdicts, with examples of what is wrong."""
    slices = finder()
    for number in range(1_500):
        is_now = number >= 1_000
        route = "billing" if number % 5 == 0 else "faq"
        bad = number % 10 == 0 if is_now and route == "billing" else number % 29 == 0
        slices.add(
            answer(
                number,
                bad=bad,
                drawn=number % 2 == 0 or bad,
                at_s=SINCE_S + (number - 1_000),
                attributes={"route": route, "user_id": str(number)},
            )
        )
    slices.tick()
    found = slices.candidates(SIGNAL, SINCE_S)
    assert found[0].name == "route=billing"
    assert found[0].is_discovery
    assert found[0].examples[0].interaction.attributes["route"] == "billing"
    slices.clear()
    assert not slices.candidates(SIGNAL, SINCE_S)


def test_a_look_that_took_long_is_the_answer_for_a_while():
    """A second of looking holds for twenty, so that looks take a twentieth of the time."""
    times = iter([0.0, 1.0, 20.0, 21.5, 22.0])
    slices = finder(clock=lambda: next(times))
    first = slices.candidates(SIGNAL, SINCE_S)
    for number in range(400):
        route = "billing" if number % 5 == 0 else "faq"
        slices.add(
            answer(
                number,
                attributes={"route": route},
                bad=number % 5 == 0 and number > 300,
                at_s=SINCE_S + number - 300,
            )
        )
    assert slices.candidates(SIGNAL, SINCE_S) is first
    assert slices.candidates(SIGNAL, SINCE_S)


# --- which slices there are --------------------------------------------------------------------


def test_slices_are_found_in_attributes_and_records():
    """Whatever an answer carries is a dimension; a name of ours is not taken twice."""
    given = answer(
        chunks=(Chunk(text="a", metadata={"source": "a.md"}), Chunk(text="b")),
        tags=("beta",),
        attributes={"route": "billing", "language": "de", "user_id": "u-1"},
        generations=(Generation(output="", started_ns=0, ended_ns=1, model="small"),),
        retrievals=(Retrieval(query="", chunks=(), started_ns=0, ended_ns=1, name="store"),),
        session_id="s",
    )
    known = names("user*")
    assert set(known.of(given, known.turn("s"))) == {
        ("framework", "python"),
        ("language", "en"),
        ("topic", "topic-01"),
        ("model", "small"),
        ("chunks", "2"),
        ("turn", "1"),
        ("retriever", "store"),
        ("tag", "beta"),
        ("source", "a.md"),
        ("route", "billing"),
        ("attribute language", "de"),
    }


def test_turns_are_counted_by_session_and_bounded(monkeypatch):
    """The session that was silent for the longest is let go of."""
    monkeypatch.setattr("ragmonitor.causes.slice_names.MAX_SESSIONS", 2)
    known = names()
    assert [known.turn(each) for each in ("a", "a", "b", "c", "a", "")] == [1, 2, 1, 1, 1, 0]


def test_bands_have_the_same_ends_before_and_since():
    """Quarters of all answers at hand, and the slowest twentieth."""
    rows = [row._replace(score=math.nan) for row in Traffic(before=300, now=100).rows()]
    rows = [row._replace(latency_s=float(at)) for at, row in enumerate(rows)]
    found = [dict(slices).get("latency_s") for _, slices in banded(rows)]
    assert found[0] == "below 100"
    assert found[399] == "380 or more"
    assert found[250] == "200 to 300"
    assert not any("chunk_score" in dict(slices) for _, slices in banded(rows))


# --- what is kept ------------------------------------------------------------------------------


def test_more_answers_than_fit_are_thinned_and_stand_for_all(monkeypatch):
    """Twice as many answers as are kept in twelve hours: every second one, counted twice."""
    monkeypatch.setattr(answer_log, "MAX_JUDGED", 500)
    monkeypatch.setattr(answer_log, "SPAN_S", 1_000.0)
    log = AnswerLog(names())
    kept = []
    for second in range(3_000):
        row = log.add(answer(second, at_s=SINCE_S + second))
        kept.append(row)
        if second % 10 == 0:
            log.refresh()
    assert len(log) == 500
    newest = [row.copies for row in kept[-1_000:] if row is not None]
    assert sum(newest) == pytest.approx(1_000, rel=0.15)
    assert len(newest) == pytest.approx(500, rel=0.15)


def test_what_is_kept_is_bounded_in_bytes():
    """A row with 15 slices of its own takes less than 1 kB beside their names."""
    row = next(iter(Traffic(noise=13).rows()))
    own = sys.getsizeof(row) + sys.getsizeof(row.slices) + 4 * sys.getsizeof(1.0) + 64
    assert len(row.slices) == 15
    assert own < 600


def test_a_refusal_and_a_missing_verdict_have_no_value():
    """Neither is a zero."""
    log = AnswerLog(names())
    given = answer()
    failed = Records().failed(given.interaction, given.completed.decision)
    assert failed.judge == JUDGE
    row = log.add(given._replace(verdicts=outcomes(failed)))
    assert row.value(SIGNAL) is None
    assert row.value("no such signal") is None


def test_interactions_without_anything_have_few_slices():
    """An answer without chunks, session or attributes."""
    given = answer(chunks=())
    assert isinstance(given.interaction, Interaction)
    assert dict(names().of(given, 0))["chunks"] == "0"
