"""The one process of a service that makes numbers of what its workers settle."""

from __future__ import annotations

import contextlib
import json
import math
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, Final

import msgspec
from opentelemetry import context

from ragmonitor.capture.probe_mark import is_probe
from ragmonitor.causes import CauseFinder
from ragmonitor.errors import StreamError, WireError
from ragmonitor.estimation import PeoplesFeedback
from ragmonitor.estimation.means import pending_verdict
from ragmonitor.estimation.predictions import WHAT as CALIBRATION
from ragmonitor.evaluators import table, unscorable, unscored
from ragmonitor.export import PrometheusExporter
from ragmonitor.feedback import Feedback
from ragmonitor.fleet.anchor_checks import AnchorChecks
from ragmonitor.fleet.estimator_state import (
    KEPT_ALARMS,
    KEPT_MEANS,
    KEPT_STATE,
    VERSION,
    EstimatorState,
    file_of,
)
from ragmonitor.fleet.fleet_stream import FleetStream, SettledEntry, elsewhere
from ragmonitor.fleet.settled_order import SettledOrder
from ragmonitor.fleet.state_folder import StateFolder
from ragmonitor.guard import (
    contained,
    errors,
    logger,
    record_error,
    record_outage,
    record_problem,
)
from ragmonitor.judging import by_another
from ragmonitor.metrics import (
    ARRIVALS,
    BUDGET_LEVEL,
    BUDGET_LIMIT,
    ESTIMATOR_CHECKPOINT,
    ESTIMATOR_TAKEOVERS,
    EXPECTED_COST,
    MAX_SAMPLING_RATE,
    SAMPLING_RATE,
    STREAM_SETTLED,
    STREAM_UP,
)
from ragmonitor.records import (
    AlarmEvent,
    Cause,
    CompletedAnswer,
    Evaluation,
    GaugeValue,
    GoldenAnswer,
    JudgeIdentity,
    JudgeRole,
    PendingVerdict,
    Report,
    SamplingDecision,
    Scored,
    Snapshot,
    Status,
    Unscored,
)
from ragmonitor.sampling.sampler import LEARNING, LEAST_SHARE_SPENT
from ragmonitor.settings import Settings
from ragmonitor.streams import name_of_process
from ragmonitor.wire import (
    SettledAnswer,
    decode_alarms,
    decode_feedback,
    decode_pending,
    decode_report,
    decode_settled,
    encode_alarms,
    is_kind,
)
from ragmonitor.wiring import (
    budget_of,
    builtin_judge,
    estimates_of,
    exporters_of,
    incidents_of,
    judging_of,
    meters_of,
    reader_of,
    traces_of,
    view_of,
)
from ragmonitor.worker import Exports

LEASE_S: Final = 6.0
"""Another estimator takes over so long after this one's last sign of life, at most."""
TICK_S: Final = 1.0
"""Answers that were taken in are estimated, kept and shown this often."""
POLL_S: Final = 0.2
STAND_BY_S: Final = 1.0
BATCH: Final = 500
ARRIVALS_HALF_LIFE_S: Final = 120.0
FLUSH_S: Final = 3.0
"""At its end, all exporters together have so long to send what they hold."""
FRAMEWORK_STATUS: Final = " "
_EXPORT, _ESTIMATE = contained("export"), contained("estimate")


class _RefusedError(StreamError):
    """The estimator may not go on, though the server answers."""


class LeaseLostError(_RefusedError):
    """Another estimator has the service, or this one was paused for too long."""


class UnknownStateError(_RefusedError):
    """What was kept is of another version of ragmonitor."""


