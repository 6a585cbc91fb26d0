"""Whether the judge still judges as it did: old answers that it reads again.

A hallucination rate that rises says that the application became worse or the judge stricter. The
application cannot change answers that were given long ago, so whatever changes in their verdicts is
the judge: "the ruler moved", and not "the system moved".

The life of an anchor:

- An answer that the judge has read becomes a candidate. It is an anchor, "settled", once the judge
  has read it again and said the same; twice, if it said hallucinated. Slips are commoner among the
  rare verdict: where 4 % are hallucinated and one verdict in a hundred is a slip, one in five of
  the "hallucinated" is, and half of the anchors are of that kind. They would flip back and look
  like a judge that moved.
- Each day some anchors, drawn at random, are read again and compared with their frozen verdict.
  Drawn, and not taken in turn: then the chance of a flip at the next check is the share of anchors
  that flip, whatever came before, which is what the alarm's bets suppose.
- An anchor that flips and then comes back was never settled; it leaves, and its place is free.
- When the judge's identity changes all anchors are read at once by the new judge, their flips are
  tested against what two readings by one judge differ by, and the new judge's verdicts are frozen
  instead of the old ones: from then on the new judge is the ruler, and a later silent change is one
  of *its* verdicts. Until then they stay the first judge's, however often they flip; who accepts a
  judge that moved in silence says so with `refreeze`.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from ragmonitor import conventions
from ragmonitor.errors import InputError
from ragmonitor.guard import logger, record_error
from ragmonitor.protocols import Clock
from ragmonitor.records import Chunk, Interaction, JudgeIdentity, Reading
from ragmonitor.state import StateFile

VERSION: Final = 1
"""Of the state's shape."""
ANCHORS_MOST: Final = 100
CHARACTERS_MOST: Final = 60_000
"""Of an anchor's texts; a longer one would be read in many calls."""
COLLECT_S: Final = 7 * 86_400.0
"""For so long hallucinated answers may still take the places of fine ones."""
SETTLED_FINE: Final = 1
"""How often the judge has to say the same again."""
SETTLED_HALLUCINATED: Final = 2
"""More often of the rare verdict, which has the more slips among its own."""
CLAIM_S: Final = 600.0
"""What a process took to read and says nothing of for so long is due again."""
TRIES_MOST: Final = 5
"""After so many readings without a verdict a batch does without that anchor. Between them the pause
doubles, from `CLAIM_S`: two and a half hours in all, longer than most outages of a provider."""
BATCH_S: Final = 3_600.0
"""A batch that takes longer gives way to another judge."""
COOLDOWN_S: Final = 86_400.0
"""A judge that was replaced is not turned back to before: while a service is being rolled out old
and new processes share the anchors, and each would have them all read for its own judge."""
LOOK_AGAIN_S: Final = 300.0
"""How old our view of what other processes did may be."""

FLIPS_EXPECTED: Final = 0.03
"""Share of anchors on which two readings by one judge differ."""
SIGNIFICANT: Final = 0.01
CHECKS_SHOWN: Final = 100
CHECKS_LEAST: Final = 20
"""Below, no flip rate is shown."""
OUTCOMES_MOST: Final = 10_000
DAY_S: Final = 86_400.0

Outcome = Literal["same", "flipped", "missing"]
Result = TypeVar("Result")


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


def binomial_tail(hits: int, n: int, chance: float) -> float:
    """Return the chance of at least `hits` among n independent trials, summed exactly."""
    return min(
        1.0,
        math.fsum(
            math.comb(n, k) * chance**k * (1 - chance) ** (n - k)
            for k in range(max(0, hits), n + 1)
        ),
    )


@dataclass(slots=True, kw_only=True)
class _Anchor:
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
    lot: bytes = field(init=False)
    """The hash that decides which fine ones stay."""

    def __post_init__(self) -> None:
        self.lot = _hash(self.id)

    @property
    def settled(self) -> bool:
        """Whether it says something of the judge when it flips."""
        return self.agreed >= (SETTLED_HALLUCINATED if self.hallucinated else SETTLED_FINE)


