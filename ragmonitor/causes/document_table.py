"""The documents that are retrieved most, in bounded memory."""

from __future__ import annotations

import hashlib
import math
from array import array
from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Final, NamedTuple

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


def key_of(chunk: Chunk) -> Hashable:
    """Return what tells a chunk's document apart within this process: source, id, or text.

    The source comes first: frameworks give every chunk of a document an id of its own.
    """
    return chunk.source or chunk.id or hash(chunk.text)


def keys_of(chunks: Sequence[Chunk]) -> list[Hashable]:
    """Return the same for each chunk."""
    name = SOURCES[0]
    # Mostly the first name under which a source is looked for is there; this runs for every chunk.
    keys: list[Hashable] = []
    for chunk in chunks:
        metadata = chunk.metadata
        key = metadata.get(name) if metadata else None
        keys.append(key if key and key.__class__ is str else key_of(chunk))
    return keys


def name_of(chunk: Chunk, policy: ContentPolicy) -> str:
    """Return a document's name for people: where it is from, else its id, else a hash.

    Sources are texts, and shown under `content="all"` only; ids are none.
    """
    source = chunk.source
    if source and policy.content == "all":
        return source[:MAX_NAME]
    if chunk.id:
        return chunk.id[:MAX_NAME]
    return hashed_name(source or chunk.text, policy)


def hashed_name(text: str, policy: ContentPolicy) -> str:
    """Return the name of a document of which only a text tells it from others."""
    data = text.encode("utf-8", "replace")
    digest = hashlib.blake2b(data, key=policy.key[:64], digest_size=6).hexdigest()
    return f"document-{digest}"


ShownFor = tuple[PairedAnswer, float, float, float, bool, str]
"""One answer, for the documents that it was shown: as evidence; when it was given, in seconds since
the epoch; 1 / inclusion probability, 0 without a verdict; the same, negative if it is hallucinated,
0 if that does not apply; whether the judge rated its chunks; its session, empty if it has none or
says nothing as evidence."""


class Verdict(NamedTuple):
    """One judged answer that a document was shown for."""

    at_s: float
    weight: float
    """1 / inclusion probability."""
    bad: bool


class Document:
    """The counts of one document. Counts are of answers, each for one."""

    __slots__ = (
        *("name", "id", "unshown", "shown", "rated", "relevant", "judged"),
        *("rests_on", "contradicted", "weight", "rests_on_weight", "contradicted_weight"),
        *("evidence", "last_s", "session", "taken_off", "waiting"),
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
        self.session = ""
        """The session of the newest judged answer: one session counts once in a row."""
        self._times = array("d")
        self._weights = array("f")
        """Negative: a hallucinated answer."""
        self._next = 0

    @property
    def retrieved(self) -> int:
        """Answers that it was retrieved for."""
        return self.shown + self.unshown

    def add_up(self) -> None:
        """Take in the answers that wait, but for their number, which `shown` is.

        As evidence, answers of a session that come in a row count for one: they are alike.
        """
        answers, self.waiting, evidence = self.waiting, [], []
        judged, rated, total, session = self.judged, self.rated, self.weight, self.session
        times, weights, at = self._times, self._weights, self._next
        is_full = len(times) == MAX_VERDICTS
        # Written out, in local variables: this runs for every document of every answer.
        for paired, at_s, weight, signed, is_rated, of_session in answers:
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
                if of_session:
                    if of_session == session:
                        continue
                    session = of_session
            evidence.append(paired)
        self.judged, self.rated, self.weight, self.session = judged, rated, total, session
        self._next = at
        self.last_s = at_s
        self.evidence.add(evidence)

    @property
    def complete_from_s(self) -> float:
        """The time since which every verdict is kept, in seconds since the epoch."""
        return -math.inf if len(self._times) < MAX_VERDICTS else min(self._times)

    def verdicts(self) -> Iterator[Verdict]:
        """Yield the newest verdicts, in no order."""
        for at_s, signed in zip(self._times, self._weights, strict=True):
            yield Verdict(at_s, abs(signed), signed < 0)


def add_verdict(sums: list[float], weight: float, bad: bool) -> None:
    """Add a verdict to sums as `moments_from` reads them."""
    sums[0] += 1
    sums[1] += weight
    square = weight * weight
    sums[2] += square
    if bad:
        sums[3] += 1
        sums[4] += weight
        sums[5] += square


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
        self._waiting_answers = 0
        self.known = self._documents.get
        """Returns the document of a key, or None; whoever asks counts it: `shown` or `unshown`."""
        self.forgotten = 0
        """Documents that gave way to more frequent ones; one may do so several times."""

    def __len__(self) -> int:
        """Return how many documents are kept."""
        return len(self._documents)

    def __iter__(self) -> Iterator[Document]:
        """Yield the documents that are kept."""
        self.add_up()
        return iter(self._documents.values())

    def new(self, key: Hashable, chunk: Chunk, others: Others, at_s: float) -> Document:
        """Keep the document of a chunk that is not known."""
        if len(self._documents) >= 2 * self._capacity:
            self._trim()
        new = Document(name_of(chunk, self._policy), chunk.id[:MAX_NAME], others, at_s)
        self._documents[key] = new
        return new

    def add(self, documents: Iterable[Document], answer: ShownFor) -> None:
        """Take in an answer for the documents that it was shown, each once."""
        for document in documents:
            waiting = document.waiting
            if not waiting:
                self._waiting.append(document)
            waiting.append(answer)
        self._waiting_answers += 1
        if self._waiting_answers >= MAX_WAITING:
            self.add_up()

    def add_up(self) -> None:
        """Let the documents take in the answers that wait."""
        for document in self._waiting:
            document.add_up()
        self._waiting.clear()
        self._waiting_answers = 0

    def _trim(self) -> None:
        documents = self._documents
        counts = sorted((each.retrieved - each.taken_off for each in self), reverse=True)
        off = max(1, counts[self._capacity])
        for key, document in tuple(documents.items()):
            document.taken_off += off
            if document.taken_off >= document.retrieved:
                del documents[key]
        self.forgotten += len(counts) - len(documents)
