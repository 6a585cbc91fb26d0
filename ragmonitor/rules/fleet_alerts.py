"""The alerts on what stands between applications and their scores: streams, fleets, receivers.

All are silent where there is none of them: nobody exports their series there.
"""

from __future__ import annotations

from ragmonitor import metrics as names
from ragmonitor.rules.model import Alert, Scope, gained
from ragmonitor.rules.wording import NOT_KNOWN, SERVICE, moment, number

MAX_AGE_S = 600
"""An alarm that is ten minutes late is one that somebody should know of."""
MAX_CHECKPOINT_AGE_S = 60
"""The estimator keeps its state each second, and a standby takes over within ten."""
MAX_TAKEOVERS = 3
"""In an hour. A rolling update needs two."""
AHEAD_S = 4 * 3_600
MAX_FILLED = 0.8
MAX_REFUSED = 0.05
MAX_GIVEN_UP = 0.01


def _now(series: str, *, how: str = "max") -> str:
    return number(f"{how}({series}{{service=%q}})", form="%.0f")


def fleet(scope: Scope) -> tuple[Alert, ...]:
    """Return the alerts on a stream, on its workers and on their estimator."""
    up, waiting = scope.pick(names.STREAM_UP), scope.pick(names.STREAM_WAITING)
    settled = scope.pick(names.STREAM_SETTLED)
    takeovers = scope.pick(names.ESTIMATOR_TAKEOVERS)
    limit = f"min by (service) ({scope.pick(names.STREAM_LIMIT)})"
    on_stream = (
        f"Waiting: {_now(names.STREAM_WAITING)}; taken by workers: {_now(names.STREAM_OPEN)}; "
        f"settled, for the estimator: {_now(names.STREAM_SETTLED)}; workers: "
        f"{_now(names.STREAM_WAITING, how='count')}."
    )
    return (
        Alert(
            name="RagMonitorStreamDown",
            expr=f"min by (service) ({up}) == 0",
            lasts="2m",
            summary="The stream between applications and workers cannot be reached.",
            description=(
                f"{SERVICE}: of {_now(names.STREAM_UP, how='count')} processes "
                f"{_now(names.STREAM_UP, how='sum')} reach the stream's server. Applications keep "
                "what fits their buffer and try again each second; the rest is counted as "
                "stream_down. Waiting in the applications, or in workers: "
                f"{_now(names.QUEUE_DEPTH, how='sum')}."
            ),
        ),
        Alert(
            name="RagMonitorStreamLag",
            expr=f"max by (service) ({scope.pick(names.STREAM_OLDEST_SECONDS)}) > {MAX_AGE_S}",
            lasts="5m",
            summary="Answers wait long for being scored.",
            description=(
                f"{SERVICE}: the oldest answer on the stream is "
                f"{{{{ $value | humanizeDuration }}}} old, and so late are scores and alarms. "
                f"{on_stream}"
            ),
        ),
        Alert(
            name="RagMonitorStreamFilling",
            expr=(
                f"max by (service) ({waiting}) > {MAX_FILLED} * {limit}\n"
                "or\n"
                f"max by (service) (predict_linear({waiting}[1h], {AHEAD_S})) > {limit}"
            ),
            lasts="15m",
            summary="The stream is nearly full, or will be within four hours.",
            description=(
                f"{SERVICE}: {_now(names.STREAM_WAITING)} answers wait, and "
                f"{_now(names.STREAM_LIMIT, how='min')} may. Beyond, applications put none, and "
                f"count them as queue_full. {on_stream}"
            ),
        ),
        Alert(
            name="RagMonitorWorkersGone",
            expr=(
                f"group by (service) ({up})\nunless on (service)\ngroup by (service) ({waiting})"
            ),
            lasts="5m",
            summary="Answers are put on a stream, and no worker takes them.",
            description=(
                f"{SERVICE}: processes use a stream, and no worker of it is scraped. Nothing is "
                "scored until one runs; what is put meanwhile waits."
            ),
        ),
        Alert(
            name="RagMonitorEstimatorGone",
            expr=(
                f"group by (service) ({settled})\n"
                "unless on (service)\n"
                f"time() - max by (service) ({scope.pick(names.ESTIMATOR_CHECKPOINT)}) "
                f"< {MAX_CHECKPOINT_AGE_S}"
            ),
            lasts="2m",
            summary="A fleet has no estimator that works.",
            description=(
                f"{SERVICE}: workers score answers, and no estimator has kept its state in the "
                "last minute: there are no means, alarms or exports. Last kept: "
                + moment(f"max({names.ESTIMATOR_CHECKPOINT}{{service=%q}})", without=NOT_KNOWN)
                + f". Settled answers that wait: {_now(names.STREAM_SETTLED)}."
            ),
        ),
        Alert(
            name="RagMonitorEstimatorTakeovers",
            expr=(
                f"max by (service) (max_over_time({takeovers}[1h]))\n"
                f"- min by (service) (min_over_time({takeovers}[1h]))\n"
                f"> {MAX_TAKEOVERS}"
            ),
            summary="The estimator changes again and again.",
            description=(
                f'{SERVICE}: {{{{ $value | printf "%.0f" }}}} takeovers in the last hour. Numbers '
                "and alarms go on over each, up to ten seconds later; histograms and what the "
                "page shows begin anew."
            ),
        ),
        Alert(
            name="RagMonitorRecordsBuried",
            expr=f"max by (service) ({scope.pick(names.STREAM_BURIED)}) > 0",
            lasts="5m",
            summary="Records could not be read or scored and were put aside.",
            description=(
                f'{SERVICE}: {{{{ $value | printf "%.0f" }}}} records are buried: three workers '
                "died of each, or it cannot be read. They count as unscored; the log of the "
                "worker says why."
            ),
        ),
    )