@dataclass(slots=True, kw_only=True)
class _Batch:
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
class _Read:
    """One reading of an anchor."""

    id: str
    verdict: bool | None
    by: str
    at_s: float


@dataclass(slots=True, kw_only=True)
class _State:
    """What the processes share."""

    judge: str = ""
    """Whose verdicts are frozen."""
    anchors: dict[str, _Anchor] = field(default_factory=dict)
    began_s: float = 0.0
    """When the first anchor joined."""
    next_at_s: float = 0.0
    draws: int = 0
    batch: _Batch | None = None
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


class Anchors:
    """Keeps up to a hundred frozen answers, half of them hallucinated where there are such.

    With a file its processes share the anchors, and each due one is read by one of them. Without
    one each process has its own, for as long as it lives. To be used from one thread.
    """

    def __init__(
        self, *, per_day: int, file: StateFile | None = None, keep_texts: bool = False
    ) -> None:
        """Touch nothing yet.

        Args:
            per_day: How many to read again each day, spread evenly; 0: there are no anchors.
            file: Where they are kept, of version `VERSION`.
            keep_texts: Their questions, chunks and answers may stand in the file. If not they
                are in memory only, and so are the anchors.
        """
        self._per_day = per_day
        self._file = file if keep_texts else None
        self._state = _State()
        self._texts: dict[str, Interaction] = {}
        """What there is to read, by id; of shared anchors those that this process has met."""
        self._clear_outcomes()

    def _clear_outcomes(self) -> None:
        self._quiet_until_s = -math.inf
        self._quiet_for = ""
        self._outcomes: deque[tuple[float, bool]] = deque(maxlen=OUTCOMES_MOST)
        self._changes: deque[RulerChange] = deque(maxlen=ANCHORS_MOST)
        self._checks: dict[str, int] = {"same": 0, "flipped": 0, "missing": 0}

    # --- becoming an anchor ---------------------------------------------------------------------

    def offer(self, interaction: Interaction, hallucinated: bool, identity: JudgeIdentity) -> None:
        """Let a judged answer become an anchor, if there is a place for it.

        Args:
            interaction: After redaction. Its question, chunks and answer are kept.
            hallucinated: What the judge says of it.
            identity: Who says so; a fallback's verdicts are not taken.
        """
        if not self._per_day or _characters(interaction) > CHARACTERS_MOST:
            return
        name, at_s = str(identity), interaction.ended_ns / 1e9
        # A look at what we know first: once they are frozen an offer costs next to nothing.
        if _place(self._state, interaction.id, hallucinated, name, at_s) is None:
            return

        def take_in(state: _State) -> bool:
            place = _place(state, interaction.id, hallucinated, name, at_s)
            if place is None:
                return False
            if not state.anchors:
                state.judge, state.began_s, state.batch = name, at_s, None
            if place:
                _leave(state, place)
            self._texts[interaction.id] = _bare(interaction)
            state.anchors[interaction.id] = _Anchor(
                id=interaction.id, hallucinated=hallucinated, joined_s=at_s
            )
            return True

        self._change(take_in)

    def load(self, path: Path) -> int:
        """Take in a person's own anchors, and return how many there are now.

        One JSON object a line: `question`, `contexts` (a list of texts), `answer` and
        `hallucinated`, true or false. They come before answers of the traffic. What is frozen is
        the judge's own first verdict, so that a judge that errs is not one that moved; where it
        differs from what the file says is logged.

        Raises:
            InputError: The file, or a line of it, cannot be read; nothing was taken in.
        """
        given = _read_given(path)
        if len(given) > ANCHORS_MOST:
            logger.warning(
                "ragmonitor: %s: of %d anchors the first %d are used",
                path,
                len(given),
                ANCHORS_MOST,
            )
        given = dict([*given.items()][:ANCHORS_MOST])

        def take_in(state: _State) -> bool:
            gone = [i for i, a in state.anchors.items() if a.given and i not in given]
            for identity in gone:
                _leave(state, identity)
            state.left = [identity for identity in state.left if identity in given]
            new = [i for i in given if i not in state.anchors and i not in state.left]
            for identity in new:
                if len(state.anchors) >= ANCHORS_MOST:
                    _leave(state, next(i for i, a in state.anchors.items() if not a.given))
                state.anchors[identity], self._texts[identity] = given[identity]
            return bool(gone or new)

        self._change(take_in)
        return sum(anchor.given for anchor in self._state.anchors.values())

    # --- reading them again ---------------------------------------------------------------------

    def due(
        self, now_s: float, identity: JudgeIdentity, *, most: int = ANCHORS_MOST
    ) -> Sequence[Interaction]:
        """Return the anchors that the judge is to read now, each to one process.

        The day's share comes one by one. After a change of the judge's identity all of them come:
        one first, and the rest once that was read by the new judge, since a judge may find at its
        first reading that it is another one (a model that rejects the form asked for).

        What is not reported with `checked` is due again after ten minutes: if there is no money for
        it now, nothing needs to be done. Readings must not come out of a cache.

        Args:
            now_s: Seconds since the epoch.
            identity: Of the judge that would read; not of a fallback.
            most: How many at most.
        """
        name = str(identity)
        if not self._per_day or most < 1:
            return ()
        if self._quiet_for == name and now_s < self._quiet_until_s <= now_s + LOOK_AGAIN_S:
            return ()
        claimed: list[Interaction] = []

        def claim(state: _State) -> bool:
            claimed.clear()
            if not state.anchors:
                return False
            before = (state.judge, state.batch, len(state.anchors))
            for anchor in self._claimable(state, now_s, name)[:most]:
                anchor.claimed_until_s = now_s + CLAIM_S
                texts = self._read_texts(anchor.id)
                if texts is None:
                    _leave(state, anchor.id)  # nobody can read it any more
                else:
                    claimed.append(texts)
            return bool(claimed) or before != (state.judge, state.batch, len(state.anchors))

        self._change(claim)
        self._quiet_for = name
        self._quiet_until_s = now_s + (LOOK_AGAIN_S / 10 if self._state.batch else LOOK_AGAIN_S)
        if self._state.batch is None and self._state.next_at_s > now_s:
            self._quiet_until_s = min(self._quiet_until_s, self._state.next_at_s)
        return tuple(claimed)

    def _claimable(self, state: _State, now_s: float, name: str) -> list[_Anchor]:
        name = state.aliases.get(name, name)
        if not state.judge:
            state.judge = name
        if not any(anchor.settled for anchor in state.anchors.values()):
            # Nothing to compare a new judge with; whether it is one its first reading will say.
            state.refreeze, state.batch = False, None
            return self._of_day(state, now_s)
        batch = state.batch
        if batch is None or batch.to != name:
            if state.judge != name or state.refreeze:
                if not self._turn(state, now_s, name):
                    return []
            elif batch is not None:
                if _lasts(batch, now_s):
                    return []
                state.batch = None  # whoever wanted the other judge has gone
        if state.batch is not None:
            return _of_batch(state, state.batch, now_s)
        return self._of_day(state, now_s)

    def _turn(self, state: _State, now_s: float, name: str) -> bool:
        """Have all anchors read by another judge; return whether that may begin."""
        if state.batch is not None and _lasts(state.batch, now_s):
            return False
        replaced_s = state.past.get(name)
        if replaced_s is not None and 0 <= now_s - replaced_s < COOLDOWN_S:
            return False
        state.batch = _Batch(
            to=name,
            began_s=now_s,
            members=[i for i, anchor in state.anchors.items() if anchor.settled],
            asked=state.refreeze,
        )
        state.refreeze = False
        return True

    def _of_day(self, state: _State, now_s: float) -> list[_Anchor]:
        between_s = DAY_S / self._per_day
        # A clock that was set back must not silence the checks until it is as late again.
        if now_s < state.next_at_s <= now_s + 2 * between_s:
            return []
        state.draws += 1
        free = {i: anchor for i, anchor in state.anchors.items() if _is_free(anchor, now_s)}
        candidates = {i: anchor for i, anchor in free.items() if not anchor.settled}
        settled = {i: anchor for i, anchor in free.items() if anchor.settled}
        # By turns: checks begin with the first anchor and not when the last one has settled.
        drawn_of = candidates if candidates and (state.draws % 2 or not settled) else settled
        if not drawn_of:
            return []
        late_s = now_s - state.next_at_s
        state.next_at_s = now_s + between_s - (late_s if 0 <= late_s < between_s else 0.0)
        if drawn_of is candidates:
            return [min(candidates.values(), key=lambda anchor: anchor.joined_s)]
        return [settled[min(settled, key=lambda i: _hash(f"{state.draws} {i}"))]]

    def checked(
        self,
        interaction_id: str,
        hallucinated: bool | None,
        identity: JudgeIdentity,
        at_s: float,
    ) -> Outcome | None:
        """Take a reading in, and return what it says of the judge.

        Args:
            interaction_id: Of one that was due.
            hallucinated: The verdict; None: the judge gave none.
            identity: Who read it; of the reading, not of who was asked to.
            at_s: Seconds since the epoch.

        Returns:
            None if it says nothing of the judge: the anchor was still settling, has left
            meanwhile, or was read by another judge.
        """
        told: list[Outcome | None] = [None]
        read = _Read(id=interaction_id, verdict=hallucinated, by=str(identity), at_s=at_s)

        def take_in(state: _State) -> bool:
            anchor = state.anchors.get(interaction_id)
            told[0] = None
            if anchor is None:
                return False
            if hallucinated is not None:  # if it is, another try now would fail as well
                anchor.claimed_until_s = 0.0
            told[0] = self._take_in(state, anchor, read)
            return True

        self._quiet_until_s = -math.inf
        self._change(take_in)
        outcome = told[0]
        if outcome is not None:
            self._checks[outcome] += 1
        return outcome

    def _take_in(self, state: _State, anchor: _Anchor, read: _Read) -> Outcome | None:
        batch = state.batch
        if read.verdict is not None:
            state.aliases.pop(read.by, None)
            if batch is not None and not batch.verdicts and read.by != batch.to:
                state.aliases[batch.to] = read.by
                batch.to = read.by
                if read.by == state.judge and not batch.asked:
                    state.batch = batch = None  # nothing has changed after all
        if batch is not None and read.id in batch.members and read.id not in batch.verdicts:
            return self._take_into_batch(state, batch, read)
        if read.verdict is None:
            if anchor.given:
                anchor.joined_s = read.at_s  # others are tried before it
            elif not anchor.settled:
                _leave(state, read.id)
            return "missing"
        if read.by != state.judge:
            if not any(other.settled for other in state.anchors.values()):
                _begin_anew(state, read)
            return None
        if not anchor.settled:
            _settle(state, read.id, read.verdict)
            return None
        flipped = read.verdict is not anchor.hallucinated
        self._outcomes.append((read.at_s, flipped))
        state.recent = [*state.recent, flipped][-CHECKS_SHOWN:]
        if anchor.flipped and not flipped:
            _leave(state, read.id)
        anchor.flipped = flipped
        return "flipped" if flipped else "same"

    def _take_into_batch(self, state: _State, batch: _Batch, read: _Read) -> Outcome | None:
        outcome: Outcome = "missing"
        if read.verdict is None or read.by != batch.to:
            tries = batch.tries[read.id] = batch.tries.get(read.id, 0) + 1
            state.anchors[read.id].claimed_until_s = read.at_s + CLAIM_S * 2 ** (tries - 1)
            if tries >= TRIES_MOST:
                batch.verdicts[read.id] = None
        else:
            batch.verdicts[read.id] = read.verdict
            flipped = read.verdict is not state.anchors[read.id].hallucinated
            state.recent = [*state.recent, flipped][-CHECKS_SHOWN:]
            outcome = "flipped" if flipped else "same"
        if all(member in batch.verdicts for member in batch.members if member in state.anchors):
            self._changes.append(_freeze(state, batch, read.at_s))
        return outcome

    def refreeze(self) -> None:
        """Have all anchors read again and frozen with what the judge says now.

        For after a silent change of the judge that was found and accepted. It is reported as a
        change, and not as a ruler that moved.
        """

        def ask(state: _State) -> bool:
            state.refreeze = True
            return True

        self._change(ask)
        self._quiet_until_s = -math.inf

    # --- what it says ---------------------------------------------------------------------------

    def take(self) -> Sequence[tuple[float, bool]]:
        """Return the daily checks since the last call: when, and whether the verdict flipped.

        Of this process only; those after a change of judge are in `changes` instead.
        """
        taken = tuple(self._outcomes)
        self._outcomes.clear()
        return taken

    def changes(self) -> Sequence[RulerChange]:
        """Return the changes of judge since the last call, in the process that completed them."""
        taken = tuple(self._changes)
        self._changes.clear()
        return taken

    @property
    def last_change(self) -> RulerChange | None:
        """The last change of judge that any process completed, as far as it is known here."""
        return self._state.last_change

    def checks(self) -> Mapping[str, int]:
        """Return how many checks this process made so far, by outcome."""
        return dict(self._checks)

    def readings(self, judge: str) -> Sequence[Reading]:
        """Return how many anchors there are, and how often they flip, under the judge's name."""
        labels = (("judge", judge),)
        state = self._state
        told = [Reading(name=conventions.ANCHORS, value=len(state.anchors), labels=labels)]
        if len(state.recent) >= CHECKS_LEAST:
            rate = sum(state.recent) / len(state.recent)
            told.append(Reading(name=conventions.ANCHOR_FLIP_RATE, value=rate, labels=labels))
        return told

    def clear(self) -> None:
        """Forget what was counted and not yet taken, for a forked child; shared anchors stay."""
        if self._file is None:
            self._state, self._texts = _State(), {}
        self._clear_outcomes()

    # --- the state ------------------------------------------------------------------------------

    def _change(self, step: Callable[[_State], bool]) -> None:
        """Apply a step to the shared state, while nobody else does; keep it if the step says so.

        Without the file, because of the disk, it is applied to what we know.
        """
        with contextlib.ExitStack() as stack:
            file = self._file
            if file is not None:
                try:
                    stack.enter_context(file.alone())
                    self._state = self._read(file)
                except OSError as error:
                    record_error("estimation", error)
                    file = None
            before = set(self._state.anchors)
            is_changed = step(self._state)
            after = set(self._state.anchors)
            if is_changed and file is not None:
                try:
                    self._keep_texts(file, after - before)
                    file.write(_to_json(self._state))
                    for identity in before - after:
                        self._text_file(file, identity).path.unlink(missing_ok=True)
                except OSError as error:
                    record_error("estimation", error)
            for identity in self._texts.keys() - after:
                del self._texts[identity]

    # Texts have files of their own: the state is read and written at every check, and parsing a
    # megabyte would hold up the application's threads meanwhile.

    def _text_file(self, file: StateFile, identity: str) -> StateFile:
        folder = file.path.with_suffix("")
        return StateFile(folder / f"{_hash(identity).hex()}.json", version=VERSION)

    def _keep_texts(self, file: StateFile, identities: Iterable[str]) -> None:
        for identity in identities:
            kept = self._text_file(file, identity)
            kept.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            kept.write(_texts_to_json(self._texts[identity]))

    def _read_texts(self, identity: str) -> Interaction | None:
        if identity not in self._texts and self._file is not None:
            try:
                told = self._text_file(self._file, identity).read()
                if told is not None:
                    self._texts[identity] = _texts_of_json(told)
            except (OSError, ValueError, KeyError, TypeError) as error:
                record_error("estimation", error)
        return self._texts.get(identity)

    def _read(self, file: StateFile) -> _State:
        try:
            told = file.read()
            return _State() if told is None else _of_json(told)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            # Anchors come again by themselves; a monitor that stops over them would be worse.
            record_error("estimation", ValueError(f"{file.path}: anchors begin anew: {error}"))
            return _State()


