"""Makes stages of settings: who judges, what is estimated, where it goes."""

from ragmonitor.pipeline.wiring.wired_exports import (
    configure,
    exporters_of,
    incidents_of,
    meters_of,
    redactor_of,
    restrict_logs,
    traces_of,
    view_of,
)
from ragmonitor.pipeline.wiring.wired_judges import (
    CONCURRENCY,
    budget_of,
    builtin_judge,
    encoder_of,
    golden_reader,
    judge_doubt,
    judge_named,
    judging_of,
    paid_judge,
    reader_of,
)
from ragmonitor.pipeline.wiring.wired_statistics import estimates_of, store_of

__all__ = [
    "CONCURRENCY",
    "budget_of",
    "builtin_judge",
    "configure",
    "encoder_of",
    "estimates_of",
    "exporters_of",
    "golden_reader",
    "incidents_of",
    "judge_doubt",
    "judge_named",
    "judging_of",
    "meters_of",
    "paid_judge",
    "reader_of",
    "redactor_of",
    "restrict_logs",
    "store_of",
    "traces_of",
    "view_of",
]
