"""What is named as the cause of a rise, on the sums of a store in memory."""

from __future__ import annotations

import pytest

from ragmonitor.causes.answer_slices import AnswerSlices
from ragmonitor.causes.documents import CAPACITY
from ragmonitor.causes.versions import OVER_S
from ragmonitor.records import JudgeIdentity
from ragmonitor.stats.sums import ANSWERS
from ragmonitor.stats.tick import Tick
from ragmonitor.store import HOUR_S, StoreUnavailableError
from tests.support.core_service import BEGAN_S, CoreService, reported

ROUTES = ("billing", "faq", "faq", "returns")


def by_route(number):
    return {"route": ROUTES[number % 4]}


def named(service, since_s):
    found = service.causes.explain("hallucination", since_s)
    return [(each.kind, each.name) for each in found.parts], found


def test_a_route_that_got_worse_is_named_with_its_rates_and_its_part_of_the_rise():
    """It had a quarter of the traffic before and since: the rise goes with its rate."""
    service = CoreService()
    service.run(HOUR_S, 0.02, attributes=by_route)
    since_s = service.now_s
    service.run(900.0, lambda a, _: 0.6 if a["route"] == "billing" else 0.02, attributes=by_route)
    parts, found = named(service, since_s)
    assert parts == [("slice", "route=billing")]
    [part] = found.parts
    assert part.before.mean < 0.1
    assert part.now.mean > 0.4
    assert not found.is_everywhere


def test_a_document_that_was_replaced_is_named():
    """Documents are compared as slices are, though none has a series."""
    service = CoreService()
    documents = lambda n: (f"{'abcde'[n % 5]}.md", f"{'vwxyz'[n % 7 % 5]}.md")  # noqa: E731
    service.run(HOUR_S, 0.02, documents=documents)
    since_s = service.now_s
    service.run(1_800.0, lambda _, d: 0.6 if "c.md" in d else 0.02, documents=documents)
    assert named(service, since_s)[0] == [("document", "c.md")]
    means = [service.store.read(f"r{t}") for t in service.store.names("r")]
    assert not any("source=" in name for rows in means for name in rows)
    [worst, *_] = service.causes.documents.views()["documents"]["listed"]
    assert worst["document"] == "c.md"
    assert worst["contradicted"] > 50
    assert worst["shown"] == worst["retrieved"] or worst["retrieved"] >= worst["shown"]


def test_a_part_that_fails_stops_no_alarm():
    """Nor are sums lost as the service ends; a row that cannot be read is written anew."""
    service = CoreService()
    service.process.statistics.parts[0].tick = lambda: 1 / 0
    service.store.keep("versions", "all", b"{}")
    service.run(900.0, 0.5)
    assert [each.signal for each in service.events] == ["hallucination"]
    service.answer({}, ["a.md"], is_bad=True)
    service.process.statistics.close()
    sums = Tick(service.store).sums(0.0)
    assert sums["model::hallucination"][ANSWERS] == service.number + 1


def test_what_is_known_of_documents_is_kept_while_the_store_is_away(monkeypatch):
    """Blocks that close meanwhile are added up once it is back."""

    def away(_kind):
        raise StoreUnavailableError("away")

    service = CoreService()
    service.run(240.0, 0.1)
    service.now_s += HOUR_S
    with monkeypatch.context() as patched:
        patched.setattr(service.store, "names", away)
        service.evaluate()
    service.evaluate()
    kept = [service.store.read(f"c{t}") for t in service.store.names("c")]
    assert any("source=" in series for rows in kept for series in rows)


@pytest.mark.parametrize("content", ["none", "hashed"])
def test_a_document_that_may_not_be_named_is_named_by_its_id(content):
    """Its source is a text."""
    service = CoreService(content=content)
    documents = lambda n: (f"{'abcde'[n % 5]}.md",)  # noqa: E731
    service.run(600.0, lambda _, d: 0.9 if "c.md" in d else 0.02, documents=documents, each_s=1.0)
    assert named(service, BEGAN_S)[0] == [("document", "c-c.md")]


def test_a_rise_of_all_answers_is_everywhere():
    """It is said once a whole block of time was compared, and no noise with it."""
    service = CoreService()
    service.run(HOUR_S, 0.02, attributes=by_route)
    since_s = service.now_s
    service.run(120.0, 0.5, attributes=by_route)
    assert not named(service, since_s)[1].is_everywhere
    service.run(1_200.0, 0.5, attributes=by_route)
    parts, found = named(service, since_s)
    assert parts == []
    assert found.is_everywhere


def test_a_tenant_that_is_merely_active_at_a_bad_hour_is_not_named():
    """Who answered at the same time is compared."""
    service = CoreService()
    quiet = lambda n: {"tenant": "abcd"[n % 4]}  # noqa: E731
    busy = lambda n: {"tenant": "a" if n % 3 else "abcd"[n % 4]}  # noqa: E731
    for _ in range(4):
        service.run(1_200.0, 0.02, attributes=quiet, each_s=5.0)
        service.run(1_200.0, 0.35, attributes=busy, each_s=5.0)
    assert named(service, BEGAN_S)[0] == []


