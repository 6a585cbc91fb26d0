"""Encodes what a fleet's workers leave for its estimator: reports of one answer, decisions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cache
from typing import Any

import msgspec

from ragmonitor.errors import WireError
from ragmonitor.records import (
    AlarmEvent,
    Interaction,
    PendingVerdict,
    Prediction,
    Report,
    SamplingDecision,
)
from ragmonitor.wire.fitting import fitting
from ragmonitor.wire.frames import MAX_BYTES, framed
from ragmonitor.wire.record_bytes import decoded, packed, report_of, report_shape


@dataclass(frozen=True, slots=True, kw_only=True)
class SettledAnswer:
    """One answer of which a worker expects nothing more, with every report on it."""

    interaction: Interaction
    reports: tuple[Report, ...]
    """At most one of each role but `fallback`. Of the answer to a golden question those that
    `GoldenAnswer` has; none, if it is what the application captured."""
    prediction: Prediction = field(default_factory=Prediction)
    """The prediction as it stood before the draw."""
    decision: SamplingDecision | None = None
    """None: no judge but the built-in one is configured."""
    epoch: int = 0
    """Number of the calibration that predicted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Decided:
    """The decision on an answer before it is judged; the first one stands."""

    decision: SamplingDecision
    prediction: Prediction
    epoch: int


def encode_settled(answer: SettledAnswer) -> bytes:
    """Return a settled answer as bytes, compressed; its interaction is there once.

    What models were asked is left out: it was for the trace, which the worker has emitted, and
    holds the chunks once more.

    Raises:
        WireError: It is longer than `MAX_BYTES`, however much is left out.
    """
    calls = answer.interaction.generations
    whole = replace(answer.interaction, generations=tuple(replace(c, input=()) for c in calls))
    flags, body = packed(_plain(answer, whole))
    if len(body) > MAX_BYTES:
        for shorter in fitting(whole):
            assert isinstance(shorter, Interaction)  # noqa: S101 - for the type
            # It was judged whole: what is left out here makes its scores no worse.
            is_incomplete = whole.capture_incomplete
            cut = replace(shorter, capture_incomplete=is_incomplete)
            flags, body = packed(_plain(answer, cut))
            if len(body) <= MAX_BYTES:
                break
        else:
            raise WireError("the reports of an answer are too long")
    return framed(b"s", flags, body, compressed=True)


def _plain(answer: SettledAnswer, interaction: Interaction) -> dict[str, Any]:
    reports = [
        {each.name: getattr(report, each.name) for each in _report_fields()}
        for report in answer.reports
    ]
    return {
        "interaction": interaction,
        "reports": reports,
        "prediction": answer.prediction,
        "decision": answer.decision,
        "epoch": answer.epoch,
    }


def decode_settled(data: bytes) -> SettledAnswer:
    """Return the settled answer of these bytes. Raises as `decode`."""
    read = decoded(b"s", data, _settled_shape())
    try:
        reports = tuple([report_of(each, interaction=read.interaction) for each in read.reports])
    except ValueError as error:
        raise WireError(str(error)) from None
    return SettledAnswer(
        interaction=read.interaction,
        reports=reports,
        prediction=read.prediction,
        decision=read.decision,
        epoch=read.epoch,
    )


def encode_decided(decided: Decided) -> bytes:
    """Return a decision as bytes."""
    flags, body = packed(decided)
    return framed(b"d", flags, body, compressed=False)


def decode_decided(data: bytes) -> Decided:
    """Return the decision of these bytes. Raises as `decode`."""
    decided: Decided = decoded(b"d", data, Decided)
    return decided


def encode_pending(pending: PendingVerdict) -> bytes:
    """Return what is known of a verdict that is on its way as bytes."""
    flags, body = packed(pending)
    return framed(b"w", flags, body, compressed=False)


def decode_pending(data: bytes) -> PendingVerdict:
    """Return the pending verdict of these bytes. Raises as `decode`."""
    pending: PendingVerdict = decoded(b"w", data, PendingVerdict)
    if not 0 < pending.inclusion_probability <= 1:
        raise WireError("a drawn answer without a chance")
    return pending


def encode_alarms(events: Sequence[AlarmEvent]) -> bytes:
    """Return alarms as bytes, with the answers that are their examples."""
    flags, body = packed(list(events))
    return framed(b"a", flags, body, compressed=True)


def decode_alarms(data: bytes) -> list[AlarmEvent]:
    """Return the alarms of these bytes. Raises as `decode`."""
    events: list[AlarmEvent] = decoded(b"a", data, list[AlarmEvent])
    return events


@cache
def _report_fields() -> tuple[Any, ...]:
    return tuple(each for each in fields(Report) if each.name != "interaction")


@cache
def _settled_shape() -> type[msgspec.Struct]:
    """Return the shape of what is sent: reports without their interaction."""
    report = report_shape(has_interaction=False)
    return msgspec.defstruct(
        "_Settled",
        [
            ("interaction", Interaction),
            ("reports", tuple[report, ...]),  # type: ignore[valid-type]
            ("prediction", Prediction),
            ("decision", SamplingDecision | None),
            ("epoch", int),
        ],
    )
