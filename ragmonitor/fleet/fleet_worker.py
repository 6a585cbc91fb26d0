"""One of several workers of a service: takes, reads, decides, judges and settles."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import tempfile
import threading
import time
import weakref
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

import msgspec
from opentelemetry import context

from ragmonitor.capture import sound
from ragmonitor.capture.probe_mark import is_probe
from ragmonitor.conventions import PROBE_BAGGAGE
from ragmonitor.errors import StreamError, WireError
from ragmonitor.estimation import Predictions
from ragmonitor.estimation.means import pending_verdict
from ragmonitor.estimation.predictions import STATE_VERSION, state_name
from ragmonitor.estimation.signals import outcomes
from ragmonitor.evaluators import table, unscorable
from ragmonitor.fleet.anchor_checks import read_again
from ragmonitor.fleet.estimator_state import KEPT_STATE, EstimatorState, file_field
from ragmonitor.fleet.fleet_stream import ESTIMATOR, FleetStream, Outcome, elsewhere
from ragmonitor.guard import contained, errors, logger, record_error, record_outage
from ragmonitor.judging import JudgeRunner, ReadingEngine
from ragmonitor.metrics import STREAM_SETTLED, STREAM_UP
from ragmonitor.records import (
    Assessment,
    Cause,
    GaugeValue,
    Interaction,
    Prediction,
    Report,
    SamplingDecision,
    Severity,
    Snapshot,
)
from ragmonitor.redaction import Redactor
from ragmonitor.settings import Settings
from ragmonitor.state import StateFile
from ragmonitor.streams import MAX_DELIVERIES, Consumer, Delivery, log_burial
from ragmonitor.wire import (
    Decided,
    SettledAnswer,
    decode,
    decode_decided,
    decode_feedback,
    decode_report,
    encode,
    encode_decided,
    encode_feedback,
    encode_pending,
    encode_report,
    encode_settled,
    is_kind,
)
from ragmonitor.wiring import (
    budget_of,
    builtin_judge,
    golden_reader,
    judging_of,
    meters_of,
    reader_of,
    traces_of,
)

MAX_OPEN: Final = 256
"""Records that a worker has in hand at once, beside those that wait for the judge."""
MAX_UNSETTLED: Final = 50_000
"""Settled answers beyond which workers wait for the estimator."""
STALE_S: Final = 12.0
"""A worker that was not heard of for so long is dead, and its records are taken over."""
REFRESH_S: Final = 2.0
CLAIM_S: Final = 3.0
IDLE_S: Final = 0.05
RETRY_S: Final = 1.0
CLOSING_S: Final = 10.0
CAPTURED_WITHIN_S: Final = 5.0
"""The time for which an application's own record of a golden question is looked for."""
MAX_CAPTURED_BYTES: Final = 256 * 1024


