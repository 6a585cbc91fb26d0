"""What is known of the anchors, and what is told of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final, Literal

SETTLED_FINE: Final = 1
"""How often the judge has to say the same again."""
SETTLED_HALLUCINATED: Final = 2
"""More often of the rare verdict, which has the more slips among its own."""
CLAIM_S: Final = 600.0
"""What a process took to read and says nothing of for so long is due again."""
CHECKS_SHOWN: Final = 100
DAY_S: Final = 86_400.0

Outcome = Literal["same", "flipped", "missing"]
Cause = Literal["judge", "application", "unknown"]
"""Of a rate that rises: the judge became stricter, the answers became worse, or not yet known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RulerChange:
    """What became of the anchors when the judge's identity changed."""

    before: str
    """Identity (`name@version`) of the judge whose verdicts were frozen."""
    after: str
    """Of the one whose verdicts are frozen now."""
    at_s: float
    """Seconds since the epoch."""
    checked: int
    """Anchors that the new judge read."""
    missing: int
    """Anchors of which it gave no verdict, in several tries each."""
    flipped: int
    to_hallucinated: int
    """Of these: from fine to hallucinated. The new judge is stricter there."""
    to_fine: int
    """From hallucinated to fine. It is laxer there."""
    p_value: float
    """Chance that one judge, read twice, differs on so many: binomial, `FLIPS_EXPECTED` each."""
    moved: bool
    """Too many for chance, and nobody had asked to freeze anew."""

    def __str__(self) -> str:
        """Say it in a sentence or two, for an alarm's text."""
        told = (
            f"The judge changed from {self.before} to {self.after}: {self.flipped} of "
            f"{self.checked} anchors flipped ({self.to_hallucinated} from fine to hallucinated, "
            f"{self.to_fine} from hallucinated to fine; p = {self.p_value:.2g})."
        )
        if self.moved:
            return f"{told} The ruler moved: rates before and after cannot be compared."
        return told


@dataclass(slots=True, kw_only=True)
class Anchor:
    """An answer that was judged long ago, or is a candidate to become such a one."""

    id: str
    hallucinated: bool | None
    """The frozen verdict; None: the first reading is still to come."""
    joined_s: float
    agreed: int = 0
    """How often the judge said the same again."""
    flipped: bool = False
    """At the last check."""
    claimed_until_s: float = 0.0
    given: bool = False
    """Brought by a person, not drawn from the traffic."""
    said: bool | None = None
    """What that person says of it."""
    reserve: bool = False
    """Kept for an inquiry only: fine at its one reading, and never checked day by day."""
    lot: bytes = field(init=False)
    """The hash that decides which fine ones stay."""

    def __post_init__(self) -> None:
        self.lot = digest(self.id)

    @property
    def settled(self) -> bool:
        """Whether it says something of the judge when it flips."""
        return self.agreed >= (SETTLED_HALLUCINATED if self.hallucinated else SETTLED_FINE)

    def is_free(self, now_s: float) -> bool:
        """Whether no process reads it just now."""
        # A claim far ahead is of a clock that was set back since.
        return not now_s < self.claimed_until_s <= now_s + DAY_S


@dataclass(slots=True, kw_only=True)
class Batch:
    """All anchors, being read by a judge that is not the one whose verdicts are frozen."""

    to: str
    began_s: float
    members: list[str]
    verdicts: dict[str, bool | None] = field(default_factory=dict)
    """None: there was none in `TRIES_MOST` tries."""
    tries: dict[str, int] = field(default_factory=dict)
    asked: bool = False
    """Somebody wants the anchors frozen anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """By how much the judged hallucination rate has risen."""

    before: float
    """Weighted share of hallucinated answers before; 0 to 1."""
    after: float
    """The same, since it began to rise."""
    verdicts: int
    """On which `after` rests."""

    @property
    def size(self) -> float:
        """How much higher it is; 0 if it is not."""
        return max(0.0, self.after - self.before)


@dataclass(slots=True, kw_only=True)
class Inquiry:
    """Asks whether the judge explains an alarm, by reading old answers again."""

    since_s: float
    """Since when the rate has been rising; an answer that was judged later is no witness."""
    opened_s: float
    rise: Rise | None = None
    """None: too few verdicts since."""
    log_ratio: float = 0.0
    """Logarithm of the likelihood ratio of "the judge" over "not the judge"."""
    read: dict[str, bool] = field(default_factory=dict)
    """Whether its verdict flipped to hallucinated, by id."""
    tries: dict[str, int] = field(default_factory=dict)
    """Readings without a verdict, by id."""
    cause: Cause = "unknown"
    expected_judge: float = 0.0
    """Share of flips expected if the judge explains the rise, at the last reading."""
    expected_else: float = 0.0
    """Share of flips expected of a judge that has not changed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Read:
    """One reading of an anchor."""

    id: str
    verdict: bool | None
    by: str
    at_s: float


@dataclass(slots=True, kw_only=True)
class State:
    """What the processes share."""

    judge: str = ""
    """Whose verdicts are frozen."""
    anchors: dict[str, Anchor] = field(default_factory=dict)
    began_s: float = 0.0
    """When the first anchor joined."""
    next_at_s: float = 0.0
    draws: int = 0
    batch: Batch | None = None
    refreeze: bool = False
    aliases: dict[str, str] = field(default_factory=dict)
    """Who read, by who was asked to: a model that rejects the strict form of reply is asked as one
    judge and answers as another, after every start."""
    past: dict[str, float] = field(default_factory=dict)
    """Judges that were replaced, and when."""
    left: list[str] = field(default_factory=list)
    """Given ones that wobbled: not to be taken in again."""
    recent: list[bool] = field(default_factory=list)
    """Whether it flipped, of the last checks, oldest first."""
    last_change: RulerChange | None = None
    inquiry: Inquiry | None = None
    """Only while an alarm is active."""
    pairs: float = 0.0
    """Fine answers that the judge read twice within a day."""
    pairs_flipped: float = 0.0
    """Of these, those that it found hallucinated at the second reading."""

    def note(self, flipped: bool) -> None:
        """Take a check into the recent ones."""
        self.recent = [*self.recent, flipped][-CHECKS_SHOWN:]


def digest(text: str) -> bytes:
    """Return eight bytes that decide as a lot would, and alike in every process."""
    return hashlib.blake2b(text.encode(), digest_size=8, key=b"ragmonitor anchor").digest()
