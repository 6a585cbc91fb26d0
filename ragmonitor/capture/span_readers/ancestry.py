"""Says which spans of one trace enclose which."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping


class Ancestry:
    """Answers from parent ids. Its sums over a trace are linear in the trace's spans."""

    def __init__(self, parents: Mapping[str, str]) -> None:
        """Take the parents of the spans.

        Args:
            parents: By a span's id, that of its parent; empty: it has none.
        """
        self._parents = parents

    def above(self, span_id: str) -> Iterator[str]:
        """Yield the ids of what encloses a span in this process, from the inside out."""
        seen = {span_id}
        above = self._parents.get(span_id, "")
        while above and above not in seen:
            seen.add(above)
            yield above
            above = self._parents.get(above, "")

    def enclosing(self, span_ids: Iterable[str]) -> set[str]:
        """Return the ids of all that encloses any of these."""
        enclosing: set[str] = set()
        for span_id in span_ids:
            above = self._parents.get(span_id, "")
            while above and above not in enclosing:
                enclosing.add(above)
                above = self._parents.get(above, "")
        return enclosing

    def below(self, others: Collection[str]) -> set[str]:
        """Return the ids of all that any of these encloses."""
        known: dict[str, bool] = {"": False}
        """Whether a span, or one that encloses it, is among the others."""
        for span_id in self._parents:
            path: list[str] = []
            at = span_id
            while at not in known:
                known[at] = at in others
                path.append(at)
                at = "" if known[at] else self._parents.get(at, "")
            held = known[at]
            for each in reversed(path):
                held = known[each] = known[each] or held
        # A parent that is not among the spans may not have been come to.
        return {i for i, parent in self._parents.items() if known.get(parent, parent in others)}

    def depths(self) -> dict[str, int]:
        """Return by id how many spans enclose it."""
        depths: dict[str, int] = {"": -1}
        for span_id in self._parents:
            path: list[str] = []
            at = span_id
            while at not in depths:
                depths[at] = 0
                path.append(at)
                at = self._parents.get(at, "")
            for each in reversed(path):
                depths[each] = depths[self._parents.get(each, "")] + 1
        return depths