class FleetWorker:
    """Scores what it takes off a stream, beside other workers.

    What it leaves are reports and decisions; the estimator (`Estimator`) makes numbers of them.
    What it has in hand when it ends, or dies, is another worker's.
    """

    def __init__(self, settings: Settings, stream: FleetStream, *, redactor: Redactor) -> None:
        """Wire the judges; nothing runs yet.

        Args:
            settings: The settings.
            stream: Where records come from and reports go to.
            redactor: What every text passes once more, by this process's settings.

        Raises:
            SettingsError: The settings cannot be carried out.
        """
        self._stream = stream
        self._redactor = redactor
        self._group_by = settings.estimation.group_by
        self._builtin, self._reader = builtin_judge(), reader_of(settings)
        self._judging = judging_of(settings, budget=budget_of(settings, stream.address))
        entries = table.select(settings.evaluators)
        self._engine = ReadingEngine(
            entries,
            clean=redactor.text,
            min_severity=Severity(settings.estimation.min_severity),
        )
        self._runner = (
            None
            if self._judging is None
            else JudgeRunner(self._judging, entries, clean=redactor.text)
        )
        self._goldens = golden_reader(
            settings, self._builtin, self._judging, redactor.text, place=stream.address
        )
        self.meters = meters_of(settings, None)
        """The series of this process: its operation alone."""
        self.meters.elsewhere = elsewhere("worker", "")
        self.traces = traces_of(settings, self.meters.dropped, is_repeated=True)
        """Emits each interaction's trace."""
        self._learned = _Learned(settings, self._reader or self._builtin, self._judging)
        self._max_asked = settings.judge.max_pending
        self._asked = 0
        """Drawn answers that wait for the judge, or that it reads."""
        self._consumer = Consumer()
        self._open: dict[str, asyncio.Task[None]] = {}
        self._ahead: set[str] = set()
        """Entries that were taken and are not yet in `_open`."""
        self._suspect = ""
        """The entry that is handled alone, since workers may die of it."""
        self._refreshed_s = self._claimed_s = -STALE_S
        self._waits_for: str | None = None
        """Before it takes records; empty: it takes some. None: it has not looked yet."""

    def run(self, stop: threading.Event, *, drain: bool = False) -> None:
        """Work until asked to stop.

        Args:
            stop: Ends it.
            drain: End also when nothing is left on the stream.
        """
        token = context.attach(context.set_value("suppress_instrumentation", True))
        try:
            asyncio.run(self._main(stop, drain=drain))
        finally:
            context.detach(token)

    async def _main(self, stop: threading.Event, *, drain: bool) -> None:
        preparing = asyncio.create_task(self._prepare())
        self._hurry = asyncio.Event()
        try:
            while not stop.is_set():
                try:
                    busy = await self._step()
                    if not busy and drain and self._waits_for == "" and not self._left():
                        return
                    await asyncio.sleep(0 if busy else IDLE_S)
                except StreamError as error:
                    record_outage(error)
                    self._show((GaugeValue(name=STREAM_UP, value=0),))
                    self._consumer.begin_anew()
                    await asyncio.sleep(RETRY_S)
        finally:
            await self._end(preparing)

    async def _prepare(self) -> None:
        if self._runner is not None:
            await self._runner.prepare()

    async def _end(self, preparing: asyncio.Task[None]) -> None:
        """Settle what is nearly done; the rest is taken over by others."""
        if self._open:
            await asyncio.wait(self._open.values(), timeout=CLOSING_S)
        unfinished = [preparing, *self._open.values()]
        for task in unfinished:
            task.cancel()
        await asyncio.wait(unfinished, timeout=1.0)
        if self._runner is not None:
            with contained("judge"):
                await self._runner.close()
        for each in (self.traces, self.meters, self._stream, self._learned):
            with contained("close"):
                each.close()

    # --- taking ---------------------------------------------------------------------------------

    async def _step(self) -> bool:
        """Take as much as there is room for; return whether any came."""
        self._refresh()
        # A slow judge holds up nothing but what is drawn: others do not wait behind it.
        room = MAX_OPEN + min(self._asked, self._max_asked) - len(self._open)
        if room <= 0 or self._suspect or self._waits_for != "":
            await asyncio.sleep(0.002)
            return bool(self._open)
        taken: Sequence[Delivery] = ()
        if time.monotonic() - self._claimed_s >= CLAIM_S:
            taken = self._stream.take_over(self._consumer.name, room, STALE_S)
            if not taken:
                self._claimed_s = time.monotonic()
        if not taken:
            taken = self._stream.take(self._consumer.name, room, wait_s=0.0, stale_s=None)
        elif taken[0].deliveries >= MAX_DELIVERIES:
            await self._handle_alone(taken[0])
            return True
        await self._handle(taken)
        return bool(taken)

    async def _handle_alone(self, suspect: Delivery) -> None:
        """Handle a record while nothing else is in hand, so that it alone is blamed."""
        self._ahead = {suspect.id}
        try:
            while self._open:
                await asyncio.wait(self._open.values(), timeout=REFRESH_S)
                self._refresh()  # a judge may take longer than a dead worker is waited for
        finally:
            self._ahead.clear()
        await self._handle([suspect])
        if suspect.id in self._open:
            self._suspect = suspect.id

    def _left(self) -> int:
        state = self._stream.state()
        return state.waiting + state.open

    def _refresh(self) -> None:
        """Say that this process lives, and take over what the estimator has published."""
        if time.monotonic() - self._refreshed_s < REFRESH_S:
            return
        self._stream.keep_open(self._consumer.name, [*self._open, *self._ahead])
        leader = self._stream.leader()
        self.meters.elsewhere = elsewhere("worker", leader)
        state, unsettled = self._stream.state(), self._stream.unsettled()
        waits_for = ""
        if leader and not leader.startswith(ESTIMATOR):
            # One that works alone takes what others have in hand for a dead worker's.
            waits_for = "a worker without --fleet to end, which has this service"
        elif unsettled >= MAX_UNSETTLED:
            waits_for = "the estimator, which has many settled answers to take in"
        if waits_for != self._waits_for:
            does = f"waits for {waits_for}" if waits_for else "takes records"
            logger.info("ragmonitor: this worker %s", does)
        self._waits_for = waits_for
        with contained("estimate"):
            self._learned.follow(self._stream)
        self._refreshed_s = time.monotonic()
        self._show((*state.gauges(), GaugeValue(name=STREAM_SETTLED, value=unsettled)))
        judge = None if self._judging is None else self._judging.judge
        if judge is not None and judge.breaker_state is not None:
            self.meters.breaker(judge.identity.name, judge.breaker_state)

    def _show(self, gauges: tuple[GaugeValue, ...]) -> None:
        self.meters.refresh(
            snapshot=Snapshot(gauges=gauges),
            queue_depth=len(self._open),
            open_runs=0,
            errors=errors,
        )

    async def _handle(self, taken: Sequence[Delivery]) -> None:
        """Read what was taken, and have each answer judged on a task of its own."""
        records: list[tuple[Delivery, Interaction]] = []
        for delivery in taken:
            if delivery.id in self._open:
                continue  # under an earlier name
            if is_kind(delivery.data, b"f"):
                self._pass_on(delivery)
                continue
            if is_kind(delivery.data, b"j"):
                name = f"refreeze {delivery.id}"
                self._stream.settle_answer(delivery.id, name, delivery.data, is_decided=True)
                continue
            if is_kind(delivery.data, b"r"):
                self._begin(delivery.id, self._check(delivery))
                continue
            record = self._record(delivery)
            if record is not None:
                records.append((delivery, record))
        self._ahead = {delivery.id for delivery, _ in records}
        try:
            found = await self._found([record for _, record in records])
            for delivery, record in records:
                self._begin(delivery.id, self._score(delivery, record, found.get(id(record))))
                self._ahead.discard(delivery.id)
                await asyncio.sleep(0)
                self._refresh()  # a slow machine takes long for a batch
        finally:
            self._ahead.clear()

    def _begin(self, entry: str, work: Coroutine[Any, Any, None]) -> None:
        """Go on with an entry on a task of its own; others are told that it is in hand."""
        task = asyncio.create_task(work)
        self._open[entry] = task
        task.add_done_callback(partial(self._ended, entry))

    async def _found(self, records: Sequence[Interaction]) -> dict[int, Any]:
        """Return what a reader of its own found in records, by their identity."""
        found: dict[int, Any] = {}
        if self._reader is None:
            return found
        for record in records:
            if unscorable(record) is None:
                found[id(record)] = await self._reader.read(record, hurry=self._hurry)
                self._refresh()
        return found

    def _pass_on(self, delivery: Delivery) -> None:
        """Leave what a person said of an answer to the estimator."""
        try:
            told = decode_feedback(delivery.data)
        except WireError as error:
            self._stream.bury_answer(delivery, "", delivery.data, str(error))
            return
        data = encode_feedback(told.redacted(self._redactor.text))
        self._stream.settle_answer(delivery.id, f"feedback {delivery.id}", data, is_decided=True)

    def _ended(self, entry: str, task: asyncio.Task[None]) -> None:
        self._open.pop(entry, None)
        if entry == self._suspect:
            self._suspect = ""
        if not task.cancelled() and (error := task.exception()) is not None:
            record_error("worker", error)
            self._consumer.begin_anew()

    def _record(self, delivery: Delivery) -> Interaction | None:
        """Return the record of a delivery; None: it was buried."""
        try:
            record = decode(delivery.data)
        except WireError as error:
            self._bury(delivery, None, str(error))
            return None
        if why := self._consumer.died_of(delivery):
            self._bury(delivery, record, why)
            return None
        return record

    # --- one reference answer -------------------------------------------------------------------

    async def _check(self, delivery: Delivery) -> None:
        """Exchange a reference answer that is due for what the judge says of it now."""
        try:
            check = decode_report(delivery.data)
            if why := self._consumer.died_of(delivery):
                raise WireError(why)
        except WireError as error:
            if self._stream.bury_answer(delivery, "", delivery.data, str(error)):
                log_burial(str(error))
            return
        report = check
        self._asked += 1
        try:
            anchor = self._redactor(sound(check.interaction))
            report = await read_again(self._runner, check, anchor)
        except Exception as error:  # noqa: BLE001 - one reading must cost only itself
            record_error("worker", error)
        finally:
            self._asked -= 1
        data = encode_report(replace(report, interaction=check.interaction), compressed=True)
        await self._exchange(delivery.id, f"anchor {delivery.id}", data, is_decided=True)

    # --- one answer -----------------------------------------------------------------------------

    async def _score(self, delivery: Delivery, record: Interaction, found: Any) -> None:
        """Read, decide, judge and settle one record; whatever fails, its reports are owed."""
        decided: _Draw | None = None
        try:
            record = self._redactor(sound(record))
            began = time.perf_counter()
            builtin = None if is_probe(record) else self._read(record, found)
            self.meters.worked("read", time.perf_counter() - began)
            if builtin is None:
                answer = await self._probed(record)
            elif self._runner is None:
                answer = SettledAnswer(interaction=record, reports=(builtin,))
            else:
                decided = self._draw(self._runner, delivery, record, builtin)
                if decided is None:
                    return
                answer = await self._judged(self._runner, builtin, decided)
        except StreamError:
            raise  # it is taken over by whoever reaches the stream
        except Exception as error:  # noqa: BLE001 - one answer must cost only itself
            record_error("worker", error)
            kept = None if decided is None else decided.decided
            answer = self._unscored(record, Cause.INTERNAL_ERROR, kept)
        await self._settle(delivery, answer, is_kept=decided is not None and decided.is_kept)

    async def _probed(self, record: Interaction) -> SettledAnswer:
        """Have the answer to a golden question judged, if it is the asker's record."""
        probe = record.probe
        if probe is None:
            golden = record.attributes.get(PROBE_BAGGAGE, "")
            shown = replace(record, answer="", not_shown=(), retrievals=(), generations=())
            data = encode(shown, compressed=True)
            if golden and record.chunks and len(data) <= MAX_CAPTURED_BYTES:
                self._stream.note_captured(golden, data)
            return SettledAnswer(interaction=record, reports=())
        if not probe.knows_chunks:
            await self._look_for_captured(record, probe.golden)
        if self._runner is not None:
            await self._runner.wait_prepared()
        self._asked += 1
        try:
            found = await self._goldens.read(record)
        finally:
            self._asked -= 1
        reports = (found.report,) if found.reference is None else (found.report, found.reference)
        return SettledAnswer(interaction=found.report.interaction, reports=reports)

    async def _look_for_captured(self, record: Interaction, golden: str) -> None:
        """Take what the application captured, which another worker may still have in hand."""
        until_s = time.monotonic() + CAPTURED_WITHIN_S
        while True:
            data = self._stream.captured(golden)
            captured = None if data is None else decode(data)
            if captured and record.started_ns <= captured.started_ns <= record.ended_ns:
                self._goldens.note_captured(captured)
                return
            if time.monotonic() >= until_s:
                return
            await asyncio.sleep(RETRY_S / 4)

    def _read(self, record: Interaction, found: Any) -> Report:
        if isinstance(found, Assessment):
            return self._engine.found(record, found)
        if self._reader is not None and isinstance(found, Cause):
            self.meters.stood_in(self._reader.identity.name, found.value)
        reading = self._engine.read_now(self._builtin, record)
        if self._reader is not None and reading.cause is not None:
            return self._engine.unread(self._reader, "builtin", record, reading.cause)
        return reading.report

    def _draw(
        self, runner: JudgeRunner, delivery: Delivery, record: Interaction, builtin: Report
    ) -> _Draw | None:
        """Return the first decision on an answer, ours or an earlier one; None: it is gone."""
        # An answer that is delivered again may have one.
        kept = self._stream.decision(record.id) if delivery.deliveries > 1 else None
        if kept is None:
            prediction = self._learned.predict(builtin)
            decision, cause = runner.draw(record, prediction, pending=self._asked)
            decided = Decided(decision=decision, prediction=prediction, epoch=self._learned.epoch)
            if cause is not None:
                return _Draw(decided, cause, is_kept=False)
            pending = pending_verdict(builtin, prediction, decision, self._group_by)
            try:
                outcome, kept = self._stream.decide(
                    delivery.id, record.id, encode_decided(decided), encode_pending(pending)
                )
            except StreamError:
                runner.config.sampler.refund(decision, 0.0)
                raise
            if outcome is Outcome.DONE:
                return _Draw(decided, None, is_kept=True)
            runner.config.sampler.refund(decision, 0.0)
            if outcome is Outcome.GONE:
                return None
        return _again(runner, record, decode_decided(kept))

    async def _judged(self, runner: JudgeRunner, builtin: Report, draw: _Draw) -> SettledAnswer:
        decision, prediction = draw.decided.decision, draw.decided.prediction
        if draw.cause is not None:
            found = runner.unread(builtin.interaction, decision, draw.cause)
        else:
            self._asked += 1
            try:
                found = await runner.ask(builtin.interaction, decision)
            finally:
                self._asked -= 1
        if prediction.hallucination is not None:
            builtin = replace(builtin, predicted=prediction.hallucination)
        return _answered(builtin, found, draw.decided)

    def _unscored(
        self, record: Interaction, cause: Cause, decided: Decided | None
    ) -> SettledAnswer:
        """Return an answer without a score, with the chance that it had."""
        builtin = self._engine.unread(self._reader or self._builtin, "builtin", record, cause)
        if self._runner is None:
            return SettledAnswer(interaction=record, reports=(builtin,))
        if decided is None:
            never = SamplingDecision(inclusion_probability=0.0, drawn=False, cause=cause)
            decided = Decided(decision=never, prediction=Prediction(), epoch=0)
        return _answered(builtin, self._runner.unread(record, decided.decision, cause), decided)

    async def _settle(self, delivery: Delivery, answer: SettledAnswer, *, is_kept: bool) -> None:
        """Exchange the record for its reports; again and again while the stream is down."""
        answer = self._traced(answer)
        while True:
            try:
                data = encode_settled(answer)
            except WireError as error:
                self._bury(delivery, answer.interaction, str(error))
                return
            outcome, kept = await self._exchange(
                delivery.id, answer.interaction.id, data, is_decided=is_kept
            )
            if outcome is not Outcome.DECIDED:
                return
            if self._runner is None:  # settings had a judge when it was drawn
                is_kept = True
                continue
            # It was put twice, and drawn by who has the other one.
            draw = _again(self._runner, answer.interaction, decode_decided(kept))
            answer = await self._judged(self._runner, answer.reports[0], draw)
            is_kept = True

    async def _exchange(
        self, entry: str, identity: str, data: bytes, *, is_decided: bool
    ) -> tuple[Outcome, bytes]:
        """Settle a record; again and again while the stream is down."""
        while True:
            try:
                return self._stream.settle_answer(entry, identity, data, is_decided=is_decided)
            except StreamError as error:
                record_outage(error)
                await asyncio.sleep(RETRY_S)

    def _traced(self, answer: SettledAnswer) -> SettledAnswer:
        """Emit an answer's trace, and return it with its reports pointing there."""
        if is_probe(answer.interaction):
            return answer
        with contained("export"):
            target = self.traces.emit(answer.interaction, answer.reports)
            return replace(
                answer, reports=tuple(replace(each, target=target) for each in answer.reports)
            )
        return answer

    def _bury(self, delivery: Delivery, record: Interaction | None, reason: str) -> None:
        """Put a record aside, and have it counted as unscored with the chance that it had."""
        decided: Decided | None = None
        known = record or Interaction(
            id="", query="", chunks=(), answer="", framework="unknown", status="error",
            started_ns=time.time_ns(), ended_ns=time.time_ns(),
        )  # fmt: skip
        if record is not None and (kept := self._stream.decision(record.id)) is not None:
            with contextlib.suppress(WireError):
                decided = decode_decided(kept)
        answer = self._unscored(known, Cause.INTERNAL_ERROR, decided)
        try:
            data = encode_settled(answer)
        except WireError:  # it is too long with its reports
            short = replace(known, chunks=(), retrievals=(), generations=(), not_shown=())
            data = encode_settled(self._unscored(short, Cause.INTERNAL_ERROR, decided))
        if self._stream.bury_answer(delivery, known.id, data, reason):
            log_burial(reason)


