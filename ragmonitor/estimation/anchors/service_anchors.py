"""The anchors of one service."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from ragmonitor import metrics
from ragmonitor.estimation.anchors.anchor_files import (
    anchors_of,
    read_own,
    read_texts,
    state_of,
    texts_file,
    write_texts,
)
from ragmonitor.estimation.anchors.anchor_set import (
    CLAIM_S,
    Anchor,
    AnchorSet,
    Inquiry,
    JudgeChange,
    Outcome,
    Rise,
)
from ragmonitor.estimation.anchors.due import due_anchors
from ragmonitor.estimation.anchors.inquiry import (
    add_testimony,
    cause_of,
    has_room,
    learn_rise,
)
from ragmonitor.estimation.anchors.judge_change import add_verdict, freeze_if_complete
from ragmonitor.estimation.anchors.membership import (
    MAX_ANCHORS,
    MAX_RESERVE_CHARACTERS,
    characters,
    confirm,
    place_for,
)
from ragmonitor.records import AlarmCause, GaugeValue, Interaction, JudgeIdentity
from ragmonitor.state import State

LOOK_AGAIN_S: Final = 300.0
"""The age that our view of other processes may have."""
INQUIRY_LOOK_S: Final = 10.0
"""The same age, while it is asked why a rate rises."""
MIN_CHECKS: Final = 20
"""Below, no flip rate is shown."""
MAX_OUTCOMES: Final = 10_000
FULL_S: Final = 60.0
"""Where there was no room for an answer, none is looked for so long for others like it."""


class Anchors:
    """Keeps up to a hundred frozen answers, half of them hallucinated where there are such.

    Beside them stand up to 500 fine answers in reserve, which are read again only when an alarm
    asks whether the judge or the application explains it.

    With a file its processes share the anchors, and each due one is read by one of them. Without
    one each process has its own, for as long as it lives. To be used from one thread.
    """

    def __init__(
        self, *, per_day: int, file: State | None = None, keep_texts: bool = False
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
        self._set = AnchorSet()
        self._texts: dict[str, Interaction] = {}
        """The texts that there are to read, by id; of shared anchors those that this process has
        met."""
        self._clear_outcomes()

    def _clear_outcomes(self) -> None:
        self._quiet_until_s = -math.inf
        """Nothing is due before, for the judge that asked last."""
        self._quiet_for = ""
        self._outcomes: deque[tuple[float, bool]] = deque(maxlen=MAX_OUTCOMES)
        self._changes: deque[JudgeChange] = deque(maxlen=MAX_ANCHORS)
        self._checks: dict[str, int] = {"same": 0, "flipped": 0, "missing": 0}
        self._is_decided = False
        self._full_until_s: dict[tuple[str, bool], float] = {}
        """The time, by judge and verdict, of an answer for which there may be room again."""

    def clear(self) -> None:
        """Forget what was counted and not yet taken, for a forked child; shared anchors stay."""
        if self._file is None:
            self._set, self._texts = AnchorSet(), {}
        self._clear_outcomes()

    # --- becoming an anchor ---------------------------------------------------------------------

    def has_place(
        self, interaction: Interaction, hallucinated: bool, identity: JudgeIdentity
    ) -> bool:
        """Return whether there is a place for a judged answer, as far as it is known here."""
        judge, at_s = str(identity), interaction.ended_ns / 1e9
        if not self._per_day or at_s < self._full_until_s.get((judge, hallucinated), -math.inf):
            return False
        if place_for(self._set, interaction, hallucinated, judge) is not None:
            return True
        is_short = characters(interaction) <= MAX_RESERVE_CHARACTERS
        if is_short and interaction.id not in self._set.anchors:
            self._full_until_s[judge, hallucinated] = at_s + FULL_S
        return False

    def offer(self, offers: Sequence[tuple[Interaction, bool, JudgeIdentity]]) -> None:
        """Let judged answers become anchors where there is a place, in one change of the state.

        Args:
            offers: Of each the answer after redaction, of which question, chunks and answer are
                kept; whether the judge says that it is hallucinated; and the identity of the judge
                that read it: a fallback's verdicts are not taken.
        """
        # What this process knows comes first: with all places taken an offer costs next to nothing.
        wanted = [each for each in offers if self.has_place(*each)]
        if wanted:
            self._change(partial(self._place, wanted))

    def _place(
        self, offers: Sequence[tuple[Interaction, bool, JudgeIdentity]], anchors: AnchorSet
    ) -> bool:
        """Have answers become anchors as far as there is room, and return whether one did."""
        is_changed = False
        for interaction, hallucinated, identity in offers:
            judge, at_s = str(identity), interaction.ended_ns / 1e9
            place = place_for(anchors, interaction, hallucinated, judge)
            if place is None:
                continue
            if not anchors.anchors:
                anchors.judge, anchors.began_s, anchors.rereading = judge, at_s, None
            if place[0]:
                self._displace(anchors, anchors.anchors[place[0]])
            # A judge is not asked about a reference answer again.
            self._texts[interaction.id] = replace(interaction.texts(), reference="")
            anchors.anchors[interaction.id] = Anchor(
                id=interaction.id, hallucinated=hallucinated, joined_s=at_s, in_reserve=place[1]
            )
            is_changed = True
        return is_changed

    def _displace(self, anchors: AnchorSet, anchor: Anchor) -> None:
        """Have an anchor give its place up; a fine one goes to the reserve if there is room."""
        texts = self._texts_of(anchor.id)
        is_short = texts is not None and characters(texts) <= MAX_RESERVE_CHARACTERS
        if is_short and not anchor.in_reserve and has_room(anchors):
            anchor.in_reserve = True
        else:
            anchors.remove(anchor.id)

    def load(self, path: Path) -> int:
        """Take in a person's own anchors, and return how many there are now.

        One JSON object a line: `question`, `contexts` (a list of texts), `answer` and
        `hallucinated`, true or false. They come before answers of the traffic. What is frozen is
        the judge's own first verdict, so that a judge that errs is not one that drifts; where it
        differs from what the file says is logged.

        Raises:
            InputError: The file, or a line of it, cannot be read; nothing was taken in.
        """
        own = read_own(path)

        def add(anchors: AnchorSet) -> bool:
            gone = [i for i, a in anchors.anchors.items() if a.is_own and i not in own]
            for identity in gone:
                anchors.remove(identity)
            anchors.rejected = [identity for identity in anchors.rejected if identity in own]
            new = [i for i in own if i not in anchors.anchors and i not in anchors.rejected]
            for identity in new:
                if len(anchors.checked) >= MAX_ANCHORS:
                    anchors.remove(next(each.id for each in anchors.checked if not each.is_own))
                anchors.anchors[identity], self._texts[identity] = own[identity]
            return bool(gone or new)

        self._change(add)
        return sum(anchor.is_own for anchor in self._set.anchors.values())

    # --- reading them again ---------------------------------------------------------------------

    def due(
        self,
        now_s: float,
        identity: JudgeIdentity | None,
        *,
        limit: int = MAX_ANCHORS,
        rise: Rise | None = None,
    ) -> Sequence[Interaction]:
        """Return the anchors that the judge is to read now, each to one process.

        The day's share comes one by one. After a change of the judge's identity all of them come:
        one first, and the rest once that was read. While an inquiry is open its witnesses come
        first, a few at a time, until it is decided.

        What is not reported with `checked` is due again after ten minutes: if there is no money for
        it now, nothing needs to be done. Readings must not come out of a cache.

        Args:
            now_s: Seconds since the epoch.
            identity: Of the judge that would read, as its verdicts carry it; not of a fallback.
                None: it has given no verdict yet, so nothing is due.
            limit: How many at most.
            rise: By how much the rate has risen since the inquiry's `since_s`, if that is known.
        """
        judge = "" if identity is None else str(identity)
        is_quiet = now_s < self._quiet_until_s <= now_s + LOOK_AGAIN_S
        if not self._per_day or limit < 1 or (is_quiet and self._quiet_for in ("", judge)):
            return ()
        if not judge:
            if not self._set.anchors:  # the first ones are not read again at once
                self._quiet_until_s = now_s + LOOK_AGAIN_S
            return ()
        claimed: list[Interaction] = []

        def claim(anchors: AnchorSet) -> bool:
            if not anchors.anchors:
                return False
            if anchors.inquiry is not None:
                learn_rise(anchors.inquiry, rise)
            before = (anchors.judge, anchors.rereading, len(anchors.anchors))
            for anchor in due_anchors(anchors, now_s, judge, per_day=self._per_day)[:limit]:
                anchor.claimed_until_s = now_s + CLAIM_S
                texts = self._texts_of(anchor.id)
                if texts is None:
                    anchors.remove(anchor.id)  # nobody can read it any more
                else:
                    claimed.append(texts)
            after = (anchors.judge, anchors.rereading, len(anchors.anchors))
            return bool(claimed) or before != after

        self._change(claim)
        self._quiet_for = judge
        self._quiet_until_s = self._next_look_s(now_s, has_claimed=bool(claimed))
        return tuple(claimed)

    def _next_look_s(self, now_s: float, *, has_claimed: bool) -> float:
        if self.inquiry is not None and self.inquiry.cause == "unknown":
            # Asked again at once while there is a witness; else for the rise to be known.
            return -math.inf if has_claimed else now_s + INQUIRY_LOOK_S
        if self._set.rereading is not None:
            return now_s + LOOK_AGAIN_S / 10
        if self._set.next_check_s > now_s:
            return min(now_s + LOOK_AGAIN_S, self._set.next_check_s)
        return now_s + LOOK_AGAIN_S

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
            identity: Of the judge that read it.
            at_s: Seconds since the epoch.

        Returns:
            None if it says nothing of the judge: the anchor was not confirmed yet, has left
            meanwhile, or was read by another judge.
        """
        outcome: Outcome | None = None

        def add(anchors: AnchorSet) -> bool:
            nonlocal outcome
            anchor = anchors.anchors.get(interaction_id)
            if anchor is None:
                return False
            if hallucinated is not None:  # if it is None, another try now would fail as well
                anchor.claimed_until_s = 0.0
            outcome = self._add(anchors, anchor, hallucinated, str(identity), at_s)
            return True

        self._quiet_until_s = -math.inf
        self._change(add)
        if outcome is not None:
            self._checks[outcome] += 1
        return outcome

    def _add(
        self, anchors: AnchorSet, anchor: Anchor, verdict: bool | None, judge: str, at_s: float
    ) -> Outcome | None:
        if judge == anchors.judge and anchors.rereading is None:
            outcome = add_testimony(anchors, anchor, verdict)
            if outcome is not None:
                self._is_decided |= anchors.inquiry is not None and anchors.inquiry.is_decided
                return outcome
        if anchor.in_reserve:
            return None
        outcome = add_verdict(anchors, anchor, verdict, judge, at_s)
        if outcome is not None:
            change = freeze_if_complete(anchors, at_s)
            if change is not None:
                self._changes.append(change)
            return outcome
        if verdict is None:
            if anchor.is_own:
                anchor.joined_s = at_s  # others are tried before it
            elif not anchor.is_confirmed:
                anchors.remove(anchor.id)
            return "missing"
        if judge != anchors.judge:
            return None
        if not anchor.hallucinated:
            anchors.pairs += 1
            anchors.pairs_flipped += verdict
        if not anchor.is_confirmed:
            confirm(anchors, anchor, verdict)
            return None
        flipped = verdict is not anchor.hallucinated
        self._outcomes.append((at_s, flipped))
        anchors.note_check(flipped)
        if anchor.flipped and not flipped:
            anchors.remove(anchor.id)
        anchor.flipped = flipped
        return "flipped" if flipped else "same"

    def refreeze(self) -> None:
        """Have all anchors read again and frozen with what the judge says now.

        For after a silent change of the judge that was found and accepted. It is reported as a
        change, and not as judge drift.
        """

        def request(anchors: AnchorSet) -> bool:
            anchors.is_refreeze_requested = True
            return True

        self._change(request)
        self._quiet_until_s = -math.inf

    # --- judge or application -------------------------------------------------------------------

    @property
    def inquiry(self) -> Inquiry | None:
        """The inquiry about the alarm that is active, as far as it is known here."""
        return self._set.inquiry

    def inquire(self, since_s: float, now_s: float) -> None:
        """Begin to ask whether the judge explains an alarm, unless that has begun.

        Args:
            since_s: Since when the rate has been rising, in seconds since the epoch.
            now_s: Seconds since the epoch.
        """

        def begin(anchors: AnchorSet) -> bool:
            if anchors.inquiry is not None:
                return False
            anchors.inquiry = Inquiry(since_s=since_s, opened_s=now_s)
            return True

        if self._per_day and self._set.inquiry is None:
            self._change(begin)
            self._quiet_until_s = -math.inf

    def end_inquiry(self) -> None:
        """Forget the inquiry: the alarm that it is about is over."""

        def end(anchors: AnchorSet) -> bool:
            ended, anchors.inquiry = anchors.inquiry is not None, None
            return ended

        if self._set.inquiry is not None:
            self._change(end)

    def decided(self) -> AlarmCause | None:
        """Return the cause, once, in the process whose reading decided it; else None."""
        is_decided, self._is_decided = self._is_decided, False
        return self.cause() if is_decided else None

    def cause(self) -> AlarmCause | None:
        """Return what is known of the active alarm's cause; None: nothing is asked."""
        return cause_of(self._set)

    # --- what it says ---------------------------------------------------------------------------

    def take(self) -> Sequence[tuple[float, bool]]:
        """Return the daily checks since the last call: when, and whether the verdict flipped.

        Of this process only; those after a change of judge are in `changes` instead.
        """
        taken = tuple(self._outcomes)
        self._outcomes.clear()
        return taken

    def changes(self) -> Sequence[JudgeChange]:
        """Return the changes of judge since the last call, in the process that completed them."""
        taken = tuple(self._changes)
        self._changes.clear()
        return taken

    @property
    def last_change(self) -> JudgeChange | None:
        """The last change of judge that any process completed, as far as it is known here."""
        return self._set.last_change

    def gauges(self, judge: str) -> Iterator[GaugeValue]:
        """Yield how many anchors there are, how often they flip, and this process's checks so far.

        Args:
            judge: The name of the judge that they are shown under.
        """
        flips = self._set.recent_flips
        yield GaugeValue.of(metrics.ANCHORS, float(len(self._set.checked)), judge=judge)
        if len(flips) >= MIN_CHECKS:
            rate = sum(flips) / len(flips)
            yield GaugeValue.of(metrics.ANCHOR_FLIP_RATE, rate, judge=judge)
        for outcome, n in self._checks.items():
            yield GaugeValue.of(metrics.ANCHOR_CHECKS, n, judge=judge, outcome=outcome)

    # --- the state ------------------------------------------------------------------------------

    def _change(self, step: Callable[[AnchorSet], bool]) -> None:
        """Apply a step to the shared anchors, while nobody else does; keep it if the step says so.

        Where the disk fails it is applied to what we know.
        """
        is_read = False
        self._full_until_s.clear()

        def change(file: State, state: Mapping[str, Any]) -> Mapping[str, Any] | None:
            nonlocal is_read
            self._set, is_read = anchors_of(state), True
            before = set(self._set.anchors)
            if not step(self._set):
                return None
            for identity in self._set.anchors.keys() - before:
                write_texts(file, self._texts[identity])
            for identity in before - self._set.anchors.keys():
                texts_file(file, identity).remove()
            return state_of(self._set)

        if self._file is not None:
            self._file.update(
                partial(change, self._file), stage="estimation", what="the reference answers"
            )
        if not is_read:
            step(self._set)
        for identity in self._texts.keys() - self._set.anchors.keys():
            del self._texts[identity]

    def _texts_of(self, identity: str) -> Interaction | None:
        if identity not in self._texts and self._file is not None:
            texts = read_texts(self._file, identity)
            if texts is not None:
                self._texts[identity] = texts
        return self._texts.get(identity)
