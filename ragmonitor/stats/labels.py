"""People's verdicts on judged answers, and what they make of the judged rate.

The judged rate is that of a judge who errs: at a true rate of 4 % a judge that is right about 97 %
of the fine answers reports 6.3 %. People read some of its answers, drawn apart among those that it
found hallucinated and those that it found fine, and say for each kind how many are.
"""

from __future__ import annotations

import base64
import math
import unicodedata
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec

from ragmonitor.records import Estimate
from ragmonitor.runtime.errors import InputError
from ragmonitor.runtime.tables import table_rows
from ragmonitor.stats.beta import Z95

MIN_LABELS: Final = 100
YES: Final = frozenset(("1", "yes", "y", "true", "t", "hallucinated", "x", "是", "有", "真"))
NO: Final = frozenset(("0", "no", "n", "false", "f", "fine", "ok", "否", "无", "假"))
UNDECIDED: Final = frozenset(("", "?", "unsure", "n/a", "na", "-", "不确定"))
HUMAN: Final = "human"
"""The column that people fill in."""
SEALED: Final = "sealed"
"""The column that holds what `seal` wrote."""
MAX_SEALED_BYTES: Final = 10_000


class Label(msgspec.Struct, frozen=True, kw_only=True):
    """The verdicts of the judge and of a person on one answer."""

    interaction_id: str
    judged: bool
    """The judge found it hallucinated."""
    human: bool | None = None
    """A person does; None: nobody has said anything, or nobody can tell."""
    chance: Annotated[float, msgspec.Meta(gt=0, le=1)] = 1.0
    """Inclusion probability of the answer."""
    drawn_from: Annotated[int, msgspec.Meta(ge=1)] = 1
    """The number of answers of this verdict that it was drawn among."""


def wilson(mean: float, n: float) -> tuple[float, float]:
    """Return the 95 % interval of a share.

    Args:
        mean: The share that was seen.
        n: Of how many; effective ones, if their weights differ.

    Source:
        Wilson (1927), "Probable inference", JASA 22(158).
    """
    shrink = 1 + Z95**2 / n
    centre = (mean + Z95**2 / (2 * n)) / shrink
    half = Z95 / shrink * math.sqrt(mean * (1 - mean) / n + Z95**2 / (4 * n**2))
    return max(0.0, min(mean, centre - half)), min(1.0, max(mean, centre + half))


def hallucinated_share(labels: Iterable[Label], *, judged: bool) -> Estimate | None:
    """Return how many answers of one verdict people find hallucinated; None: none is labelled.

    With `judged` that is the judge's precision (PPV), without it is what it overlooks (FOR, the
    false omission rate). Answers that were judged with a smaller chance stand for more of their
    kind: each label weighs 1 / chance (Hajek's mean), and the interval is Wilson's at Kish's
    effective number, (sum of weights)^2 / sum of their squares.
    """
    kind = [label for label in labels if label.judged is judged]
    if not kind:
        return None
    weights = [1 / label.chance for label in kind]
    total = math.fsum(weights)
    n = total**2 / math.fsum(weight**2 for weight in weights)
    hits = math.fsum(weight for weight, label in zip(weights, kind, strict=True) if label.human)
    mean = min(1.0, hits / total)
    lower, upper = wilson(mean, n)
    return Estimate(mean, lower, upper, n, judged=len(kind))


def combined(rate: Estimate, precision: Estimate, omission: Estimate) -> Estimate:
    """Return rate * precision + (1 - rate) * omission, with its interval.

    Each of the three is estimated from draws of its own, so the squares of what each may be off by
    add up; the distances of an interval's own ends stand for the deviations, since few hits make
    it lopsided (MOVER, the method of variance estimates recovery). The more the rate can be off
    upwards, the more the result is, as long as the judge is better than a coin; if not it is the
    other way round.

    Source:
        Zou & Donner (2008), "Construction of confidence limits about effect measures: a general
        approach", Statistics in Medicine 27(10), equations 5 and 6, for sums; applied here to the
        linear terms of the two products.
    """

    def at(judged: float) -> float:
        return judged * precision.mean + (1 - judged) * omission.mean

    mean, slope = at(rate.mean), precision.mean - omission.mean
    of_rate = (slope * (rate.mean - rate.lower), slope * (rate.upper - rate.mean))
    below, above = of_rate if slope >= 0 else (-of_rate[1], -of_rate[0])
    lower = mean - math.hypot(
        rate.mean * (precision.mean - precision.lower),
        (1 - rate.mean) * (omission.mean - omission.lower),
        below,
    )
    upper = mean + math.hypot(
        rate.mean * (precision.upper - precision.mean),
        (1 - rate.mean) * (omission.upper - omission.mean),
        above,
    )
    lower, upper = max(0.0, lower), min(1.0, upper)
    return Estimate(
        mean=mean,
        lower=lower,
        upper=upper,
        effective_n=_effective_n(lower, upper),
        coverage=rate.coverage,
    )


