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
        self.children: dict[str, list[str]] = {}
        """By a span's id, those of the spans whose parent it is."""
        for span_id, above in parents.items():
            self.children.setdefault(above, []).append(span_id)
        self.order = [span_id for span_id, above in parents.items() if above not in parents]
        """The ids from the outside in; spans that enclose themselves are left out."""
        for span_id in self.order:
            self.order += self.children.get(span_id, ())

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
        found = {self._parents.get(span_id, "") for span_id in span_ids}
        for span_id in reversed(self.order):
            if span_id in found:
                found.add(self._parents[span_id])
        return found

    def below(self, others: Collection[str]) -> set[str]:
        """Return the ids of all that any of these encloses."""
        found: set[str] = set()
        for span_id in self.order:
            above = self._parents[span_id]
            if above in others or above in found:
                found.add(span_id)
        return found