# --- one anchor -----------------------------------------------------------------------------------


def _place(state: _State, identity: str, hallucinated: bool, judge: str, at_s: float) -> str | None:
    """Return whose place an answer may take: an anchor's id, or "" for a free one; None: nobody's.

    Hallucinated answers are rare, so fine ones hold their places until they come. Among fine ones
    that have not settled those with the smallest hash stay: a random part of all that were
    offered, the same in every process.
    """
    if identity in state.anchors:
        return None
    if state.anchors and (state.judge != judge or state.batch is not None):
        return None
    bad = sum(anchor.hallucinated is True for anchor in state.anchors.values())
    if hallucinated and bad >= ANCHORS_MOST // 2:
        return None
    if len(state.anchors) < ANCHORS_MOST:
        return ""
    if bad >= ANCHORS_MOST // 2 or at_s - state.began_s > COLLECT_S:
        return None
    fine = [a for a in state.anchors.values() if a.hallucinated is False and not a.given]
    candidates = [anchor for anchor in fine if not anchor.settled]
    last = max(candidates, key=lambda anchor: anchor.lot, default=None)
    if hallucinated:
        last = last or max(fine, key=lambda anchor: anchor.lot, default=None)
    elif last is not None and _hash(identity) > last.lot:
        return None
    return None if last is None else last.id