def _effective_n(lower: float, upper: float) -> float:
    """Return how many answers drawn at random and read by people give as narrow an interval.

    Of the share in the interval's middle: n = share (1 - share) (2 z / width)^2.
    """
    middle = (lower + upper) / 2
    return middle * (1 - middle) * (2 * Z95 / max(upper - lower, 1e-9)) ** 2


def corrected(rate: Estimate, labels: Sequence[Label]) -> Estimate | None:
    """Return the rate that people would find, from the judged rate and some people's labels.

    Two-phase estimation, stratified by the verdict: rate * PPV + (1 - rate) * FOR. Each stratum's
    labels have to be a random part of its judged answers; how many of each kind were labelled does
    not matter. Not Rogan and Gladen's (rate + specificity - 1) / (sensitivity + specificity - 1):
    it takes both from labelled answers of some other time, and is off by the whole of what the
    judge has changed since, where these labels, being of the same answers, notice it.

    Args:
        rate: The judged rate, with its interval.
        labels: Of this judge.

    Returns:
        None with fewer than 100 labels, or with none of one kind. `effective_n` is how many answers
        drawn at random and read by people would tell as much.

    Source:
        The problem: Lee et al. (2025), "How to Correctly Report LLM-as-a-Judge Evaluations",
        arXiv:2511.21140; it corrects by Rogan & Gladen (1978), American Journal of Epidemiology
        107(1). Two phases: Cochran, "Sampling Techniques", 3rd edition (1977), chapter 12.
        tests/property/test_labels.py measures bias and coverage, with a judge that drifts, too.
    """
    if len(labels) < MIN_LABELS:
        return None
    precision = hallucinated_share(labels, judged=True)
    omission = hallucinated_share(labels, judged=False)
    if precision is None or omission is None:
        return None
    return combined(rate, precision, omission)


# --- the CSV that people fill in -----------------------------------------------------------------


def seal(label: Label) -> str:
    """Return a label as a text that people cannot read at a glance, so that none follows it.

    What a spreadsheet would change, such as times and ids of digits, is safe in there, too.
    """
    values = msgspec.json.encode(msgspec.structs.replace(label, human=None))
    # Compressed, so that equal verdicts look different.
    return base64.urlsafe_b64encode(zlib.compress(values)).decode()


def opened(cell: str, human: bool | None = None) -> Label:
    """Return the label that `seal` wrote, with what a person says.

    Raises:
        InputError: It was not `seal` that wrote this.
    """
    try:
        packed = base64.b64decode(cell.strip(), b"-_", validate=True)
        values = zlib.decompressobj().decompress(packed, MAX_SEALED_BYTES)
        label = msgspec.json.decode(values, type=Label)
    except (zlib.error, ValueError, msgspec.MsgspecError, RecursionError) as error:
        raise InputError("not what `ragmonitor labels sample` wrote there") from error
    return msgspec.structs.replace(label, human=human)


def labels_of(rows: Iterable[Label]) -> Sequence[Label]:
    """Return the rows that people have filled in; of one id, the last."""
    return [*{row.interaction_id: row for row in rows if row.human is not None}.values()]


def read_rows(path: Path) -> Sequence[Label]:
    """Return every row of a CSV of labels.

    Needs the columns `sealed` and `human` (yes or no, true or false, 1 or 0, 是 or 否; empty or "?"
    where nobody can tell) and passes over others.

    Raises:
        InputError: The file cannot be read; a column is missing; or a cell says something else,
            with its row and column.
    """
    rows = []
    for row in table_rows(path, columns=(HUMAN, SEALED)):
        if row.error:
            raise InputError(f"{path}, row {row.number}: {row.error}")
        cells = row.value
        if not isinstance(cells, Mapping) or not {HUMAN, SEALED} <= cells.keys():
            raise InputError(
                f"{path}: no columns {HUMAN} and {SEALED}; `ragmonitor labels sample` writes such "
                "a file"
            )
        column = HUMAN
        try:
            human = _answer(str(cells[HUMAN]))
            column = SEALED
            rows.append(opened(str(cells[SEALED]), human))
        except InputError as error:
            raise InputError(f"{path}, row {row.number}, column {column}: {error}") from error
    return rows


def _answer(cell: str) -> bool | None:
    word = unicodedata.normalize("NFKC", cell).strip().casefold()
    if word in UNDECIDED:
        return None
    if word in YES or word in NO:
        return word in YES
    raise InputError(f"{cell[:40]!r} is neither yes (it is hallucinated) nor no")