def test_more_answers_of_a_kind_that_always_was_bad_are_a_shift_of_the_mix():
    """No slice got worse; one line says what the rise goes with."""
    service = CoreService()
    is_hard = lambda a, _: 0.5 if a["kind"] == "hard" else 0.02  # noqa: E731
    service.run(HOUR_S, is_hard, attributes=lambda n: {"kind": "easy" if n % 10 else "hard"})
    since_s = service.now_s
    service.run(HOUR_S, is_hard, attributes=lambda n: {"kind": "easy" if n % 2 else "hard"})
    found = service.causes.explain("hallucination", since_s)
    assert found.shift is not None
    dimension, share = found.shift
    assert dimension == "kind"
    assert share == pytest.approx(1, abs=0.2)


def test_a_rise_that_began_with_the_first_answer_is_no_shift_of_the_mix():
    """There is no mix before it to compare with."""
    service = CoreService()
    service.run(600.0, 0.5, attributes=by_route)
    assert named(service, BEGAN_S)[1].shift is None


# --- versions -------------------------------------------------------------------------------------


def canary(share):
    return lambda n: {"service_version": "1.1" if n % 100 < 100 * share else "1.0"}


def test_a_version_that_is_worse_raises_one_alarm_and_is_named():
    """It ends when the version is silent."""
    service = CoreService()
    service.run(HOUR_S, 0.02, attributes=canary(0))
    since_s = service.now_s
    service.run(
        HOUR_S,
        lambda a, _: 0.5 if a["service_version"] == "1.1" else 0.02,
        attributes=canary(0.3),
    )
    [event] = [each for each in service.events if each.signal == "version_worse"]
    assert "service_version 1.1 is worse than 1.0" in event.detail
    [state] = service.causes.versions.alarm_states()
    assert state.active
    assert named(service, since_s)[0] == [("version", "version 1.1")]
    gauges = service.causes.versions.gauges()
    of = ("signal", "hallucination")
    bounds = {each.labels[-1][1]: each.value for each in gauges if of in each.labels}
    assert 0 < bounds["lower"] < bounds["mean"] < bounds["upper"]
    found = service.causes.versions.records()["versions"]
    assert {(each["candidate"], each["baseline"]) for each in found} == {("1.1", "1.0")}

    other = service.another().causes
    for part in other.parts:
        part.tick()
    [state] = other.versions.alarm_states()
    assert state.active, "another process knows of it"
    service.run(OVER_S + 120, 0.02, attributes=canary(0))
    [state] = service.causes.versions.alarm_states()
    assert not state.active
    assert [each.signal for each in service.events].count("version_worse") == 1


def test_a_canary_that_is_ramped_up_while_everything_gets_worse_is_not_worse():
    """The same version by another name: 5 % of the traffic at a calm hour, 50 % at a bad one."""
    service = CoreService()
    service.run(HOUR_S, 0.02, attributes=canary(0.05))
    service.run(HOUR_S, 0.3, attributes=canary(0.5))
    assert "version_worse" not in [each.signal for each in service.events]
    for found in service.causes.versions.records()["versions"]:
        assert found["lower"] < 0 < found["upper"]


# --- events ---------------------------------------------------------------------------------------


def test_what_happened_shortly_before_stands_beside():
    """A deployment, a change of the judge, what the application says; redacted and cut."""
    service = CoreService(service_version="1.0")
    service.run(HOUR_S, 0.02)
    clean = lambda text, _: text.replace("secret", "***")  # noqa: E731
    service.causes.event("reindexed secret", {"index": "v7"}, service.now_s, clean)
    since_s = service.now_s
    service.run(600.0, 0.5, judge=JudgeIdentity(name="model", version="2", kind="LLM"))
    found = service.causes.explain("hallucination", since_s)
    kinds = {each.kind: each for each in found.events}
    assert kinds["event"].name == "reindexed *** (index=v7)"
    assert "model" in kinds["judge_change"].name
    assert "deployment" not in kinds, "it was an hour ago"
    records = service.causes.history.records()["events"]
    assert {each["kind"] for each in records} == {"event", "judge_change", "deployment"}
    assert all("attributes" not in each for each in records)


# --- slices of an answer --------------------------------------------------------------------------


def test_ids_numbers_of_chunks_and_private_attributes_make_no_slice():
    """What comes up again and again does."""
    slices = AnswerSlices(version="1.0")
    for n in range(10):
        found = slices(reported(f"i-{n}", {"route": "a", "request": f"r{n}", "user_id": "u"}))
    assert found == {"route": "a", "service_version": "1.0", "language": "en"}


def test_the_table_of_documents_is_bounded():
    """The newest and the worst stay."""
    service = CoreService()
    service.answer({}, ["bad.md"], is_bad=True)
    for n in range(3 * CAPACITY):
        service.now_s += 1
        service.answer({}, [f"{n}.md"], is_bad=False)
    found = service.causes.documents.views()["documents"]
    assert found["kept"] <= 2 * CAPACITY
    assert found["listed"][0]["document"] == "bad.md"