@dataclass(frozen=True, slots=True)
class _Draw:
    """The decision on an answer."""

    decided: Decided
    cause: Cause | None
    """Why it is not judged; None: it is."""
    is_kept: bool
    """Whether the stream has it, for who takes over."""


def _again(runner: JudgeRunner, record: Interaction, kept: Decided) -> _Draw:
    """Return an earlier decision: the chance stays, the reading is paid for once more."""
    paid = runner.reserve(record)
    cause = Cause.OVER_BUDGET if paid is None else None
    decision = replace(kept.decision, reserved=0.0 if paid is None else paid.reserved, cause=cause)
    return _Draw(replace(kept, decision=decision), cause, is_kept=True)


def _answered(builtin: Report, found: Report, decided: Decided) -> SettledAnswer:
    return SettledAnswer(
        interaction=builtin.interaction,
        reports=(builtin, found),
        prediction=decided.prediction,
        decision=decided.decision,
        epoch=decided.epoch,
    )


class _Learned:
    """The state that the estimator has published: the calibration, and what steers the sampling."""

    def __init__(self, settings: Settings, reader: Any, judging: Any) -> None:
        self.epoch = 0
        """Number of the calibration that predicts now; 0: there is none yet."""
        self._judging = judging
        self._predictions: Predictions | None = None
        if judging is None:
            return
        self._folder = Path(tempfile.mkdtemp(prefix="ragmonitor-"))
        self._remove_folder = weakref.finalize(self, shutil.rmtree, self._folder, True)
        what = state_name(reader.identity, settings.estimation.min_severity)
        self._file = StateFile.of_service(
            self._folder, what, settings.service, version=STATE_VERSION
        )
        self._predictions = Predictions(
            judge=judging.judge.identity.name,
            file=self._file,
            reader=reader.identity.name,
        )

    def predict(self, builtin: Report) -> Prediction:
        """Return what the published calibration says of an answer."""
        if self._predictions is not None:
            with contained("estimate"):
                return self._predictions.predict(builtin, outcomes(builtin))
        return Prediction()

    def follow(self, stream: FleetStream) -> None:
        """Take over what is new. Raises `StreamError`."""
        if self._predictions is None or self._judging is None:
            return
        told = stream.kept_field(KEPT_STATE)
        if told is None:
            return
        state = msgspec.json.decode(told, type=EstimatorState)
        sampler = self._judging.sampler
        sampler.share_arrivals(state.arrivals_per_s)
        if state.epoch != self.epoch:
            content = stream.kept_field(file_field(self._file.path.name))
            if content is not None:
                self._file.path.write_bytes(content)
                self._predictions.reload()
            self.epoch = state.epoch

    def close(self) -> None:
        """Remove the copy of the calibration."""
        if self._predictions is not None:
            self._remove_folder()