def _settle(state: _State, identity: str, verdict: bool) -> None:
    anchor = state.anchors[identity]
    if anchor.hallucinated is None:
        anchor.hallucinated = verdict
        if anchor.said is not None and anchor.said is not verdict:
            logger.warning(
                "ragmonitor: the judge reads an anchor unlike its file says: %s, not %s: %s",
                _word(verdict),
                _word(anchor.said),
                identity,
            )
    elif verdict is anchor.hallucinated:
        anchor.agreed += 1
    else:
        _leave(state, identity)


def _leave(state: _State, identity: str) -> None:
    anchor = state.anchors.pop(identity)
    if anchor.given:
        state.left.append(identity)


def _is_free(anchor: _Anchor, now_s: float) -> bool:
    # A claim far ahead is of a clock that was set back since.
    return not now_s < anchor.claimed_until_s <= now_s + DAY_S


def _bare(interaction: Interaction) -> Interaction:
    """Return what a judge reads of an interaction, and no more."""
    return Interaction(
        id=interaction.id,
        query=interaction.query,
        chunks=tuple(Chunk(text=chunk.text, id=chunk.id) for chunk in interaction.chunks),
        answer=interaction.answer,
        framework=interaction.framework,
        started_ns=interaction.started_ns,
        ended_ns=interaction.ended_ns,
    )


