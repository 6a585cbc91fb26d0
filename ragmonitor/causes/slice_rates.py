"""The largest slices with their hallucination rates, to be looked at without an alarm."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any, Final

from ragmonitor.causes.answer_log import Row
from ragmonitor.causes.decomposition import PartSums, contribution
from ragmonitor.causes.slice_names import Slice
from ragmonitor.estimation.signals import HALLUCINATION
from ragmonitor.export.service_state import estimate_record

SPAN_S: Final = 86_400.0
"""Up to the newest answer."""
MAX_LISTED: Final = 60
MAX_SHARE: Final = 0.9
"""A slice with more of the answers is the whole."""


def slice_rates(rows: Iterable[Row]) -> list[dict[str, Any]]:
    """Return the slices with the most answers of the last day, the largest first.

    Args:
        rows: Answers, in any order.

    Returns:
        Of each its name, `answers`, its `share` of them all, how many are `judged`, and its
        hallucination `rate` with its 95 % interval (None: too little is known).
    """
    known = list(rows)
    since_s = max((row.at_s for row in known), default=0.0) - SPAN_S
    known = [row for row in known if row.at_s > since_s]
    counts: Counter[Slice] = Counter()
    for row in known:
        for each in row.slices:
            counts[each] += row.copies  # type: ignore[assignment]  # floats are counted
    total = sum(row.copies for row in known)
    sums = {
        each: PartSums()
        for each, count in counts.most_common(2 * MAX_LISTED)
        if count <= MAX_SHARE * total
    }
    sums = dict(list(sums.items())[:MAX_LISTED])
    for row in known:
        value = row.value(HALLUCINATION)
        adds = contribution(row, since=True, value=value, predicted=row.expected)
        for each in row.slices:
            if each in sums:
                sums[each].add(adds)
    return [
        {
            "name": "=".join(each),
            "answers": round(counts[each]),
            "share": round(counts[each] / total, 5),
            "judged": found.judged[1],
            "rate": None if (rate := found.estimate(True)) is None else estimate_record(rate),
        }
        for each, found in sums.items()
    ]
