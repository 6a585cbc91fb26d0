"""The documents that are retrieved most, in bounded memory."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections import defaultdict, deque
from collections.abc import Hashable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final

from ragmonitor.causes.paired_evidence import Others, PairedAnswer, PairedEvidence
from ragmonitor.export.content import ContentPolicy
from ragmonitor.records import SOURCES, Chunk, Moments

CAPACITY: Final = 2_000
"""Documents that are kept for certain; twice as many are, until the rarer ones give way."""
MAX_VERDICTS: Final = 256
"""The newest verdicts of a document, from which its share of hallucinated answers follows."""
_LAST: Final = MAX_VERDICTS - 1
MAX_NAME: Final = 200
MAX_WAITING: Final = 256
"""Answers that are added up at once."""
SLOT_S: Final = 30.0
_NONE: Final[Mapping[str, Any]] = {}
_SLOTS: Final = 5_760
"""Two days."""


def key_of(chunk: Chunk) -> Hashable:
    """Return what tells a chunk's document apart within this process: source, id, or text.

    The source comes first: frameworks give every chunk of a document an id of its own.
    """
    return chunk.source or chunk.id or hash(chunk.text)


def name_of(chunk: Chunk, policy: ContentPolicy) -> str:
    """Return a document's name for people: where it is from, else its id, else a hash.

    Sources are texts, and shown under `content="all"` only; ids are none.
    """
    source = chunk.source
    if source and policy.content == "all":
        return source[:MAX_NAME]
    if chunk.id:
        return chunk.id[:MAX_NAME]
    text = (source or chunk.text).encode("utf-8", "replace")
    digest = hashlib.blake2b(text, key=policy.key[:64], digest_size=6).hexdigest()
    return f"document-{digest}"


ShownFor = tuple[PairedAnswer, float, float, float, bool]
"""One answer, for the documents that it was shown: as evidence; when it was given, in seconds since
the epoch; 1 / inclusion probability, 0 without a verdict; the same, negative if it is hallucinated,
0 if that does not apply; whether the judge rated its chunks."""


class Document:
    """The counts of one document. Counts are of answers, each for one."""

    __slots__ = (
        *("name", "id", "unshown", "shown", "rated", "relevant", "judged"),
        *("rests_on", "contradicted", "weight", "rests_on_weight", "contradicted_weight"),
        *("evidence", "last_s", "taken_off", "waiting"),
        *("_times", "_weights", "_next"),
    )

    def __init__(self, name: str, of_store: str, others: Others, at_s: float) -> None:
        """Begin with nothing but a name and the store's id."""
        self.name = name
        self.id = of_store
        self.shown = 0
        self.unshown = 0
        """Answers that it was retrieved for and not shown."""
        self.taken_off = 0
        """The part of `retrieved` that `DocumentTable` took off: documents that are retrieved no
        more go."""
        self.rated = 0
        """Answers for which a judge rated its relevance."""
        self.relevant = 0
        self.judged = 0
        """Answers that it was shown for and that the judge of quality scored."""
        self.rests_on = 0
        """The number of these with a sentence that it supports."""
        self.contradicted = 0
        """The number of these with a sentence that it contradicts."""
        self.weight = self.rests_on_weight = self.contradicted_weight = 0.0
        """The same number, each for 1 / inclusion probability."""
        self.evidence = PairedEvidence(others, at_s)
        self.last_s = at_s
        self.waiting: list[ShownFor] = []
        """Answers that it was shown for, to be taken in together, which takes half the time."""
        self._times = array("d")
        self._weights = array("f")
        """Negative: a hallucinated answer."""
        self._next = 0

    @property
    def retrieved(self) -> int:
        """Answers that it was retrieved for."""
        return self.shown + self.unshown

    def add_up(self) -> None:
        """Take in the answers that wait."""
        answers, self.waiting = self.waiting, []
        judged, rated, total = self.judged, self.rated, self.weight
        times, weights, at = self._times, self._weights, self._next
        is_full = len(times) == MAX_VERDICTS
        # Written out, in local variables: this runs for every document of every answer.
        for _, at_s, weight, signed, is_rated in answers:
            if weight:
                judged += 1
                total += weight
                if is_rated:
                    rated += 1
                if signed:
                    if is_full:
                        times[at], weights[at] = at_s, signed
                        at = at + 1 if at < _LAST else 0
                    else:
                        times.append(at_s)
                        weights.append(signed)
                        is_full = len(times) == MAX_VERDICTS
        self.judged, self.rated, self.weight, self._next = judged, rated, total, at
        self.shown += len(answers)
        self.last_s = at_s
        self.evidence.add([answer[0] for answer in answers])

    @property
    def complete_from_s(self) -> float:
        """The time since which every verdict is kept, in seconds since the epoch."""
        return -math.inf if len(self._times) < MAX_VERDICTS else min(self._times)

    def verdicts(self) -> Iterator[tuple[float, float]]:
        """Yield the newest verdicts: when each was given, and its weight, negative for a bad one.

        They come in no order.
        """
        return zip(self._times, self._weights, strict=True)