def _characters(interaction: Interaction) -> int:
    chunks = sum(len(chunk.text) for chunk in interaction.chunks)
    return len(interaction.query) + len(interaction.answer) + chunks


def _hash(text: str) -> bytes:
    return hashlib.blake2b(text.encode(), digest_size=8, key=b"ragmonitor anchor").digest()


def _word(hallucinated: bool) -> str:
    return "hallucinated" if hallucinated else "fine"


# --- all of them at once --------------------------------------------------------------------------


def _lasts(batch: _Batch, now_s: float) -> bool:
    return 0 <= now_s - batch.began_s < BATCH_S


def _of_batch(state: _State, batch: _Batch, now_s: float) -> list[_Anchor]:
    waiting = [
        state.anchors[i] for i in batch.members if i in state.anchors and i not in batch.verdicts
    ]
    free = [anchor for anchor in waiting if _is_free(anchor, now_s)]
    if any(verdict is not None for verdict in batch.verdicts.values()):
        return free
    return free[:1] if len(free) == len(waiting) else []


def _begin_anew(state: _State, read: _Read) -> None:
    """Give up candidates of a judge that is another one now, before any of them has settled."""
    for identity, anchor in [*state.anchors.items()]:
        if anchor.given:
            anchor.hallucinated, anchor.agreed = None, 0
        else:
            _leave(state, identity)
    state.judge = read.by


