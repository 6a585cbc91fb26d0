"""When a provider is left alone, and when it is asked whether it is back."""

import pytest

from ragmonitor.judges.calls import COOL_S, MAX_COOL_S, OPENS_AFTER, Breaker
from ragmonitor.judges.provider import ProviderError
from ragmonitor.testing import ManualClock


@pytest.fixture
def clock():
    return ManualClock()


@pytest.fixture
def breaker(clock):
    return Breaker(name="openai/judge", clock=clock)


def fail(breaker, kind="transient", retry_after_s=None, times=1):
    error = ProviderError("judge", "x", kind=kind)
    error.retry_after_s = retry_after_s
    for _ in range(times):
        with pytest.raises(ProviderError), breaker.attempt():
            raise error


@pytest.mark.parametrize("kind", ["transient", "timeout", "permanent"])
def test_it_opens_after_failures_in_a_row(breaker, kind):
    """A success in between begins anew; open, nothing passes."""
    fail(breaker, kind, times=OPENS_AFTER - 1)
    with breaker.attempt():
        pass
    fail(breaker, kind, times=OPENS_AFTER - 1)
    assert breaker.state == "closed"
    fail(breaker, kind)
    assert (breaker.state, breaker.admits()) == ("open", False)
    with pytest.raises(ProviderError) as caught, breaker.attempt():
        pass
    assert caught.value.kind == "down"


def test_one_probe_passes_and_a_failed_one_doubles_the_pause(breaker, clock):
    """While it is under way nobody else passes; up to a limit the pause doubles."""
    fail(breaker, times=OPENS_AFTER)
    for cool_s in (COOL_S, 2 * COOL_S, 4 * COOL_S):
        clock.advance(cool_s - 0.1)
        assert not breaker.admits()
        clock.advance(0.1)
        fail(breaker)
    clock.advance(MAX_COOL_S)
    assert breaker.state == "half_open"
    with breaker.attempt() as is_probe:
        assert (is_probe, breaker.state, breaker.admits()) == (True, "open", False)
    assert breaker.state == "closed"


def test_a_provider_that_names_a_time_is_left_alone_until_then(breaker, clock):
    """`Retry-After` is kept where it is later than the breaker's own time, up to the limit."""
    fail(breaker, retry_after_s=COOL_S + 15, times=OPENS_AFTER)
    clock.advance(COOL_S + 14.9)
    assert not breaker.admits()
    clock.advance(0.1)
    fail(breaker, retry_after_s=36_000)
    clock.advance(MAX_COOL_S)
    assert breaker.admits()


def test_a_probe_that_never_ends_stops_none_after_it(breaker, clock):
    """Cancelled, or left in the parent of a forked child: the next one is the probe."""
    fail(breaker, times=OPENS_AFTER)
    clock.advance(COOL_S)
    with pytest.raises(KeyboardInterrupt), breaker.attempt():
        raise KeyboardInterrupt
    assert (breaker.state, breaker.admits()) == ("open", False)
    clock.advance(COOL_S)
    assert breaker.admits()
