"""The anchors of one service."""

from __future__ import annotations

import contextlib
import math
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from ragmonitor import metrics
from ragmonitor.estimation.anchors.batches import freeze, is_complete, take_into
from ragmonitor.estimation.anchors.draws import claimable
from ragmonitor.estimation.anchors.files import (
    read_state,
    read_texts,
    state_to_json,
    texts_file,
    write_texts,
)
from ragmonitor.estimation.anchors.given import read_given
from ragmonitor.estimation.anchors.inquiry import (
    RESERVE_CHARACTERS_MOST,
    expected_shares,
    has_room,
    learn_rise,
    open_inquiry,
    readings_needed,
    reserve_place,
    testify,
    witnesses,
)
from ragmonitor.estimation.anchors.places import (
    ANCHORS_MOST,
    CHARACTERS_MOST,
    bare,
    begin_anew,
    characters,
    leave,
    place_for,
    settle,
)
from ragmonitor.estimation.anchors.records import (
    CLAIM_S,
    Anchor,
    Inquiry,
    Outcome,
    Read,
    Rise,
    RulerChange,
    State,
)
from ragmonitor.guard import record_unkept
from ragmonitor.records import AlarmCause, GaugeValue, Interaction, JudgeIdentity
from ragmonitor.state import StateFile

LOOK_AGAIN_S: Final = 300.0
"""How old our view of what other processes did may be."""
INQUIRY_LOOK_S: Final = 10.0
"""The same, while it is asked why a rate rises."""
CHECKS_LEAST: Final = 20
"""Below, no flip rate is shown."""
OUTCOMES_MOST: Final = 10_000