def _freeze(state: _State, batch: _Batch, at_s: float) -> RulerChange:
    """Make the new judge's verdicts the frozen ones."""
    read = {
        i: verdict
        for i in batch.members
        if i in state.anchors and (verdict := batch.verdicts.get(i)) is not None
    }
    flipped = [i for i, verdict in read.items() if verdict is not state.anchors[i].hallucinated]
    strict = sum(read[i] for i in flipped)
    p_value = binomial_tail(len(flipped), len(read), FLIPS_EXPECTED)
    change = RulerChange(
        before=state.judge,
        after=batch.to,
        at_s=at_s,
        checked=len(read),
        missing=len(batch.members) - len(read),
        flipped=len(flipped),
        to_hallucinated=strict,
        to_fine=len(flipped) - strict,
        p_value=p_value,
        moved=p_value < SIGNIFICANT and not batch.asked,
    )
    for identity, anchor in [*state.anchors.items()]:
        if identity in read:
            # Of those that flipped the new judge has said so once; the others it has confirmed.
            if read[identity] is not anchor.hallucinated:
                anchor.hallucinated, anchor.agreed = read[identity], 0
        elif anchor.given:
            anchor.hallucinated, anchor.agreed = None, 0
        else:
            _leave(state, identity)
        anchor.flipped = False
    if state.judge != batch.to:
        state.past[state.judge] = at_s
        state.past.pop(batch.to, None)
        for known in (state.past, state.aliases):
            while len(known) > ANCHORS_MOST:
                del known[next(iter(known))]
    state.judge, state.batch = batch.to, None
    state.last_change = change
    return change