def _share(scope: Scope, counter: str, window: str, outcomes: str) -> str:
    """Return the share of a counter that has an outcome."""
    total = scope.pick(f"{counter}_total")
    grown = gained(scope, f"{counter}_total", window, f'outcome=~"{outcomes}"')
    return (
        f"sum by (service, outcome) {grown}\n"
        "/ on (service) group_left ()\n"
        f"(sum by (service) (increase({total}[{window}])) >= 20)"
    )


def receivers(scope: Scope) -> tuple[Alert, ...]:
    """Return the alerts on `ragmonitor receive`."""
    refused = "full|unauthorized|malformed|too_large|too_many|too_slow"
    return (
        Alert(
            name="RagMonitorSpansRefused",
            expr=f"{_share(scope, names.RECEIVED_REQUESTS, '15m', refused)}\n> {MAX_REFUSED}",
            lasts="10m",
            summary="Requests with spans are refused.",
            description=(
                f"{SERVICE}: {{{{ $value | humanizePercentage }}}} of the last 15 minutes' "
                "requests with spans were refused, outcome {{ $labels.outcome }}. Open traces: "
                f"{_now(names.OPEN_TRACES, how='sum')}, about "
                + number(f"sum({names.OPEN_TRACES_BYTES}{{service=%q}}) / 1048576", form="%.0f MiB")
                + ". Senders try again after `full`, as long as they can wait; after the others "
                "their spans are lost."
            ),
        ),
        Alert(
            name="RagMonitorTracesGivenUp",
            expr=(
                f"{_share(scope, names.RECEIVED_TRACES, '1h', 'too_large|unreadable')}\n"
                f"> {MAX_GIVEN_UP}\n"
                "or\n"
                f"{_share(scope, names.RECEIVED_TRACES, '1h', 'none')}\n"
                "> 0.99"
            ),
            lasts="10m",
            summary="Traces arrive and no answers are found in them.",
            description=(
                f"{SERVICE}: {{{{ $value | humanizePercentage }}}} of the last hour's traces: "
                "{{ $labels.outcome }}. Answers found: "
                + number(
                    f'sum(increase({names.RECEIVED_TRACES}_total{{service=%q,outcome="interaction"}}'
                    "[1h]))",
                    form="%.0f",
                )
                + "."
            ),
        ),
    )
