"""People's verdicts on judged answers, and what they make of the judged rate.

The judged rate is that of a judge who errs: at a true rate of 4 % a judge that is right about 97 %
of the fine answers reports 6.3 %. People read some of its answers, drawn apart among those that it
found hallucinated and those that it found fine, and say for each kind how many are.
"""

from __future__ import annotations

import csv
import io
import math
import time
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from ragmonitor import conventions
from ragmonitor.errors import InputError
from ragmonitor.estimation.interval import Z95
from ragmonitor.guard import record_error
from ragmonitor.protocols import Clock
from ragmonitor.records import Estimate, Reading

LABELS_LEAST: Final = 100
RECENT_S: Final = 30 * 86_400.0
"""Labels of older answers are of another judge, or of another application."""
LOOK_EVERY_S: Final = 60.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Label:
    """What the judge and a person say of one answer."""

    interaction_id: str
    judged: bool
    """The judge found it hallucinated."""
    human: bool
    """A person does."""
    at_s: float
    """When it was answered, in seconds since the epoch."""
    chance: float = 1.0
    """That the judge read it; above 0, up to 1."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelRow:
    """One row of a file of labels, filled in or not."""

    interaction_id: str
    judged: bool
    human: bool | None
    """None: nobody has said anything, or nobody can tell."""
    at_s: float
    chance: float
    drawn_from: int | None
    """How many answers of this verdict it was drawn among; None: the file does not say."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Share:
    """A share of the labelled answers, with its 95 % interval."""

    mean: float
    lower: float
    upper: float
    labels: int
    effective_n: float
    """Of answers with equal chances that would tell as much."""


# --- the estimate ---------------------------------------------------------------------------------


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


def hallucinated_share(labels: Iterable[Label], *, judged: bool) -> Share | None:
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
    return Share(mean=mean, lower=lower, upper=upper, labels=len(kind), effective_n=n)


def combined(rate: Estimate, precision: Share, omission: Share) -> Estimate:
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
    missing = sorted((at(rate.missing_lower), at(rate.missing_upper)))
    return Estimate(
        mean=mean,
        lower=lower,
        upper=upper,
        effective_n=_told_by(lower, upper),
        missing_lower=missing[0],
        missing_upper=missing[1],
    )


def _told_by(lower: float, upper: float) -> float:
    """Return how many answers drawn at random and read by people give as narrow an interval.

    Of the share in the interval's middle: n = share (1 - share) (2 z / width)^2.
    """
    middle = (lower + upper) / 2
    return middle * (1 - middle) * (2 * Z95 / max(upper - lower, 1e-9)) ** 2


def corrected(
    rate: Estimate, labels: Sequence[Label], *, now_s: float | None = None
) -> Estimate | None:
    """Return the rate that people would find, from the judged rate and some people's labels.

    Two-phase estimation, stratified by the verdict: rate * PPV + (1 - rate) * FOR. Each stratum's
    labels have to be a random part of its judged answers; how many of each kind were labelled does
    not matter. Not Rogan and Gladen's (rate + specificity - 1) / (sensitivity + specificity - 1):
    it takes both from labelled answers of some other time, and is off by the whole of what the
    judge has changed since, where these labels, being of the same answers, notice it.

    Args:
        rate: The judged rate, with its interval.
        labels: Of this judge.
        now_s: Only labels of answers up to 30 days older count; None: all do. In seconds since the
            epoch.

    Returns:
        None with fewer than 100 labels, or with none of one kind. `effective_n` is how many answers
        drawn at random and read by people would tell as much.

    Source:
        The problem: Lee et al. (2025), "How to Correctly Report LLM-as-a-Judge Evaluations",
        arXiv:2511.21140; it corrects by Rogan & Gladen (1978), American Journal of Epidemiology
        107(1). Two phases: Cochran, "Sampling Techniques", 3rd edition (1977), chapter 12.
        tests/property/test_labels.py measures bias and coverage, with a judge that drifts, too.
    """
    if now_s is not None:
        labels = recent(labels, now_s)
    if len(labels) < LABELS_LEAST:
        return None
    precision = hallucinated_share(labels, judged=True)
    omission = hallucinated_share(labels, judged=False)
    if precision is None or omission is None:
        return None
    return combined(rate, precision, omission)


def recent(labels: Sequence[Label], now_s: float) -> Sequence[Label]:
    """Return the labels of answers that are at most 30 days old."""
    return [label for label in labels if now_s - label.at_s <= RECENT_S]