# --- files ----------------------------------------------------------------------------------------


def _read_given(path: Path) -> dict[str, tuple[_Anchor, Interaction]]:
    found: dict[str, tuple[_Anchor, Interaction]] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        problem = error.strerror if isinstance(error, OSError) else "no UTF-8"
        raise InputError(f"{path}: {problem or error}") from error
    for number, line in enumerate(lines, 1):
        if line.strip():
            try:
                anchor, texts = _given(json.loads(line))
            except (ValueError, InputError) as error:
                raise InputError(f"{path}, line {number}: {error}") from error
            found[anchor.id] = anchor, texts
    return found


def _given(told: object) -> tuple[_Anchor, Interaction]:
    if not isinstance(told, dict):
        raise InputError("not a JSON object")
    question, answer = told.get("question"), told.get("answer")
    contexts, hallucinated = told.get("contexts"), told.get("hallucinated")
    if not isinstance(question, str) or not isinstance(answer, str):
        raise InputError("`question` and `answer` are texts, and needed")
    if not isinstance(contexts, list) or not all(isinstance(text, str) for text in contexts):
        raise InputError("`contexts` is a list of texts, and needed")
    if not isinstance(hallucinated, bool):
        raise InputError("`hallucinated` is true or false, and needed")
    identity = f"given-{_hash(json.dumps([question, contexts, answer])).hex()}"
    texts = Interaction(
        id=identity,
        query=question,
        chunks=tuple(Chunk(text=text) for text in contexts),
        answer=answer,
        framework="python",
        started_ns=0,
        ended_ns=0,
    )
    anchor = _Anchor(id=identity, hallucinated=None, joined_s=0.0, given=True, said=hallucinated)
    return anchor, texts


def _to_json(state: _State) -> dict[str, Any]:
    return {
        "judge": state.judge,
        "began_s": state.began_s,
        "next_at_s": state.next_at_s,
        "draws": state.draws,
        "refreeze": state.refreeze,
        "aliases": state.aliases,
        "past": state.past,
        "left": state.left,
        "recent": state.recent,
        "batch": None if state.batch is None else asdict(state.batch),
        "last_change": None if state.last_change is None else asdict(state.last_change),
        "anchors": [_anchor_to_json(anchor) for anchor in state.anchors.values()],
    }


def _anchor_to_json(anchor: _Anchor) -> dict[str, Any]:
    # Not `asdict`, which copies every value: a hundred of these are written at each check.
    return {name: getattr(anchor, name) for name in _KEPT}


