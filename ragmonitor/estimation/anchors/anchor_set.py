"""The anchors that the processes of a service share, and what is known of them."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Final, Literal

CONFIRMATIONS_FINE: Final = 1
"""The judge has to say the same again so often."""
CONFIRMATIONS_HALLUCINATED: Final = 2
"""More often of the rare verdict, which has the more slips among its own."""
CLAIM_S: Final = 600.0
"""An anchor that a process took to read and does not report for so long is due again."""
CHECKS_SHOWN: Final = 100
DAY_S: Final = 86_400.0

Outcome = Literal["same", "flipped", "missing"]
Cause = Literal["judge", "application", "unknown"]
"""The cause of a rate that rises: the judge became stricter, the answers became worse, or not yet
known."""


@dataclass(frozen=True, slots=True, kw_only=True)
class JudgeChange:
    """The outcome of a change of the judge's identity for the anchors."""

    before: str
    """Identity (`name@version`) of the judge whose verdicts were frozen."""
    after: str
    """The identity of the judge whose verdicts are frozen now."""
    at_s: float
    """Seconds since the epoch."""
    checked: int
    """Anchors that the new judge read."""
    missing: int
    """Anchors of which it gave no verdict, in several tries each."""
    flipped: int
    to_hallucinated: int
    """The number of these that went from fine to hallucinated. The new judge is stricter there."""
    to_fine: int
    """From hallucinated to fine. It is laxer there."""
    p_value: float
    """Chance that one judge, read twice, differs on so many: binomial, `FLIPS_EXPECTED` each."""
    drifted: bool
    """Too many for chance, and nobody had asked to freeze anew."""

    def __str__(self) -> str:
        """Return it as a sentence or two, for an alarm's text."""
        flips = (
            f"The judge changed from {self.before} to {self.after}: {self.flipped} of "
            f"{self.checked} reference answers flipped ({self.to_hallucinated} from fine to "
            f"hallucinated, {self.to_fine} from hallucinated to fine; p = {self.p_value:.2g})."
        )
        if self.drifted:
            return f"{flips} The judge drifted: rates before and after cannot be compared."
        return flips


@dataclass(slots=True, kw_only=True)
class Anchor:
    """An answer that was judged long ago, or is a candidate to become such a one."""

    id: str
    hallucinated: bool | None
    """The frozen verdict; None: the first reading is still to come."""
    joined_s: float
    confirmations: int = 0
    """The number of times that the judge said the same again."""
    flipped: bool = False
    """Whether it flipped at the last check."""
    claimed_until_s: float = 0.0
    label: bool | None = None
    """The label in a person's own file; None: it was drawn from the traffic."""
    in_reserve: bool = False
    """Kept for an inquiry only: fine at its one reading, and never checked day by day."""

    @property
    def is_own(self) -> bool:
        """Whether a person brought it."""
        return self.label is not None

    @property
    def is_confirmed(self) -> bool:
        """Whether it says something of the judge when it flips."""
        needed = CONFIRMATIONS_HALLUCINATED if self.hallucinated else CONFIRMATIONS_FINE
        return self.confirmations >= needed

    def is_free(self, now_s: float) -> bool:
        """Return whether no process reads it just now."""
        # A claim far ahead is of a clock that was set back since.
        return not now_s < self.claimed_until_s <= now_s + DAY_S


@dataclass(slots=True, kw_only=True)
class Rereading:
    """All confirmed anchors, being read by a judge whose verdicts will be the frozen ones."""

    judge: str
    began_s: float
    members: list[str]
    verdicts: dict[str, bool | None] = field(default_factory=dict)
    """None: there was none in `MAX_TRIES` tries."""
    tries: dict[str, int] = field(default_factory=dict)
    is_requested: bool = False
    """A person wants the anchors frozen anew."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """The rise of the judged hallucination rate."""

    before: float
    """Weighted share of hallucinated answers before; 0 to 1."""
    after: float
    """The rate since it began to rise."""
    verdicts: int
    """On which `after` rests."""

    @property
    def size(self) -> float:
        """The height of the rise; 0 if there is none."""
        return max(0.0, self.after - self.before)


@dataclass(slots=True, kw_only=True)
class Inquiry:
    """Asks whether the judge explains an alarm, by reading old answers again."""

    since_s: float
    """The time since which the rate has been rising; an answer that was judged later is no
    witness."""
    opened_s: float
    rise: Rise | None = None
    """None: too few verdicts since."""
    log_ratio: float = 0.0
    """Logarithm of the likelihood ratio of "the judge" over "not the judge"."""
    flips: dict[str, bool] = field(default_factory=dict)
    """Whether its verdict flipped to hallucinated, by id."""
    tries: dict[str, int] = field(default_factory=dict)
    """Readings without a verdict, by id."""
    cause: Cause = "unknown"
    expected_judge: float = 0.0
    """Share of flips expected if the judge explains the rise, at the last reading."""
    expected_else: float = 0.0
    """Share of flips expected of a judge that has not changed."""

    @property
    def is_decided(self) -> bool:
        """Whether the cause is known."""
        return self.cause != "unknown"


@dataclass(slots=True, kw_only=True)
class AnchorSet:
    """The anchors that the processes of a service share."""

    judge: str = ""
    """The judge whose verdicts are frozen."""
    anchors: dict[str, Anchor] = field(default_factory=dict)
    began_s: float = 0.0
    """The time when the first anchor joined."""
    next_check_s: float = 0.0
    draws: int = 0
    rereading: Rereading | None = None
    is_refreeze_requested: bool = False
    rejected: list[str] = field(default_factory=list)
    """A person's own ones on which the judge wavers: not to be taken in again."""
    recent_flips: list[bool] = field(default_factory=list)
    """Whether it flipped, of the last checks, oldest first."""
    last_change: JudgeChange | None = None
    inquiry: Inquiry | None = None
    """Only while an alarm is active."""
    pairs: float = 0.0
    """Readings of fine reference answers that were due."""
    pairs_flipped: float = 0.0
    """The number of these that found them hallucinated."""

    @property
    def checked(self) -> list[Anchor]:
        """Those that are read day by day, candidates among them."""
        return [anchor for anchor in self.anchors.values() if not anchor.in_reserve]

    @property
    def reserve(self) -> list[Anchor]:
        """Those that are kept for an inquiry only."""
        return [anchor for anchor in self.anchors.values() if anchor.in_reserve]

    @property
    def has_confirmed(self) -> bool:
        """Whether there is an anchor that another judge could be compared on."""
        return any(anchor.is_confirmed for anchor in self.anchors.values())

    def note_check(self, flipped: bool) -> None:
        """Add a check to the recent ones."""
        self.recent_flips = [*self.recent_flips, flipped][-CHECKS_SHOWN:]

    def remove(self, identity: str) -> None:
        """Give the place up; what a person brought is not taken in again."""
        if self.anchors.pop(identity).is_own:
            self.rejected.append(identity)

    def forget_verdicts(self) -> None:
        """Keep a person's own anchors only, as if no judge had read them."""
        for identity, anchor in [*self.anchors.items()]:
            if anchor.is_own:
                anchor.hallucinated, anchor.confirmations = None, 0
            else:
                self.remove(identity)


def digest(text: str) -> bytes:
    """Return eight bytes that decide as a draw would, and alike in every process."""
    return hashlib.blake2b(text.encode(), digest_size=8, key=b"ragmonitor anchor").digest()