MORE_MOST: Final = 10_000.0


def labels_to_halve(rate: Estimate, precision: Share, omission: Share) -> int | None:
    """Return how many labels more would halve the corrected rate's interval.

    With both kinds in the proportion they have now, and the same shares found among them.

    Returns:
        None: no number of them would; what is left is the judged rate's own interval.
    """

    def width(times: float) -> float:
        found = combined(rate, _scaled(precision, times), _scaled(omission, times))
        return found.upper - found.lower

    wanted = width(1.0) / 2
    if width(MORE_MOST) > wanted:
        return None
    low, high = 1.0, MORE_MOST
    while high - low > 0.005 * low:
        middle = (low + high) / 2
        low, high = (middle, high) if width(middle) > wanted else (low, middle)
    return math.ceil((high - 1) * (precision.labels + omission.labels))


def _scaled(share: Share, times: float) -> Share:
    n = share.effective_n * times
    lower, upper = wilson(share.mean, n)
    return Share(mean=share.mean, lower=lower, upper=upper, labels=share.labels, effective_n=n)


# --- the file -------------------------------------------------------------------------------------

YES: Final = frozenset(("1", "yes", "y", "true", "t", "hallucinated", "x", "是", "有", "真"))
NO: Final = frozenset(("0", "no", "n", "false", "f", "fine", "ok", "否", "无", "假"))
UNSAID: Final = frozenset(("", "?", "unsure", "n/a", "na", "-", "不确定"))
_DAYS: Final = ("%Y-%m-%d %H:%M:%S", "%Y-%m-%d %H:%M", "%Y-%m-%d")


def read_labels(path: Path) -> Sequence[Label]:
    """Return the rows of a CSV that people have filled in; of one id, the last.

    Raises:
        InputError: As `read_rows`.
    """
    return labels_of(read_rows(path))


def labels_of(rows: Iterable[LabelRow]) -> Sequence[Label]:
    """Return the rows that people have filled in; of one id, the last."""
    labels = {
        row.interaction_id or f"row {number}": Label(
            interaction_id=row.interaction_id,
            judged=row.judged,
            human=row.human,
            at_s=row.at_s,
            chance=row.chance,
        )
        for number, row in enumerate(rows)
        if row.human is not None
    }
    return [*labels.values()]


def read_rows(path: Path) -> Sequence[LabelRow]:
    """Return every row of a CSV of labels.

    Needs the columns `judged` and `human` (yes or no, true or false, 1 or 0, 是 or 否; `human` may
    be empty or "?") and `at` (ISO 8601, UTC if it names no offset, or seconds since the epoch);
    reads `id`, `chance` and `drawn_from`; passes over others. Takes what spreadsheets make of a
    CSV: semicolons or tabs, UTF-16, GB 18030.

    Raises:
        InputError: The file cannot be read; a column is missing; or a cell says something else,
            with its line and column.
    """
    try:
        text = _decoded(path.read_bytes())
    except OSError as error:
        raise InputError(f"{path}: {error.strerror or error}") from error
    head, _, _ = text.partition("\n")
    delimiter = max(",;\t", key=head.count)
    table = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)
    try:
        columns = [name.strip().casefold() for name in next(table, [])]
        if lacking := [name for name in ("judged", "human", "at") if name not in columns]:
            raise InputError(
                f"{path}: no column {', '.join(lacking)}; `ragmonitor labels sample` writes such "
                "a file"
            )
        rows = []
        before = table.line_num
        for cells in table:
            if any(cell.strip() for cell in cells):
                # A short row is one whose last cells are empty: some programs cut them off.
                padded = [*cells, *[""] * (len(columns) - len(cells))]
                where = f"{path}, line {before + 1}"
                rows.append(_row(dict(zip(columns, padded, strict=False)), where))
            before = table.line_num
    except csv.Error as error:
        raise InputError(f"{path}, line {table.line_num}: {error}") from error
    return rows


def _decoded(raw: bytes) -> str:
    if raw.startswith((b"\xff\xfe", b"\xfe\xff")):
        return raw.decode("utf-16", "replace")
    for encoding in ("utf-8-sig", "gb18030"):
        try:
            return raw.decode(encoding)
        except UnicodeDecodeError:
            continue
    return raw.decode("latin-1")