def add_verdicts(sums: list[float], signed: Sequence[float]) -> None:
    """Add verdicts to sums as `moments_from` reads them.

    Args:
        sums: Added to.
        signed: 1 / inclusion probability of each, negative for a bad one.
    """
    bad = [weight for weight in signed if weight < 0]
    sums[0] += len(signed)
    sums[1] = sum(map(abs, signed), sums[1])
    sums[2] = sum([weight * weight for weight in signed], sums[2])
    if bad:
        sums[3] += len(bad)
        sums[4] -= sum(bad)
        sums[5] = sum([weight * weight for weight in bad], sums[5])


def moments_from(sums: list[float]) -> Moments:
    """Return sums of verdicts as `Moments`: counts, weights and squared weights, all and bad."""
    n, weight, square, bad, bad_weight, bad_square = sums
    return Moments(
        answers=n,
        value=bad_weight,
        scored=weight,
        value_value=bad_square,
        value_scored=bad_square,
        scored_scored=square,
        judged=n,
        judged_value=bad,
        judged_value_squared=bad,
        drawn_count=n,
        drawn=weight,
        drawn_squared=square,
        awaited=weight,
    )


class DocumentTable:
    """Counts how often each document is retrieved, and keeps the most frequent ones.

    Past twice its capacity, the count of the document in the place after the last is taken off
    all, and what is left with nothing is forgotten: any document that makes up more than
    1 / capacity of what is retrieved is kept, and none is counted too often. Verdicts play no part
    in what is kept.

    Source:
        Misra and Gries, "Finding repeated elements" (1982); Agarwal et al., "Mergeable summaries"
        (2013), ACM TODS 38(4), section 2, for taking off at once.
    """

    def __init__(self, policy: ContentPolicy, *, capacity: int = CAPACITY) -> None:
        """Begin without a document."""
        self._policy = policy
        self._capacity = capacity
        self._documents: dict[Hashable, Document] = {}
        self._waiting: list[Document] = []
        """Documents that have answers waiting."""
        self._waiting_answers: list[ShownFor] = []
        self.slots: deque[tuple[float, list[float]]] = deque(maxlen=_SLOTS)
        """The slots of all judged answers: when a slot began, and sums as `moments_from` reads
        them."""
        self.others = Others()
        self.forgotten = 0
        """Documents that gave way to more frequent ones; one may do so several times."""

    def __len__(self) -> int:
        """Return how many documents are kept."""
        return len(self._documents)

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents that are kept."""
        self.add_up()
        return iter(self._documents.values())

    def of(self, chunks: Sequence[Chunk], at_s: float) -> list[Document]:
        """Return the document of each chunk, kept from now on.

        Who asks counts the answer for it, by `add` or as `unshown`.
        """
        documents, name = self._documents, SOURCES[0]
        try:
            # Mostly all of them are known, and the first name under which a source is looked for is
            # there; this runs for every chunk.
            return [
                documents[
                    source
                    if (source := (chunk.metadata or _NONE).get(name)) and type(source) is str
                    else key_of(chunk)
                ]
                for chunk in chunks
            ]
        except KeyError:
            return [self._kept(chunk, at_s) for chunk in chunks]

    def _kept(self, chunk: Chunk, at_s: float) -> Document:
        key = key_of(chunk)
        known = self._documents.get(key)
        if known is None:
            name, of_store = name_of(chunk, self._policy), chunk.id[:MAX_NAME]
            known = self._documents[key] = Document(name, of_store, self.others, at_s)
        return known

    def add(self, documents: AbstractSet[Document], answer: ShownFor) -> None:
        """Take in an answer for the documents that it was shown."""
        for document in documents:
            waiting = document.waiting
            if not waiting:
                self._waiting.append(document)
            waiting.append(answer)
        self._waiting_answers.append(answer)
        if len(self._waiting_answers) >= MAX_WAITING:
            self.add_up()
        if len(self._documents) > 2 * self._capacity:
            self._trim()

    def add_up(self) -> None:
        """Let the documents and the slots take in the answers that wait."""
        for document in self._waiting:
            document.add_up()
        slots, by_slot = self.slots, defaultdict(list)
        start_s = slots[-1][0] if slots else -math.inf
        for _, at_s, _, signed, _ in self._waiting_answers:
            if signed:
                # Answers are completed in another order than they were given: by minutes at most.
                if at_s >= start_s + SLOT_S:
                    start_s = at_s // SLOT_S * SLOT_S
                by_slot[start_s].append(signed)
        for start_s, verdicts in by_slot.items():
            if not slots or start_s > slots[-1][0]:
                slots.append((start_s, [0.0] * 6))
            add_verdicts(slots[-1][1], verdicts)
        self._waiting.clear()
        self._waiting_answers.clear()

    def _trim(self) -> None:
        documents = self._documents
        counts = sorted((each.retrieved - each.taken_off for each in self), reverse=True)
        off = max(1, counts[self._capacity])
        for key, document in tuple(documents.items()):
            document.taken_off += off
            if document.taken_off >= document.retrieved:
                del documents[key]
        self.forgotten += len(counts) - len(documents)
