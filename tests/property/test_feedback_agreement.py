"""How people and a judge agree, beside a plain count."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from ragmonitor.estimation.feedback_store import FeedbackStore, KnownAnswer
from ragmonitor.feedback import feedback_of

IDS = st.integers(0, 5)
PIECES = st.lists(
    st.tuples(IDS, st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from(["thumbs", "stars"])),
    max_size=20,
)


@given(
    verdicts=st.lists(st.sampled_from([True, False, None]), min_size=6, max_size=6),
    pieces=PIECES,
    batch=st.integers(1, 5),
    since=st.integers(0, 20),
)
def test_the_four_counts_are_those_of_a_plain_count(verdicts, pieces, batch, since):
    """Of an answer the newest word of each kind counts, and of those the newest with a direction.

    However the pieces are cut into batches; answers without a verdict take no part.
    """
    store = FeedbackStore(None, max_answers=100)
    store.exchange([_answer(n, verdict) for n, verdict in enumerate(verdicts)], [])
    told = [
        feedback_of(f"a{n}", value, kind=kind, at_s=float(at))
        for at, (n, value, kind) in enumerate(pieces)
    ]
    for begin in range(0, len(told), batch):
        store.exchange([], told[begin : begin + batch])

    newest = {(each.interaction_id, each.kind): each for each in told}
    spoken = {
        each.interaction_id: each
        for each in sorted(newest.values(), key=lambda each: each.at_s)
        if each.is_good is not None and each.at_s >= since
    }
    counts = Counter(
        (each.is_good, verdicts[int(id_[1:])])
        for id_, each in spoken.items()
        if verdicts[int(id_[1:])] is not None
    )
    found = store.agreement("judge@1", since_s=float(since), sampled=True)
    assert found is not None
    assert found.answers == counts.total()
    assert (found.both_good, found.both_bad) == (counts[True, False], counts[False, True])
    assert (found.people_only, found.judge_only) == (counts[False, False], counts[True, True])


def _answer(n: int, judged: bool | None) -> KnownAnswer:
    return KnownAnswer(
        id=f"a{n}",
        at_s=0.0,
        reader="builtin@1",
        read=None,
        judge="judge@1",
        judged=judged,
        trace_id="",
        span_id="",
        sampled=False,
        trace_state="",
    )
