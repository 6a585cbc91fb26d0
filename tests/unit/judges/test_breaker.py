"""When a provider is left alone, and when it is asked whether it is back."""

import pytest

from ragmonitor.judges.breaker import Breaker
from ragmonitor.judges.provider import ProviderError
from ragmonitor.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def breaker(clock):
    return Breaker(name="openai/judge", opens_after=3, cool_s=10, max_cool_s=40, clock=clock)


def fail(breaker, kind="transient", retry_after_s=None):
    with pytest.raises(ProviderError), breaker.attempt():
        raise ProviderError("x", kind=kind, retry_after_s=retry_after_s)


def opened(breaker):
    for _ in range(3):
        fail(breaker)


def test_it_opens_after_failures_in_a_row(breaker):
    """Two pass, the third opens it, and then nothing passes."""
    states = []
    for _ in range(3):
        states.append(breaker.state)
        fail(breaker)
    assert [*states, breaker.state] == ["closed", "closed", "closed", "open"]
    assert not breaker.admits()
    with pytest.raises(ProviderError, match="for 10 s") as caught:
        breaker.attempt()
    assert caught.value.kind == "down"


def test_a_success_in_between_begins_anew(breaker):
    """Only failures in a row count."""
    fail(breaker)
    fail(breaker)
    with breaker.attempt():
        pass
    fail(breaker)
    fail(breaker)
    assert breaker.state == "closed"


@pytest.mark.parametrize("kind", ["transient", "timeout", "permanent"])
def test_a_dead_provider_opens_it_however_it_is_dead(breaker, kind):
    """Busy, silent, or with a key that is no longer good."""
    for _ in range(3):
        fail(breaker, kind)
    assert breaker.state == "open"


def test_a_refused_request_is_no_failure_of_the_provider(breaker):
    """A text that it will not process says that it works."""
    for _ in range(10):
        fail(breaker, "refused")
    assert breaker.state == "closed"


def test_one_probe_passes_when_its_time_is_over(breaker, clock):
    """While it is under way nobody else does."""
    opened(breaker)
    clock.advance(9.9)
    assert not breaker.admits()
    clock.advance(0.1)
    assert breaker.admits()
    with breaker.attempt() as probe:
        assert probe.is_probe
        assert breaker.state == "half_open"
        assert not breaker.admits()
        with pytest.raises(ProviderError, match="a probe is under way"):
            breaker.attempt()
    assert breaker.state == "closed"


def test_a_failed_probe_opens_it_for_longer(breaker, clock):
    """Twice as long each time, up to a limit."""
    opened(breaker)
    for cool_s in (10, 20, 40, 40):
        clock.advance(cool_s - 0.1)
        assert not breaker.admits()
        clock.advance(0.1)
        fail(breaker)
        assert breaker.state == "open"


def test_a_provider_that_names_a_time_is_left_alone_until_then(breaker, clock):
    """`Retry-After` is kept where it is later than the breaker's own time, up to the limit."""
    for _ in range(3):
        fail(breaker, retry_after_s=25)
    for cool_s in (25, 40):
        clock.advance(cool_s - 0.1)
        assert not breaker.admits()
        clock.advance(0.1)
        fail(breaker, retry_after_s=3_600)


def test_the_log_says_why_a_judge_is_not_asked_once_an_hour(breaker, clock, caplog):
    """The reason stands nowhere else where somebody looks who is called at night."""
    caplog.set_level("WARNING", "ragmonitor")
    opened(breaker)
    for _ in range(5):
        clock.advance(40)
        fail(breaker)
    assert len(caplog.messages) == 1
    assert "the judge openai/judge fails (x): it is not asked for 10 s" in caplog.messages[0]
    clock.advance(3_600)
    fail(breaker)
    assert len(caplog.messages) == 2


def test_a_cancelled_probe_says_nothing(breaker, clock):
    """The next one is the probe."""
    opened(breaker)
    clock.advance(10)
    with pytest.raises(KeyboardInterrupt), breaker.attempt():
        raise KeyboardInterrupt
    assert breaker.state == "open"
    assert breaker.admits()


def test_what_was_under_way_when_it_opened_does_not_open_it_for_longer(breaker, clock):
    """Eight that fail together are one outage."""
    under_way = [breaker.attempt() for _ in range(8)]
    for attempt in under_way:
        attempt.__exit__(ProviderError, ProviderError("x", kind="timeout"), None)
    clock.advance(10)
    assert breaker.admits()


def test_a_late_answer_closes_it(breaker):
    """A call that was under way and succeeds shows that the provider lives."""
    slow = breaker.attempt()
    opened(breaker)
    with slow:
        pass
    assert breaker.state == "closed"


def test_a_forked_child_does_not_wait_for_its_parent_s_probe(breaker, clock, monkeypatch):
    """There it never ends."""
    opened(breaker)
    clock.advance(10)
    with breaker.attempt():
        assert not breaker.admits()
        monkeypatch.setattr("os.getpid", lambda: -1)
        assert breaker.admits()
        monkeypatch.undo()
