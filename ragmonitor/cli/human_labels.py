"""`ragmonitor labels` draws answers for people to label, and corrects the judge's rate by them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from ragmonitor.cli.options import RateOptions, SampleOptions
from ragmonitor.cli.terminal import (
    FINE,
    SOMETHING_WRONG,
    figures_table,
    new_console,
    print_json,
    progress,
    say,
)
from ragmonitor.export import is_feedback
from ragmonitor.offline.tables import guarded, write_csv
from ragmonitor.records import BUILTIN, Estimate, is_builtin
from ragmonitor.runtime.errors import InputError, file_errors
from ragmonitor.stats.labels import (
    MIN_LABELS,
    Label,
    Share,
    corrected,
    hallucinated_share,
    labels_of,
    read_rows,
    seal,
    wilson,
)

COLUMNS: Final = (
    "id",
    "question",
    "answer",
    "chunks",
    "human",
    "at",
    "sealed",
)
JUDGED_HALLUCINATED_SHARE: Final = 0.6
"""The share of answers found hallucinated among the labels: they are rare, and tell the most."""
MAX_CELL: Final = 30_000
"""Characters; a spreadsheet's cell holds 32,767."""
SIGNAL: Final = "hallucination"
MAX_BAD_LINES_SHOWN: Final = 20

# --- reports --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    """One judged answer of a file of reports."""

    id: str
    hallucinated: bool
    chance: float
    at: str
    offset: int
    """The place of its line, in bytes."""


@dataclass(slots=True, kw_only=True)
class _Reports:
    """The verdicts of one judge in a file of reports."""

    path: Path
    answers: Mapping[str, _Judged]
    """The answers by id; of several lines of one answer, the last."""
    judges: Sequence[str]
    """Identities whose verdicts these are: one name, maybe several versions."""
    bad_lines: int


def _read(path: Path, judge: str, *, quiet: bool) -> _Reports:
    """Read whose verdicts are where; texts stay in the file.

    Raises:
        InputError: It cannot be read, holds no verdict of such a judge, or verdicts of several.
    """
    by_judge: dict[str, dict[str, _Judged]] = {}
    versions: dict[str, Counter[str]] = {}
    bad_lines = 0
    with (
        file_errors(path),
        path.open("rb") as file,
        progress(f"reading {path.name}", path.stat().st_size, quiet=quiet) as advance,
    ):
        offset = 0
        for number, raw in enumerate(file, 1):
            start, offset = offset, offset + len(raw)
            if number % 1_000 == 0:
                advance(offset)
            if not raw.strip():
                continue
            try:
                line = json.loads(raw)
                if is_feedback(line):
                    continue
                identity, judged = _verdict(line, start)
            except (ValueError, RecursionError) as error:
                bad_lines += 1
                if bad_lines <= MAX_BAD_LINES_SHOWN:
                    say(f"{path}, line {number}: no report: {error}")
                continue
            name = identity.partition("@")[0]
            wanted = judge in (name, identity) if judge else not is_builtin(name)
            if judged is not None and wanted:
                by_judge.setdefault(name, {})[judged.id] = judged
                versions.setdefault(name, Counter())[identity] += 1
    if not by_judge:
        whose = f"of judge {judge}" if judge else "of a judge but the built-in one"
        raise InputError(
            f"{path} has no answer with a hallucination verdict {whose}; "
            f"--judge {BUILTIN} takes the built-in judge's"
        )
    if len(by_judge) > 1:
        raise InputError(f"{path} has several judges; choose one by --judge: {', '.join(by_judge)}")
    [(name, answers)] = by_judge.items()
    return _Reports(path=path, answers=answers, judges=[*versions[name]], bad_lines=bad_lines)


def _verdict(line: object, offset: int) -> tuple[str, _Judged | None]:
    """Return who judged, and the verdict; None: there is none in this line.

    Raises:
        ValueError: It is no report.
    """
    if not isinstance(line, dict) or not isinstance(line.get("evaluations"), dict):
        raise ValueError("not an object with `evaluations`")  # noqa: TRY004 - of the file
    identity, judge = line.get("id"), line.get("judge")
    if not isinstance(identity, str) or not isinstance(judge, str):
        raise ValueError("`id` or `judge` is missing")  # noqa: TRY004 - of the file
    outcome = line["evaluations"].get(SIGNAL)
    score = outcome.get("score") if isinstance(outcome, dict) else None
    chance = line.get("chance", 1.0)
    if not isinstance(score, int | float) or not isinstance(chance, int | float) or not chance > 0:
        return judge, None
    return judge, _Judged(
        id=identity,
        hallucinated=score >= 0.5,
        chance=min(1.0, float(chance)),
        at=str(line.get("time", "")),
        offset=offset,
    )


# --- sample ---------------------------------------------------------------------------------------