def _row(cells: Mapping[str, str], where: str) -> LabelRow:
    judged = _said(cells["judged"], f"{where}, column judged")
    if judged is None:
        raise InputError(f"{where}, column judged: empty; the judge's verdict is needed")
    return LabelRow(
        interaction_id=cells.get("id", "").strip(),
        judged=judged,
        human=_said(cells["human"], f"{where}, column human"),
        at_s=_moment(cells["at"], f"{where}, column at"),
        chance=_chance(cells.get("chance", ""), f"{where}, column chance"),
        drawn_from=_count(cells.get("drawn_from", ""), f"{where}, column drawn_from"),
    )


def _said(cell: str, where: str) -> bool | None:
    word = _plain(cell).casefold()
    if word in UNSAID:
        return None
    if word in YES or word in NO:
        return word in YES
    raise InputError(f"{where}: {cell[:40]!r} is neither yes (it is hallucinated) nor no")


def _moment(cell: str, where: str) -> float:
    word = _plain(cell)
    number = _number(word)
    if number is not None:
        return number
    try:
        found = datetime.fromisoformat(word)
    except ValueError:
        found = _day(word.replace("/", "-"), where)
    return found.replace(tzinfo=found.tzinfo or UTC).timestamp()


def _day(word: str, where: str) -> datetime:
    for form in _DAYS:
        try:
            return datetime.strptime(word, form).replace(tzinfo=UTC)
        except ValueError:
            continue
    raise InputError(f"{where}: {word[:40]!r} is no time such as 2026-05-04T12:00:00Z")


def _chance(cell: str, where: str) -> float:
    word = _plain(cell).replace(",", ".")
    if not word:
        return 1.0
    chance = _number(word)
    if chance is None or not 0 < chance <= 1:
        raise InputError(f"{where}: {cell[:40]!r} is no chance above 0 and up to 1")
    return chance


def _count(cell: str, where: str) -> int | None:
    word = _plain(cell)
    if not word:
        return None
    count = _number(word)
    if count is None or count < 1:
        raise InputError(f"{where}: {cell[:40]!r} is no count")
    return int(count)


def _number(word: str) -> float | None:
    try:
        number = float(word)
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _plain(cell: str) -> str:
    return unicodedata.normalize("NFKC", cell).strip()


# --- of a live monitor ----------------------------------------------------------------------------


class HumanLabels:
    """The labels of a file that people go on filling in; never raises.

    It is looked at once a minute at most, and read when it has changed. One that cannot be read is
    an error of ours, counted once; what it said before stays.
    """

    def __init__(
        self, path: Path, *, now: Callable[[], float] = time.time, clock: Clock = time.monotonic
    ) -> None:
        """Read nothing yet.

        Args:
            path: Of the CSV.
            now: Seconds since the epoch, for the labels' age.
            clock: For looking again.
        """
        self._path = path
        self._now = now
        self._clock = clock
        self._look_at = -math.inf
        self._seen: tuple[int, int] | str | None = ""
        """Size and time of the file as it was read; None: there was none; "": not looked yet."""
        self._labels: Sequence[Label] = ()

    @property
    def count(self) -> int:
        """How many labels of the last 30 days there are."""
        return len(self._recent())

    def estimate(self, rate: Estimate) -> Estimate | None:
        """Return the corrected rate; None: there are too few labels."""
        return corrected(rate, self._recent())

    def readings(self, judge: str, rate: Estimate | None) -> Sequence[Reading]:
        """Return how many labels there are and the rate that they make of the judged one."""
        told = [Reading(name=conventions.HUMAN_LABELS, value=self.count)]
        found = None if rate is None else self.estimate(rate)
        if found is not None:
            name, labels = conventions.CORRECTED_RATE, (("judge", judge),)
            told += [
                Reading(name=name, value=found.mean, labels=labels),
                Reading(name=f"{name}_lower", value=found.lower, labels=labels),
                Reading(name=f"{name}_upper", value=found.upper, labels=labels),
            ]
        return told

    def _recent(self) -> Sequence[Label]:
        now = self._clock()
        if now >= self._look_at:
            self._look_at = now + LOOK_EVERY_S
            self._look()
        return recent(self._labels, self._now())

    def _look(self) -> None:
        try:
            found = self._path.stat()
            state = (found.st_size, found.st_mtime_ns)
        except OSError as error:
            if self._seen is not None:
                record_error("estimation", error)
            self._seen = None
            return
        if state == self._seen:
            return
        self._seen = state
        try:
            self._labels = read_labels(self._path)
        except InputError as error:
            record_error("estimation", error)