_KEPT: Final = tuple(told.name for told in fields(_Anchor) if told.init)


def _texts_to_json(texts: Interaction) -> dict[str, Any]:
    return {
        "id": texts.id,
        "query": texts.query,
        "chunks": [[chunk.id, chunk.text] for chunk in texts.chunks],
        "answer": texts.answer,
        "framework": texts.framework,
        "started_ns": texts.started_ns,
        "ended_ns": texts.ended_ns,
    }


def _texts_of_json(told: Mapping[str, Any]) -> Interaction:
    return Interaction(
        id=str(told["id"]),
        query=str(told["query"]),
        chunks=tuple(Chunk(id=str(name), text=str(text)) for name, text in told["chunks"]),
        answer=str(told["answer"]),
        framework=str(told["framework"]),
        started_ns=int(told["started_ns"]),
        ended_ns=int(told["ended_ns"]),
    )


def _of_json(told: Mapping[str, Any]) -> _State:
    """Return the state. Raises `ValueError`, `KeyError`, `TypeError`, `AttributeError`."""
    batch, change = told["batch"], told["last_change"]
    anchors = [_Anchor(**anchor) for anchor in told["anchors"]]
    return _State(
        judge=str(told["judge"]),
        began_s=float(told["began_s"]),
        next_at_s=float(told["next_at_s"]),
        draws=int(told["draws"]),
        refreeze=bool(told["refreeze"]),
        aliases={str(asked): str(by) for asked, by in told["aliases"].items()},
        past={str(name): float(at_s) for name, at_s in told["past"].items()},
        left=[str(identity) for identity in told["left"]],
        recent=[bool(flipped) for flipped in told["recent"]],
        batch=None if batch is None else _Batch(**batch),
        last_change=None if change is None else RulerChange(**change),
        anchors={anchor.id: anchor for anchor in anchors},
    )


# --- the judge against itself ---------------------------------------------------------------------


class FlipRate:
    """How often a judge contradicts itself on one answer, over the last day."""

    WINDOW_S: Final = DAY_S
    PAIRS_LEAST: Final = 5.0
    """Below so many, an older one counting less, nothing is said."""

    def __init__(self, *, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._aged_at_s = clock()
        self._differing = 0.0
        self._weight = 0.0
        self._pairs = 0.0

    def add(self, first: bool, second: bool, weight: float = 1.0) -> None:
        """Take in two verdicts of one judge on one answer.

        Args:
            first: Whether the first reading found it hallucinated.
            second: Whether the second did.
            weight: 1 / chance that the answer was judged, so that the rate is that of all answers.
        """
        self._age()
        self._pairs += 1
        self._weight += weight
        self._differing += weight * (first is not second)

    @property
    def disagreement(self) -> float | None:
        """Share of answers on which two readings differ; None: too few were read twice."""
        self._age()
        if self._pairs < self.PAIRS_LEAST:
            return None
        return self._differing / self._weight

    @property
    def error(self) -> float | None:
        """Share of verdicts that chance alone turned, as it follows; 0 to 1/2.

        Two readings differ if one of them was turned, and the other was not: d = 2 e (1 - e), so
        e = (1 - sqrt(1 - 2 d)) / 2. It knows nothing of errors that both readings share.
        """
        differing = self.disagreement
        return None if differing is None else (1 - math.sqrt(max(0.0, 1 - 2 * differing))) / 2

    def readings(self, judge: str) -> Sequence[Reading]:
        """Return the share of answers on which two readings differ, under the judge's name."""
        differing = self.disagreement
        if differing is None:
            return ()
        return (
            Reading(name=conventions.JUDGE_FLIP_RATE, value=differing, labels=(("judge", judge),)),
        )

    def _age(self) -> None:
        now_s = self._clock()
        share = math.exp(-max(0.0, now_s - self._aged_at_s) / self.WINDOW_S)
        self._aged_at_s = now_s
        self._differing *= share
        self._weight *= share
        self._pairs *= share