def sample(options: SampleOptions) -> int:
    """Draw the answers, write them, and return the exit code.

    Raises:
        InputError: A file cannot be read or written, or there is nothing left to draw.
    """
    reports, output = options.reports, options.output
    if output.exists():
        raise InputError(f"{output} is there already; it may hold somebody's labels")
    known = {row.interaction_id for path in options.skip or () for row in read_rows(path)}
    read = _read(reports, options.judge, quiet=options.quiet)
    drawn = _draw(read.answers.values(), known, count=options.count, seed=options.seed)
    if not drawn:
        raise InputError(f"{reports}: every judged answer stands in the files of --skip already")
    rows = _rows(read, drawn)
    with file_errors(output):
        write_csv(output, COLUMNS, rows, mode="x")
    if not options.quiet:
        _report_draw(read, drawn, output, options.count)
    return SOMETHING_WRONG if read.bad_lines else FINE


def _draw(
    answers: Iterable[_Judged], known: set[str], *, count: int, seed: int
) -> list[tuple[_Judged, int]]:
    """Return answers in random order, each with how many of its kind it was drawn among.

    A longer draw of the same seed has the shorter one's answers among its own.
    """
    kinds: dict[bool, list[_Judged]] = {True: [], False: []}
    for answer in answers:
        kinds[answer.hallucinated].append(answer)
    orders = {
        kind: sorted(of_kind, key=lambda answer: _draw_key(answer.id, seed))
        for kind, of_kind in kinds.items()
    }
    free = {
        kind: [answer for answer in order if guarded(answer.id) not in known]
        for kind, order in orders.items()
    }
    bad = min(len(free[True]), round(count * JUDGED_HALLUCINATED_SHARE))
    fine = min(len(free[False]), count - bad)
    bad = min(len(free[True]), count - fine)
    drawn = [
        *((answer, len(kinds[True])) for answer in free[True][:bad]),
        *((answer, len(kinds[False])) for answer in free[False][:fine]),
    ]
    # Mixed, so that the place of an answer does not tell what the judge said.
    return sorted(drawn, key=lambda each: _draw_key(f"place {each[0].id}", seed))


def _draw_key(name: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed} {name}".encode("utf-8", "surrogatepass")).digest()


def _rows(read: _Reports, drawn: Sequence[tuple[_Judged, int]]) -> list[dict[str, object]]:

    rows: list[dict[str, object]] = []
    with read.path.open("rb") as file:
        for answer, drawn_from in drawn:
            file.seek(answer.offset)
            line = json.loads(file.readline())
            if line.get("content", "all") != "all" or not isinstance(line.get("answer"), str):
                raise InputError(
                    f"{read.path} holds no texts that people could read: it was written without "
                    "them (setting content)"
                )
            rows.append(
                {
                    "id": answer.id,
                    "question": _cut(str(line.get("question", "")), MAX_CELL),
                    "answer": _cut(line["answer"], MAX_CELL),
                    "chunks": _chunks(line.get("contexts")),
                    "human": "",
                    "at": answer.at,
                    "sealed": seal(
                        {
                            "judged": "yes" if answer.hallucinated else "no",
                            "chance": answer.chance,
                            "drawn_from": drawn_from,
                        },
                        _draw_key(answer.id, drawn_from)[:8],
                    ),
                }
            )
    return rows


def _chunks(contexts: object) -> str:
    """Return the chunks, numbered; cut only as a cell needs: what is cut away looks unsupported."""
    texts = [str(text) for text in contexts] if isinstance(contexts, list) else []
    most = MAX_CELL // max(1, len(texts)) - 50
    shown = (f"[{n}] {_cut(text, max(100, most))}" for n, text in enumerate(texts, 1))
    return _cut("\n\n".join(shown), MAX_CELL)


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[:most]}… [cut: {len(text) - most} characters]"


def _report_draw(
    read: _Reports, drawn: Sequence[tuple[_Judged, int]], output: Path, count: int
) -> None:
    bad = sum(answer.hallucinated for answer, _ in drawn)
    say(
        f"{output}: {len(drawn)} answers judged by {', '.join(read.judges)}, whose verdicts "
        "the column sealed hides from who labels them"
    )
    if len(drawn) < count:
        say(f"there are no more: {count} were asked for")
    if not 0 < bad < len(drawn):
        say("of one kind there is none: a corrected rate needs labels of both")
    if len(read.judges) > 1:
        say("several versions of the judge are among them: what people find is a mean over these")
    say("write yes or no into the column human, then: ragmonitor labels rate " + str(output))


# --- rate -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """The judged rate, and what people's labels make of it."""

    judges: Sequence[str]
    answers: int
    """Judged ones that the judged rate rests on."""
    judged: Estimate
    labels: Sequence[Label]
    unlabelled: int
    precision: Share | None
    omission: Share | None
    corrected: Estimate | None


def rate(options: RateOptions) -> int:
    """Say what the labels make of the judged rate, and return the exit code.

    Raises:
        InputError: A file cannot be read, or nobody has filled in the labels.
    """
    rows = [row for path in options.labels for row in read_rows(path)]
    if not labels_of(rows):
        raise InputError(
            f"{', '.join(map(str, options.labels))}: the column human is empty; write yes or no "
            "into it"
        )
    read = None
    if options.reports is not None:
        read = _read(options.reports, options.judge, quiet=options.json_output)
    rates = _rates(rows, read)
    if options.json_output:
        print_json(_as_json(rates))
    else:
        _show(rates)
    has_bad_lines = read is not None and bool(read.bad_lines)
    return SOMETHING_WRONG if rates.corrected is None or has_bad_lines else FINE