class Anchors:
    """Keeps up to a hundred frozen answers, half of them hallucinated where there are such.

    Beside them stand up to 500 fine answers in reserve, which are read again only when an alarm
    asks whether the judge or the application explains it.

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
        self._state = State()
        self._texts: dict[str, Interaction] = {}
        """What there is to read, by id; of shared anchors those that this process has met."""
        self._clear_outcomes()

    def _clear_outcomes(self) -> None:
        self._quiet_until_s = -math.inf
        self._quiet_for = ""
        self._outcomes: deque[tuple[float, bool]] = deque(maxlen=OUTCOMES_MOST)
        self._changes: deque[RulerChange] = deque(maxlen=ANCHORS_MOST)
        self._checks: dict[str, int] = {"same": 0, "flipped": 0, "missing": 0}
        self._is_decided = False
        self._pairs = self._pairs_flipped = 0.0
        """Answers read twice that the shared state does not know of yet."""

    # --- becoming an anchor ---------------------------------------------------------------------

    def offer(self, interaction: Interaction, hallucinated: bool, identity: JudgeIdentity) -> None:
        """Let a judged answer become an anchor, if there is a place for it.

        Args:
            interaction: After redaction. Its question, chunks and answer are kept.
            hallucinated: What the judge says of it.
            identity: Who says so; a fallback's verdicts are not taken.
        """
        if not self._per_day or characters(interaction) > CHARACTERS_MOST:
            return
        name, at_s = str(identity), interaction.ended_ns / 1e9
        # A look at what we know first: once they are frozen an offer costs next to nothing.
        is_short = characters(interaction) <= RESERVE_CHARACTERS_MOST

        def places(state: State) -> tuple[str | None, bool]:
            place = place_for(state, interaction.id, hallucinated, name, at_s)
            if place is not None or hallucinated or not is_short:
                return place, False
            return reserve_place(state, interaction.id, name, at_s), True

        if places(self._state)[0] is None:
            return

        def take_in(state: State) -> bool:
            place, reserve = places(state)
            if place is None:
                return False
            if not state.anchors:
                state.judge, state.began_s, state.batch = name, at_s, None
            if place:
                self._displace(state, place)
            self._texts[interaction.id] = bare(interaction)
            state.anchors[interaction.id] = Anchor(
                id=interaction.id, hallucinated=hallucinated, joined_s=at_s, reserve=reserve
            )
            return True

        self._change(take_in)

    def _displace(self, state: State, identity: str) -> None:
        """Have an anchor give its place up; a fine one goes to the reserve if there is room."""
        anchor = state.anchors[identity]
        texts = self._texts_of(identity)
        is_kept = (
            anchor.hallucinated is False
            and not anchor.reserve
            and has_room(state)
            and texts is not None
            and characters(texts) <= RESERVE_CHARACTERS_MOST
        )
        if is_kept:
            anchor.reserve = True
        else:
            leave(state, identity)

    def repeated(self, hallucinated: bool) -> None:
        """Take in what the judge said when it read a fine answer of the traffic a second time."""
        self._pairs += 1
        self._pairs_flipped += hallucinated

    def load(self, path: Path) -> int:
        """Take in a person's own anchors, and return how many there are now.

        One JSON object a line: `question`, `contexts` (a list of texts), `answer` and
        `hallucinated`, true or false. They come before answers of the traffic. What is frozen is
        the judge's own first verdict, so that a judge that errs is not one that moved; where it
        differs from what the file says is logged.

        Raises:
            InputError: The file, or a line of it, cannot be read; nothing was taken in.
        """
        given = read_given(path)

        def take_in(state: State) -> bool:
            gone = [i for i, a in state.anchors.items() if a.given and i not in given]
            for identity in gone:
                leave(state, identity)
            state.left = [identity for identity in state.left if identity in given]
            new = [i for i in given if i not in state.anchors and i not in state.left]
            for identity in new:
                if sum(not anchor.reserve for anchor in state.anchors.values()) >= ANCHORS_MOST:
                    free = (i for i, a in state.anchors.items() if not a.given and not a.reserve)
                    leave(state, next(free))
                state.anchors[identity], self._texts[identity] = given[identity]
            return bool(gone or new)

        self._change(take_in)
        return sum(anchor.given for anchor in self._state.anchors.values())

    # --- reading them again ---------------------------------------------------------------------

    def due(
        self,
        now_s: float,
        identity: JudgeIdentity,
        *,
        most: int = ANCHORS_MOST,
        rise: Rise | None = None,
    ) -> Sequence[Interaction]:
        """Return the anchors that the judge is to read now, each to one process.

        The day's share comes one by one. After a change of the judge's identity all of them come:
        one first, and the rest once that was read by the new judge, since a judge may find at its
        first reading that it is another one (a model that rejects the form asked for). While an
        inquiry is open its references come first, a few at a time, until it is decided.

        What is not reported with `checked` is due again after ten minutes: if there is no money for
        it now, nothing needs to be done. Readings must not come out of a cache.

        Args:
            now_s: Seconds since the epoch.
            identity: Of the judge that would read; not of a fallback.
            most: How many at most.
            rise: By how much the rate has risen since the inquiry's `since_s`, if that is known.
        """
        name = str(identity)
        if not self._per_day or most < 1:
            return ()
        if self._quiet_for == name and now_s < self._quiet_until_s <= now_s + LOOK_AGAIN_S:
            return ()
        claimed: list[Interaction] = []

        def claim(state: State) -> bool:
            claimed.clear()
            if not state.anchors:
                return False
            if state.inquiry is not None:
                learn_rise(state.inquiry, rise)
            before = (state.judge, state.batch, len(state.anchors))
            for anchor in claimable(state, now_s, name, per_day=self._per_day)[:most]:
                anchor.claimed_until_s = now_s + CLAIM_S
                texts = self._texts_of(anchor.id)
                if texts is None:
                    leave(state, anchor.id)  # nobody can read it any more
                else:
                    claimed.append(texts)
            return bool(claimed) or before != (state.judge, state.batch, len(state.anchors))

        self._change(claim)
        self._quiet_for = name
        if self.inquiry is not None and self.inquiry.cause == "unknown":
            # Asked again at once while there is somebody to ask; else for the rise to be known.
            self._quiet_until_s = -math.inf if claimed else now_s + INQUIRY_LOOK_S
            return tuple(claimed)
        self._quiet_until_s = now_s + (LOOK_AGAIN_S / 10 if self._state.batch else LOOK_AGAIN_S)
        if self._state.batch is None and self._state.next_at_s > now_s:
            self._quiet_until_s = min(self._quiet_until_s, self._state.next_at_s)
        return tuple(claimed)

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
        read = Read(id=interaction_id, verdict=hallucinated, by=str(identity), at_s=at_s)

        def take_in(state: State) -> bool:
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

    def _take_in(self, state: State, anchor: Anchor, read: Read) -> Outcome | None:
        batch = state.batch
        if batch is None and read.by == state.judge and testify(state, read.id, read.verdict):
            if read.verdict is None:
                return "missing"
            if state.inquiry is not None and state.inquiry.cause != "unknown":
                self._is_decided = True
            state.note(read.verdict)
            return "flipped" if read.verdict else "same"
        if anchor.reserve:
            return None
        if read.verdict is not None:
            state.aliases.pop(read.by, None)
            if batch is not None and not batch.verdicts and read.by != batch.to:
                state.aliases[batch.to] = read.by
                batch.to = read.by
                if read.by == state.judge and not batch.asked:
                    state.batch = batch = None  # nothing has changed after all
        if batch is not None and read.id in batch.members and read.id not in batch.verdicts:
            outcome = take_into(state, batch, read)
            if is_complete(state, batch):
                self._changes.append(freeze(state, batch, read.at_s))
            return outcome
        if read.verdict is None:
            if anchor.given:
                anchor.joined_s = read.at_s  # others are tried before it
            elif not anchor.settled:
                leave(state, read.id)
            return "missing"
        if read.by != state.judge:
            if not any(other.settled for other in state.anchors.values()):
                begin_anew(state, read)
            return None
        if not anchor.settled:
            settle(state, read.id, read.verdict)
            return None
        flipped = read.verdict is not anchor.hallucinated
        self._outcomes.append((read.at_s, flipped))
        state.note(flipped)
        if anchor.flipped and not flipped:
            leave(state, read.id)
        anchor.flipped = flipped
        return "flipped" if flipped else "same"

    # --- judge or application -------------------------------------------------------------------

    @property
    def inquiry(self) -> Inquiry | None:
        """What is asked about the alarm that is active, as far as it is known here."""
        return self._state.inquiry

    def inquire(self, since_s: float, now_s: float) -> None:
        """Begin to ask whether the judge explains an alarm, unless that has begun.

        Args:
            since_s: Since when the rate has been rising, in seconds since the epoch.
            now_s: Seconds since the epoch.
        """
        if self._per_day and self._state.inquiry is None:
            self._change(lambda state: open_inquiry(state, since_s, now_s))
            self._quiet_until_s = -math.inf

    def end_inquiry(self) -> None:
        """Forget the inquiry: the alarm that it is about is over."""

        def end(state: State) -> bool:
            ended, state.inquiry = state.inquiry is not None, None
            return ended

        if self._state.inquiry is not None:
            self._change(end)

    def decided(self) -> AlarmCause | None:
        """Return the cause, once, in the process whose reading decided it; else None."""
        is_decided, self._is_decided = self._is_decided, False
        return self.cause() if is_decided else None

    def cause(self) -> AlarmCause | None:
        """Return what is known of the active alarm's cause; None: nothing is asked."""
        state, inquiry = self._state, self._state.inquiry
        if inquiry is None:
            return None
        shares = expected_shares(state, inquiry)
        waiting = sum(1 for _ in witnesses(state, inquiry))
        needed = None if shares is None else max(readings_needed(*shares))
        if inquiry.cause != "unknown":
            shares = inquiry.expected_else, inquiry.expected_judge
        return AlarmCause(
            cause=inquiry.cause,
            since_s=inquiry.since_s,
            reread=len(inquiry.read),
            flipped=sum(inquiry.read.values()),
            expected_else=None if shares is None else shares[0],
            expected_judge=None if shares is None else shares[1],
            needed=needed,
            waiting=waiting,
        )

    def refreeze(self) -> None:
        """Have all anchors read again and frozen with what the judge says now.

        For after a silent change of the judge that was found and accepted. It is reported as a
        change, and not as a ruler that moved.
        """

        def ask(state: State) -> bool:
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

    def readings(self, judge: str) -> Sequence[GaugeValue]:
        """Return how many anchors there are, and how often they flip, under the judge's name."""
        labels = (("judge", judge),)
        state = self._state
        checked = sum(not anchor.reserve for anchor in state.anchors.values())
        told = [GaugeValue(name=metrics.ANCHORS, value=checked, labels=labels)]
        if len(state.recent) >= CHECKS_LEAST:
            rate = sum(state.recent) / len(state.recent)
            told.append(GaugeValue(name=metrics.ANCHOR_FLIP_RATE, value=rate, labels=labels))
        return told

    def clear(self) -> None:
        """Forget what was counted and not yet taken, for a forked child; shared anchors stay."""
        if self._file is None:
            self._state, self._texts = State(), {}
        self._clear_outcomes()

    # --- the state ------------------------------------------------------------------------------

    def _change(self, step: Callable[[State], bool]) -> None:
        """Apply a step to the shared state, while nobody else does; keep it if the step says so.

        Without the file, because of the disk, it is applied to what we know.
        """
        with contextlib.ExitStack() as stack:
            file = self._file
            if file is not None:
                try:
                    stack.enter_context(file.alone())
                    self._state = read_state(file)
                except OSError as error:
                    record_unkept("estimation", "anchors", error)
                    file = None
            before = set(self._state.anchors)
            is_changed = step(self._state)
            if is_changed:
                self._state.pairs += self._pairs
                self._state.pairs_flipped += self._pairs_flipped
                self._pairs = self._pairs_flipped = 0.0
            after = set(self._state.anchors)
            if is_changed and file is not None:
                try:
                    for identity in after - before:
                        write_texts(file, self._texts[identity])
                    file.write(state_to_json(self._state))
                    for identity in before - after:
                        texts_file(file, identity).path.unlink(missing_ok=True)
                except OSError as error:
                    record_unkept("estimation", "anchors", error)
            for identity in self._texts.keys() - after:
                del self._texts[identity]

    def _texts_of(self, identity: str) -> Interaction | None:
        if identity not in self._texts and self._file is not None:
            texts = read_texts(self._file, identity)
            if texts is not None:
                self._texts[identity] = texts
        return self._texts.get(identity)
