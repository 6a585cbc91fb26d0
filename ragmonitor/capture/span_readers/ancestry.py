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
        children = self._children()
        found: set[str] = set()
        pending = [each for other in others for each in children.get(other, ())]
        while pending:
            span_id = pending.pop()
            if span_id not in found:
                found.add(span_id)
                pending += children.get(span_id, ())
        return found

    def depths(self) -> dict[str, int]:
        """Return by id how many spans enclose it; spans that enclose themselves are left out."""
        children = self._children()
        depths: dict[str, int] = {}
        pending = [(i, 0) for i, above in self._parents.items() if above not in self._parents]
        while pending:
            span_id, depth = pending.pop()
            depths[span_id] = depth
            pending += ((each, depth + 1) for each in children.get(span_id, ()))
        return depths

    def _children(self) -> dict[str, list[str]]:
        children: dict[str, list[str]] = {}
        for span_id, above in self._parents.items():
            children.setdefault(above, []).append(span_id)
        return children