def _rates(rows: Sequence[Label], read: _Reports | None) -> _Rates:
    """Return the judged rate, of the reports or else of what the rows were drawn among, corrected.

    Raises:
        InputError: There are no reports, and the rows do not say among how many they were drawn.
    """
    if read is None:
        judged, answers = _of_rows(rows)
    else:
        answers = len(read.answers)
        judged = _estimate([(a.hallucinated, 1 / a.chance) for a in read.answers.values()])
    labels = labels_of(rows)
    precision = hallucinated_share(labels, judged=True)
    omission = hallucinated_share(labels, judged=False)
    rate = corrected(judged, labels)
    return _Rates(
        judges=() if read is None else read.judges,
        answers=answers,
        judged=judged,
        labels=labels,
        unlabelled=sum(row.human is None for row in rows),
        precision=precision,
        omission=omission,
        corrected=rate,
    )


def _of_rows(rows: Sequence[Label]) -> tuple[Estimate, int]:
    """Return the judged rate of the answers that the rows were drawn among, and their number.

    Raises:
        InputError: The rows do not say among how many they were drawn.
    """
    sizes = {kind: {row.drawn_from for row in rows if row.judged is kind} for kind in (True, False)}
    if any(None in each or len(each) > 1 for each in sizes.values()):
        raise InputError(
            "the labels do not say among how many answers they were drawn (one number for each "
            "verdict in the column drawn_from); give --reports, the JSON lines they come from"
        )
    if not all(sizes.values()):
        raise InputError(
            "all labels are of one verdict, which does not tell how common it is; give --reports"
        )
    of = {kind: next(iter(size)) or 0 for kind, size in sizes.items()}
    drawn = Counter(row.judged for row in rows)
    n = sum(of.values())
    # Each row stands for what it was drawn among, and each of those for 1 / chance answers.
    weighted = [(row.judged, of[row.judged] / drawn[row.judged] / row.chance) for row in rows]
    # The rows are a part of the n; their chances tell how unequal those of all are.
    equality = _effective_n([1 / row.chance for row in rows]) / len(rows)
    return _estimate(weighted, effective_n=n * equality), n


def _estimate(
    weighted: Sequence[tuple[bool, float]], *, effective_n: float | None = None
) -> Estimate:
    """Return the judged rate, with Wilson's interval at Kish's effective number."""
    n = _effective_n([weight for _, weight in weighted]) if effective_n is None else effective_n
    total = sum(weight for _, weight in weighted)
    mean = min(1.0, sum(weight for hallucinated, weight in weighted if hallucinated) / total)
    lower, upper = wilson(mean, n)
    return Estimate(mean=mean, lower=lower, upper=upper, effective_n=n)


def _effective_n(weights: Sequence[float]) -> float:
    return float(sum(weights) ** 2 / sum(weight**2 for weight in weights))


def _as_json(rates: _Rates) -> dict[str, Any]:
    return {
        "judges": [*rates.judges],
        "labels": len(rates.labels),
        "unlabelled": rates.unlabelled,
        "answers_from": _iso(min(label.at_s for label in rates.labels)),
        "answers_until": _iso(max(label.at_s for label in rates.labels)),
        "judged_answers": rates.answers,
        "judged_rate": _interval(rates.judged),
        "ppv": _interval(rates.precision),
        "for": _interval(rates.omission),
        "corrected_rate": _interval(rates.corrected),
    }


def _interval(share: Estimate | Share | None) -> dict[str, float] | None:
    if share is None:
        return None
    values = {name: round(getattr(share, name), 5) for name in ("mean", "lower", "upper")}
    return values | {"effective_n": round(share.effective_n, 1)}


def _iso(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, tz=UTC).isoformat(timespec="seconds")


def _show(rates: _Rates) -> None:
    table = figures_table("", "of", "share", "95 % interval")
    for name, of, share in _lines(rates):
        values = ("-", "-")
        if share is not None:
            values = (f"{share.mean:.1%}", f"{share.lower:.1%} to {share.upper:.1%}")
        table.add_row(name, of, *values)
    new_console().print(table)
    if rates.precision is None or rates.omission is None:
        say("of one verdict there is no label: a corrected rate needs both")
    elif rates.corrected is None:
        say(f"a corrected rate needs {MIN_LABELS} labels, there are {len(rates.labels)}")


def _lines(rates: _Rates) -> Iterator[tuple[str, str, Estimate | Share | None]]:
    yield "judged hallucinated", f"{rates.answers:,} answers", rates.judged
    for name, share in (
        ("... and people agree (PPV)", rates.precision),
        ("judged fine, and people do not agree (FOR)", rates.omission),
    ):
        yield name, f"{0 if share is None else share.labels:,} labels", share
    yield "corrected rate", f"{len(rates.labels):,} labels", rates.corrected