class Estimator:
    """Estimates a service as long as it has the lease; stands by while another one has it."""

    def __init__(self, settings: Settings, stream: FleetStream) -> None:
        """Check the settings; nothing runs yet.

        Args:
            settings: The settings.
            stream: Where workers settle, and the state is kept.

        Raises:
            SettingsError: The settings cannot be carried out.
        """
        self._settings = settings
        self._stream = stream
        # Workers and who stands by say where the numbers are.
        url = settings.server.metrics_url(machine=socket.gethostname())
        self._owner = f"{name_of_process()} {url}".rstrip()
        self.term: Term | None = None
        """The statistics, while this process has the lease."""
        self._standby: PrometheusExporter | None = None
        """The series of this process while it stands by."""

    def run(self, stop: threading.Event, *, drain: bool = False) -> None:
        """Work, or stand by, until asked to stop.

        Args:
            stop: Ends it.
            drain: End also when everything was taken in that was put on the stream.
        """
        token = context.attach(context.set_value("suppress_instrumentation", True))
        try:
            while not stop.is_set():
                is_up, leader = True, ""
                try:
                    lease = self._stream.lead(self._owner, "", LEASE_S)
                    if lease:
                        self._close_standby()
                        if self._serve(lease, stop, drain=drain):
                            return
                    leader = self._stream.leader()
                except StreamError as error:
                    record_outage(error)
                    is_up = False
                except OSError as error:
                    record_error("stream", error)
                    is_up = False
                self._show_standby(leader, is_up=is_up)
                stop.wait(STAND_BY_S)
        finally:
            self._close_standby()
            context.detach(token)

    def _show_standby(self, leader: str, *, is_up: bool) -> None:
        """Serve the operation of this process, so that it is not taken for one that is gone."""
        with contained("export"):
            if self._standby is None:
                self._standby = meters_of(self._settings, None)
            found = elsewhere("standby", leader)
            if found.keeper and found != self._standby.elsewhere:
                logger.info(
                    "ragmonitor: this estimator stands by: the %s on %s keeps the numbers of %s",
                    found.keeper,
                    found.host,
                    self._settings.service,
                )
            self._standby.elsewhere = found
            snapshot = Snapshot(gauges=(GaugeValue(name=STREAM_UP, value=is_up),))
            self._standby.refresh(snapshot=snapshot, queue_depth=0, open_runs=0, errors=errors)

    def _close_standby(self) -> None:
        """Make way for what is estimated, which is served on the same port."""
        if self._standby is not None:
            self._standby.close()
            self._standby = None

    @contextlib.contextmanager
    def _renewing(self, lease: str) -> Iterator[None]:
        """Renew a lease from a thread: to begin may take longer than it lasts.

        Two estimators would take it from each other for ever, on a machine that is slow enough.
        """
        done = threading.Event()

        def renew() -> None:
            context.attach(context.set_value("suppress_instrumentation", True))
            while not done.wait(LEASE_S / 3):
                with contained("stream"):
                    try:
                        self._stream.lead("", lease, LEASE_S)
                    except StreamError as error:
                        record_outage(error)

        thread = threading.Thread(target=renew, name="ragmonitor-lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def _serve(self, lease: str, stop: threading.Event, *, drain: bool) -> bool:
        """Estimate under a lease; return whether the work is over."""
        with self._renewing(lease):
            # What is put on the stream while it is drained would be drained by nobody.
            self.term = term = Term(self._settings, self._stream, lease, asks=not drain)
        logger.info("ragmonitor: this estimator keeps the numbers of %s", self._settings.service)
        try:
            with self._renewing(lease):
                term.begin()
            while not stop.is_set():
                if not term.step() and drain and term.is_drained():
                    break
            term.tick(is_last=True)
        except _RefusedError as error:
            record_problem("stream", f"{error}; this estimator stands by")
            return False
        except StreamError as error:
            record_outage(error)
            return False
        finally:
            self.term = None
            term.close()
            with contained("stream"):
                try:
                    self._stream.release(lease)
                except StreamError as error:  # it ends by itself
                    record_outage(error)
        return True


class Term:
    """All that is estimated under one lease. What it knows is in Redis after each tick.

    Answers are taken in as they come. Of one that was drawn the means know from its draw on, and
    the alarms take its verdict in the order of the draws. Until they have it its entries stay on
    the settled stream, where a successor finds them.
    """

    def __init__(
        self, settings: Settings, stream: FleetStream, lease: str, *, asks: bool = True
    ) -> None:
        """Wire the estimates; `begin` gives them what a predecessor has kept.

        Args:
            settings: The settings.
            stream: Where answers come from.
            lease: The token that allows to keep a state.
            asks: Whether workers are asked to have reference answers judged again.
        """
        self._stream, self._lease = stream, lease
        self._kept = stream.kept()
        self._folder = StateFolder(self._kept)
        settings = settings.model_copy(update={"state": self._folder.path})
        builtin, reader = builtin_judge(), reader_of(settings)
        self._judging = judging_of(settings, budget=budget_of(settings, stream.address))
        self._unit = settings.budget.unit if settings.budget.is_given else None
        incidents = incidents_of(settings, self._judging, self._lose)
        view = view_of(settings, reader or builtin, self._judging, incidents)
        self._view = view
        """The time when the page's answers were kept last, by the monotonic clock."""
        self._entries = table.select(settings.evaluators)
        self._judges: list[JudgeIdentity] = [(reader or builtin).identity]
        if self._judging is not None:
            self._judges.append(self._judging.judge.identity)
        self.meters = meters_of(settings, view)
        """The series that people scrape."""
        self._exports = Exports(
            traces=traces_of(settings, self._lose),
            meters=self.meters,
            exporters=exporters_of(settings, self._lose, view, incidents),
            clean=str,  # whoever took the feedback in has redacted it
        )
        self._statistics = estimates_of(settings, reader or builtin, self._judging)
        self.estimates = self._statistics
        """The statistics: those of a single process."""
        incidents.finders = [
            each for each in self._statistics.parts if isinstance(each, CauseFinder)
        ]
        self.state = EstimatorState()
        """Where this estimator stands."""
        self._order = SettledOrder()
        self._done: list[str] = []
        """Entries that the next checkpoint includes."""
        self._asks = asks
        self._checks: AnchorChecks | None = None
        self._due: list[bytes] = []
        """Checks of reference answers that the next checkpoint puts on the stream."""
        self._ticked_s = -TICK_S
        self._calibration = b""
        self._arrivals = 0
        self._is_behind = False
        """Whether more may be on the stream than was read."""
        self._reached_s = 0.0
        """When the newest entry that was read was put; as all further times by the server."""
        self._counted_s: float | None = None
        """Arrivals were counted up to this time; None: there was none yet."""
        self._interactions: Counter[tuple[str, Status]] = Counter()
        """The number taken in since the last tick, by framework and status."""
        self._outcomes: Counter[tuple[str, str, str, str, str]] = Counter()
        """The number of evaluations, by evaluator, judge, its version and kind, and cause."""
        self._server_s = 0.0

    def _lose(self, reason: str, n: int) -> None:
        self.meters.dropped(reason, n)

    # --- beginning ------------------------------------------------------------------------------

    def begin(self) -> None:
        """Go on where the predecessor stood. Raises `StreamError`."""
        told = self._kept.get(KEPT_STATE)
        self._server_s = self._stream.now_s()
        if told is not None:
            self.state = _state(told)
            self._counted_s = self.state.at_s
            self._statistics.alarms.give_up(self.state.given_up)
            is_older = self.state.version < VERSION
            self._order = SettledOrder(
                self.state.given_up if is_older else self.state.given_up_unknown
            )
        if self._judging is not None:
            identity = self._judging.judge.identity
            self._checks = AnchorChecks(self._statistics, identity, self.state.asked)
        if (means := self._kept.get(KEPT_MEANS)) is not None:
            elapsed_s = self._server_s - self.state.at_s
            with contained("estimate"):
                self._statistics.means.load(msgspec.msgpack.decode(means), elapsed_s)
        self._show_counts()
        with contained("estimate"):
            self.estimates.tick()
        for entry in self._stream.settled_until(self.state.position):
            if self.state.version < VERSION:
                self._meet(entry, self.state.at_s)
            else:
                self._meet_again(entry, self.state.at_s)
        self.state.version = VERSION
        if announced := self._kept.get(KEPT_ALARMS):
            with contained("export"):
                for event in decode_alarms(announced):
                    self._exports.announce(event)

    def _show_counts(self) -> None:
        """Count what predecessors have counted: the series go on."""
        for key, n in self.state.interactions.items():
            framework, _, status = key.rpartition(FRAMEWORK_STATUS)
            self.meters.interaction(framework, status, n)  # type: ignore[arg-type]
        for key, n in self.state.outcomes.items():
            self.meters.evaluations([_evaluation(*json.loads(key))], n)

    # --- taking in ------------------------------------------------------------------------------

    def step(self) -> int:
        """Take in what has been settled; return how many entries came. Raises `StreamError`."""
        due_s = self._ticked_s + TICK_S - time.monotonic()
        entries = self._stream.settled_after(
            self.state.position, BATCH, min(POLL_S, max(0.0, due_s))
        )
        # Of what has waited for an estimator verdicts may be on the stream, but were not read.
        self._is_behind = len(entries) == BATCH
        reached_s = entries[-1].at_s if self._is_behind else self._server_s
        if entries and self._counted_s is None:
            self._counted_s = entries[0].at_s
        for entry in entries:
            self._meet(entry, reached_s)
            self.state.position, self._reached_s = entry.id, entry.at_s
            if self.estimates.is_full:
                self.tick()
        self._take_in_held()
        if time.monotonic() - self._ticked_s >= TICK_S or self.estimates.is_full:
            self.tick()
        return len(entries)

    def is_drained(self) -> bool:
        """Return whether all that was put on the stream is taken in."""
        counts = self._stream.counts()
        if counts.waiting or counts.open or self._order:
            return False
        return not self._stream.settled_after(self.state.position, 1, 0)

    def _meet(self, entry: SettledEntry, reached_s: float) -> None:
        """Take in an entry.

        Args:
            entry: The entry.
            reached_s: Verdicts that were there by then are read by now, or with this entry's batch;
                in seconds since the epoch of the server's clock.
        """
        if entry.drawn:
            self._meet_draw(entry, reached_s)
            return
        try:
            if is_kind(entry.answer, b"f"):
                self._hear(decode_feedback(entry.answer))
                self._done.append(entry.id)
                return
            if is_kind(entry.answer, b"j"):
                # The tick carries it out, before the checkpoint that includes the entry.
                self.estimates.refreeze()
                self._done.append(entry.id)
                return
            if is_kind(entry.answer, b"r"):
                self._check(decode_report(entry.answer))
                self._done.append(entry.id)
                return
            answer = decode_settled(entry.answer)
        except WireError as error:
            record_error("stream", error)
            self.state.unreadable += 1
            self._done.append(entry.id)
            return
        identity = answer.interaction.id
        drawn = self._order.find(identity)
        if drawn is None:
            is_late = self._order.is_late(identity)
            is_known = not is_late and self._statistics.alarms.is_late(identity)
            self._take_in(answer, is_late=is_late, is_awaited=is_known)
            self._done.append(entry.id)
            return
        drawn.entries.append(entry.id)
        if drawn.is_there:
            return
        if drawn.is_known:
            drawn.is_there = True
            self._take_in(answer, is_awaited=True)
        else:
            self._order.hold(drawn, answer)
            self._statistics.alarms.hold(identity)

    def _meet_draw(
        self, entry: SettledEntry, reached_s: float, *, is_awaited: bool = False
    ) -> None:
        """Have the alarms wait for an answer, and the means know of it, if they do not yet."""
        pending: PendingVerdict | None = None
        if entry.pending:  # an earlier release says no more than the id
            try:
                pending = decode_pending(entry.pending)
            except WireError as error:
                record_error("stream", error)
        self._order.draw(entry.drawn, entry.id, is_known=pending is not None)
        with _ESTIMATE:
            # They trust a verdict by what was known at the draw, which is nothing after a takeover:
            # suspicion begins anew then.
            self.estimates.drawn(entry.drawn, age_s=max(0.0, reached_s - entry.at_s))
            if pending is not None and not is_awaited:
                self.estimates.await_verdict(entry.drawn, pending)

    def _meet_again(self, entry: SettledEntry, reached_s: float) -> None:
        """Take in an entry that a predecessor's means have, and its alarms have not."""
        if entry.drawn:
            self._meet_draw(entry, reached_s, is_awaited=True)
            return
        answer: SettledAnswer | None = None
        with contextlib.suppress(WireError):  # which `_meet` counts
            answer = decode_settled(entry.answer)
        drawn = None if answer is None else self._order.find(answer.interaction.id)
        if answer is None or drawn is None or not drawn.is_known:
            self._meet(entry, reached_s)
            return
        drawn.entries.append(entry.id)
        drawn.is_there = True
        with _ESTIMATE:
            completed = self._completed(answer)
            self.estimates.observe_again(completed)

    def _hear(self, feedback: Feedback) -> None:
        """Take in what a person said of an answer."""
        with contained("estimate"):
            parts = (each for each in self._statistics.parts if isinstance(each, PeoplesFeedback))
            if not any(part.note(feedback) for part in parts):
                self.meters.dropped("feedback_full")

    def _check(self, report: Report) -> None:
        """Take in what the judge says of a reference answer."""
        with contained("export"):
            self.meters.charged(report)
        if self._checks is not None:
            self._checks.take_in(report)

    def _take_in_held(self) -> None:
        """Take in answers that were held back, as far as those drawn before them are there."""
        for answer, entries in self._order.ready():
            with _ESTIMATE:
                self._await(answer)
            self._take_in(answer, is_awaited=True)
            self._done += entries
            if self.estimates.is_full:
                self.tick()

    def _await(self, answer: SettledAnswer) -> None:
        """Have the means know of a drawn answer of which nothing was said at its draw."""
        if answer.decision is not None and answer.decision.inclusion_probability > 0:
            pending = pending_verdict(
                _by_role(answer)["builtin"],
                answer.prediction,
                answer.decision,
                self._statistics.means.group_by,
            )
            self.estimates.await_verdict(answer.interaction.id, pending)

    def _take_in(
        self, answer: SettledAnswer, *, is_late: bool = False, is_awaited: bool = False
    ) -> None:
        """Count one answer and have it estimated.

        Args:
            answer: The answer.
            is_late: Its verdict came after it was given up, and no means know of it: it is missing.
            is_awaited: Means and alarms know already that it was drawn.
        """
        if is_probe(answer.interaction):
            self._take_in_golden(answer)
            return
        self._arrivals += 1
        self._count(answer)
        with _EXPORT:
            self.meters.answered(answer.interaction, answer.reports[0].target)
        for report in answer.reports:
            with _EXPORT:
                self.meters.observe(report)
            for exporter in self._exports.exporters:
                with _EXPORT:
                    exporter.export(report)
        # What was drawn is missing where it cannot be scored any more.
        if is_awaited or unscorable(answer.interaction) is None:
            with _ESTIMATE:
                completed = self._completed(answer)
                self._estimate(answer, completed, is_late=is_late, is_awaited=is_awaited)
        if is_awaited:  # also where a worker without a judge, or we, have failed
            self._statistics.alarms.complete(answer.interaction.id)

    def _completed(self, answer: SettledAnswer) -> CompletedAnswer:
        """Return what estimates read of an answer."""
        by_role, decision = _by_role(answer), answer.decision
        builtin, judged, stand_in = by_role["builtin"], None, None
        if decision is not None and decision.drawn and "sampled" in by_role:
            judged = by_role["sampled"]
            if self._judging is not None:
                judged, stand_in = by_another(judged, self._judging.judge.identity)
        return CompletedAnswer(
            builtin=builtin,
            prediction=answer.prediction,
            decision=decision,
            judged=judged,
            stand_in=stand_in,
            target=builtin.target,
        )

    def _take_in_golden(self, answer: SettledAnswer) -> None:
        """Take in what came of a golden question; what the application captured is no traffic."""
        reports = [each for each in answer.reports if each.role == "golden"]
        if not reports:
            return
        with contained("estimate"):
            reference = reports[1] if len(reports) > 1 else None
            self.estimates.probed(GoldenAnswer(report=reports[0], reference=reference))
        for report in reports:
            with contained("export"):
                self.meters.charged(report)

    def _estimate(
        self, answer: SettledAnswer, completed: CompletedAnswer, *, is_late: bool, is_awaited: bool
    ) -> None:
        decision, judged = answer.decision, completed.judged
        if decision is not None:
            self._note_decision(decision, answer.reports)
        if is_late and judged is not None:
            missing = unscored(self._entries, judged.judge, Cause.JUDGE_TIMEOUT)
            judged = replace(judged, evaluations=missing, assessment=None, diagnosis=None)
            completed = replace(completed, judged=judged, stand_in=None)
            self._statistics.alarms.came_late()
        if judged is not None and decision is not None and not is_awaited:
            self.estimates.awaits(completed.builtin, answer.prediction, decision)
        self.estimates.add(completed)

    def _note_decision(self, decision: SamplingDecision, reports: Sequence[Report]) -> None:
        """Take note of the rate and of what a reading came to, which only workers know else."""
        # Where the judge was busy, or is down, no rate was worked out.
        if decision.inclusion_probability > 0 or decision.cause is Cause.OVER_BUDGET:
            self.state.rate = decision.rate
        if self._judging is None or self._unit is None or decision.reserved <= 0:
            return
        read = [each for each in reports if each.role != "builtin"]
        if not any(each.assessment for each in read):
            return
        spent = math.fsum(self._judging.spent(each.usage) for each in read if each.usage)
        # What came to less is one that a cache had: the next one is not.
        spent = max(spent, LEAST_SHARE_SPENT * decision.reserved)
        costs = self.state.reading_costs
        before = costs.get(self._unit, spent)
        costs[self._unit] = before + LEARNING * (spent - before)

    def _count(self, answer: SettledAnswer) -> None:
        """Note an answer and its evaluations; the next tick counts them."""
        self._interactions[answer.interaction.framework, answer.interaction.status] += 1
        outcomes = self._outcomes
        for report in answer.reports:
            for each in report.evaluations:
                judge, cause = each.judge, each.cause if isinstance(each, Unscored) else ""
                outcomes[each.evaluator, judge.name, judge.version, judge.kind, cause] += 1

    def _count_noted(self) -> None:
        """Count what was noted, in what a successor goes on with too."""
        counted = self.state
        for (framework, status), n in self._interactions.items():
            key = f"{framework}{FRAMEWORK_STATUS}{status}"
            counted.interactions[key] = counted.interactions.get(key, 0) + n
            with contained("count"):
                self.meters.interaction(framework, status, n)
        for parts, n in self._outcomes.items():
            key = json.dumps(parts)
            counted.outcomes[key] = counted.outcomes.get(key, 0) + n
            with contained("count"):
                self.meters.evaluations([_evaluation(*parts)], n)
        self._interactions.clear()
        self._outcomes.clear()

    # --- now and then ---------------------------------------------------------------------------

    def tick(self, *, is_last: bool = False) -> None:
        """Estimate, keep, and only then tell. Raises `StreamError`.

        Args:
            is_last: A successor goes on: what is kept now and then is kept now.
        """
        if is_last:
            self._ticked_s = time.monotonic()
        if self._stream.lead("", self._lease, LEASE_S) != self._lease:
            raise LeaseLostError("another estimator has taken this service over")
        self._server_s = self._stream.now_s()
        self._note_arrivals()
        self._count_noted()
        events: list[AlarmEvent] = []
        with contained("estimate"):
            events += self.estimates.tick()
            events += self.estimates.keep()
            for joined in self.estimates.joined_feedback():
                self._exports.pass_on(joined)
        self._done += self._order.released(self._statistics.alarms.waits_for)
        if self._asks and self._checks is not None:
            with contained("estimate"):
                self._due += self._checks.due(self._server_s)
        self._checkpoint(events)
        for event in events:
            self._exports.announce(event)
        if events:
            # What listeners keep of an alarm, and that they were told.
            self._checkpoint([])
        self._refresh()

    def _note_arrivals(self) -> None:
        """Count what came by when it came: workers draw by it, and a backlog is no rush."""
        reached_s = self._reached_s if self._is_behind else self._server_s
        if self._counted_s is None or (lasted_s := reached_s - self._counted_s) <= 0:
            return
        share = 0.5 ** (lasted_s / ARRIVALS_HALF_LIFE_S)
        newest = self._arrivals / lasted_s
        self.state.arrivals_per_s = share * self.state.arrivals_per_s + (1 - share) * newest
        self._arrivals, self._counted_s = 0, reached_s

    def _checkpoint(self, events: Sequence[AlarmEvent]) -> None:
        """Keep the whole state with its position, in one step, unless the lease is another's."""
        state = self.state
        changed = self._folder.changed(self._kept)
        state.epoch += sum(file_of(name).startswith(CALIBRATION) for name in changed)
        means = msgspec.msgpack.encode(self._statistics.means.dump())
        if self._kept.get(KEPT_MEANS) != means:
            changed[KEPT_MEANS] = means
        told = encode_alarms(events) if events else b""
        if self._kept.get(KEPT_ALARMS, b"") != told:
            changed[KEPT_ALARMS] = told
        state.at_s = self._server_s
        state.given_up = self._statistics.alarms.given_up
        state.given_up_unknown = self._order.given_up
        changed[KEPT_STATE] = msgspec.json.encode(state)
        if not self._stream.checkpoint(self._lease, changed, self._done, self._due):
            raise LeaseLostError("another estimator has taken this service over")
        self._kept = {name: each for name, each in (self._kept | changed).items() if each}
        self._done, self._due = [], []

    def _refresh(self) -> None:
        with contained("estimate"):
            snapshot = self.estimates.snapshot()
            snapshot = replace(snapshot, gauges=(*snapshot.gauges, *self._gauges()))
            self.meters.refresh(snapshot=snapshot, queue_depth=0, open_runs=0, errors=errors)
            self._exports.snapshot(snapshot)

    def _gauges(self) -> Iterator[GaugeValue]:
        yield GaugeValue(name=STREAM_UP, value=1)
        yield GaugeValue(name=STREAM_SETTLED, value=len(self._order))
        yield GaugeValue(name=ESTIMATOR_CHECKPOINT, value=self.state.at_s)
        yield GaugeValue(name=ESTIMATOR_TAKEOVERS, value=int(self._lease.rpartition(" ")[2]))
        yield GaugeValue(name=ARRIVALS, value=self.state.arrivals_per_s)
        if self._judging is None:
            return
        judge = self._judging.judge.identity.name
        whose = (("judge", judge),)
        known = {BUDGET_LEVEL, BUDGET_LIMIT, MAX_SAMPLING_RATE}
        if self.state.rate is None:
            known.add(SAMPLING_RATE)  # nothing was drawn yet: as it is set
        else:
            yield GaugeValue(name=SAMPLING_RATE, value=self.state.rate, labels=whose)
        for gauge in self._judging.sampler.gauges(judge):
            if gauge.name in known:
                yield gauge
        if self._unit is not None and (cost := self.state.reading_costs.get(self._unit)):
            yield GaugeValue.of(EXPECTED_COST, cost, judge=judge, unit=self._unit)

    def close(self) -> None:
        """Stop serving; the state stays as the last checkpoint has it."""
        with contained("estimate"):
            self.estimates.close()
        self._exports.flush(time.monotonic() + FLUSH_S)
        self._exports.close()
        self._folder.remove()


def _state(told: bytes) -> EstimatorState:
    """Return the state that a predecessor kept; of version 1 it is one of the release before.

    Raises:
        UnknownStateError: It is of another version, or none at all.
    """
    try:
        version = msgspec.json.decode(told, type=dict[str, Any]).get("version")
        if version in (VERSION - 1, VERSION):
            return msgspec.json.decode(told, type=EstimatorState)
    except msgspec.MsgspecError as error:
        raise UnknownStateError("the estimator's state cannot be read") from error
    raise UnknownStateError(f"the estimator's state is of version {version}, not {VERSION}")


def _by_role(answer: SettledAnswer) -> dict[JudgeRole, Report]:
    """Return the reports by their roles, the first of each."""
    return {report.role: report for report in reversed(answer.reports)}


def _evaluation(evaluator: str, name: str, version: str, kind: Any, cause: str) -> Evaluation:
    """Return an evaluation with these labels; its score is none that anybody gave."""
    judge = JudgeIdentity(name=name, version=version, kind=kind)
    if cause:
        return Unscored(evaluator=evaluator, judge=judge, cause=Cause(cause))
    return Scored(evaluator=evaluator, judge=judge, score=0.0)
