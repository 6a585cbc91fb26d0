"""Where a rise concentrates: slices, and new values."""

from __future__ import annotations

import sys
from dataclasses import replace

import pytest

from ragmonitor.causes.answer_log import AnswerLog
from ragmonitor.causes.slice_names import SliceNames
from ragmonitor.causes.slices import Slices
from ragmonitor.stats.signals import outcomes
from tests.support.slice_answers import answer
from tests.support.slice_rows import RATE, SIGNAL, SINCE_S, Traffic, only
from tests.support.streams import JUDGE, Records


def names(*leave_out: str) -> SliceNames:
    return SliceNames(leave_out=leave_out)


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


def test_a_slice_that_always_was_bad_is_not_named():
    """The others got worse, and it did not: no evidence is gained from being bad."""

    def rates(since: bool, values: dict[str, str]) -> float:
        if values["route"] == "legal":
            return 0.3
        return 0.4 if since and values["route"] == "billing" else RATE

    assert Traffic(now=600, rates=rates).discoveries()[0] == "route=billing"
    assert "route=legal" not in Traffic(now=600, rates=rates).discoveries()


def test_a_shift_of_the_mix_is_no_slice_that_got_worse():
    """More of a hard route: nothing got worse."""

    def rates(since: bool, values: dict[str, str]) -> float:
        return 0.3 if values["route"] == "billing" else RATE

    search = Traffic(now=800, billing=(0.1, 0.5), rates=rates).search()
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


def test_a_new_version_is_a_slice():
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


def test_answers_of_one_session_count_once():
    """Twenty bad answers of one session are no evidence against its route."""
    traffic = Traffic(
        before=3_000, now=600, in_sessions_of=20, rates=only(route="billing")(0.5), noise=1
    )
    alike, apart = traffic.slices(), replace(traffic, in_sessions_of=1).slices()
    assert apart[0].is_discovery
    assert not [each for each in alike if each.is_discovery]


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


# --- which slices there are --------------------------------------------------------------------


# --- what is kept ------------------------------------------------------------------------------


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
    row = log.add(given._replace(verdicts=tuple(outcomes(failed).items())))
    assert row.value(SIGNAL) is None
    assert row.value("no such signal") is None
