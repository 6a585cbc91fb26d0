"""`ragmonitor labels` draws answers for people to label, and corrects the judge's rate by them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
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
    say,
)
from ragmonitor.export import is_feedback
from ragmonitor.records import BUILTIN, Estimate, is_builtin
from ragmonitor.runtime.errors import InputError, file_errors
from ragmonitor.runtime.tables import Table, write_csv
from ragmonitor.stats.labels.correction import (
    MIN_LABELS,
    Label,
    Share,
    corrected,
    hallucinated_share,
    wilson,
)
from ragmonitor.stats.labels.label_table import labels_of, read_rows, seal

COLUMNS: Final = ("id", "question", "answer", "chunks", "human", "sealed")
JUDGED_HALLUCINATED_SHARE: Final = 0.6
"""The share of answers found hallucinated among the labels: they are rare, and tell the most."""
MAX_CELL: Final = 30_000
"""Characters; a spreadsheet's cell holds 32,767."""
SIGNAL: Final = "hallucination"

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
    answers, judges, bad_lines = _judged(reports, options.judge)
    drawn = _draw(answers, known, count=options.count, seed=options.seed)
    if not drawn:
        raise InputError(f"{reports}: every judged answer stands in the files of --skip already")
    rows = _rows(reports, drawn)
    with file_errors(output):
        write_csv(output, COLUMNS, rows, mode="xb")
    if bad_lines:
        say(f"{bad_lines} lines of {reports} are no reports")
    if not options.quiet:
        _report_draw(judges, drawn, output, options.count)
    return SOMETHING_WRONG if bad_lines else FINE


def _judged(path: Path, judge: str) -> tuple[list[Label], list[str], int]:
    """Return the verdicts of one judge, each version of it, and the number of lines that are none.

    Texts stay in the file.

    Raises:
        InputError: It cannot be read, holds no verdict of such a judge, or verdicts of several.
    """
    by_judge: dict[str, dict[str, Label]] = {}
    versions: dict[str, None] = {}
    bad_lines = 0
    for row in Table(path):
        if is_feedback(row.value):
            continue
        try:
            identity, label = _verdict(row.value)
        except (ValueError, TypeError, KeyError, AttributeError):
            bad_lines += 1
            continue
        name = identity.partition("@")[0]
        wanted = judge in (name, identity) if judge else not is_builtin(name)
        if label is not None and wanted:
            by_judge.setdefault(name, {})[label.interaction_id] = label
            versions[identity] = None
    if not by_judge:
        whose = f"of judge {judge}" if judge else "of a judge but the built-in one"
        raise InputError(
            f"{path} has no answer with a hallucination verdict {whose}; "
            f"--judge {BUILTIN} takes the built-in judge's"
        )
    if len(by_judge) > 1:
        raise InputError(f"{path} has several judges; choose one by --judge: {', '.join(by_judge)}")
    [answers] = by_judge.values()
    return [*answers.values()], [*versions], bad_lines


def _verdict(line: Any) -> tuple[str, Label | None]:
    """Return who judged, and the verdict; None: there is none in this line.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: It is no report.
    """
    score = line["evaluations"].get(SIGNAL, {}).get("score")
    if score is None:
        return str(line["judge"]), None
    return str(line["judge"]), Label(
        interaction_id=str(line["id"]),
        judged=float(score) >= 0.5,
        human=None,
        at_s=datetime.fromisoformat(line["time"]).timestamp(),
        chance=min(1.0, float(line.get("chance", 1.0))),
    )


def _draw(answers: Iterable[Label], known: set[str], *, count: int, seed: int) -> list[Label]:
    """Return answers in random order, each with how many of its kind it was drawn among.

    A longer draw of the same seed has the shorter one's answers among its own.
    """
    kinds: dict[bool, list[Label]] = {True: [], False: []}
    for answer in answers:
        if answer.chance > 0:
            kinds[answer.judged].append(answer)
    free = {
        kind: sorted(
            (each for each in of_kind if each.interaction_id not in known),
            key=lambda each: _draw_key(each.interaction_id, seed),
        )
        for kind, of_kind in kinds.items()
    }
    bad = min(len(free[True]), round(count * JUDGED_HALLUCINATED_SHARE))
    fine = min(len(free[False]), count - bad)
    bad = min(len(free[True]), count - fine)
    drawn = [
        replace(each, drawn_from=len(kinds[each.judged]))
        for each in (*free[True][:bad], *free[False][:fine])
    ]
    # Mixed, so that the place of an answer does not tell what the judge said.
    return sorted(drawn, key=lambda each: _draw_key(f"place {each.interaction_id}", seed))


def _draw_key(name: str, seed: int) -> bytes:
    return hashlib.blake2b(f"{seed} {name}".encode("utf-8", "surrogatepass")).digest()


def _rows(path: Path, drawn: Sequence[Label]) -> list[dict[str, object]]:
    """Return the rows of the CSV, with the texts. Raises `InputError`: there are none."""
    wanted = {label.interaction_id for label in drawn}
    lines = {
        str(row.value["id"]): row.value
        for row in Table(path)
        if isinstance(row.value, dict)
        and row.value.get("id") in wanted
        and not is_feedback(row.value)
    }
    rows: list[dict[str, object]] = []
    for label in drawn:
        line = lines[label.interaction_id]
        if line.get("content", "all") != "all" or not isinstance(line.get("answer"), str):
            raise InputError(
                f"{path} holds no texts that people could read: it was written without them "
                "(setting content)"
            )
        rows.append(
            {
                "id": label.interaction_id,
                "question": _cut(str(line.get("question", "")), MAX_CELL),
                "answer": _cut(line["answer"], MAX_CELL),
                "chunks": _chunks(line.get("contexts")),
                "sealed": seal(label),
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


def _report_draw(judges: Sequence[str], drawn: Sequence[Label], output: Path, count: int) -> None:
    bad = sum(answer.judged for answer in drawn)
    say(
        f"{output}: {len(drawn)} answers judged by {', '.join(judges)}, whose verdicts "
        "the column sealed hides from who labels them"
    )
    if len(drawn) < count:
        say(f"there are no more: {count} were asked for")
    if not 0 < bad < len(drawn):
        say("of one kind there is none: a corrected rate needs labels of both")
    if len(judges) > 1:
        say("several versions of the judge are among them: what people find is a mean over these")
    say(f"write yes or no into the column human, then: ragmonitor labels rate {output}")


# --- rate -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, kw_only=True)
class _Rates:
    """The judged rate, and what people's labels make of it."""

    answers: int
    """The number of judged answers that the judged rate rests on."""
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
    rates = _rates(rows)
    if options.json_output:
        print_json(_as_json(rates))
    else:
        _show(rates)
    return SOMETHING_WRONG if rates.corrected is None else FINE


def _rates(rows: Sequence[Label]) -> _Rates:
    """Return the judged rate of what the rows were drawn among, corrected. Raises `InputError`."""
    judged, answers = _judged_rate(rows)
    labels = labels_of(rows)
    precision = hallucinated_share(labels, judged=True)
    omission = hallucinated_share(labels, judged=False)
    rate = corrected(judged, labels)
    return _Rates(
        answers=answers,
        judged=judged,
        labels=labels,
        unlabelled=sum(row.human is None for row in rows),
        precision=precision,
        omission=omission,
        corrected=rate,
    )


def _judged_rate(rows: Sequence[Label]) -> tuple[Estimate, int]:
    """Return the judged rate of the answers that the rows were drawn among, and their number.

    Wilson's interval stands at Kish's effective number.

    Raises:
        InputError: The rows are of several files of reports, or all of one verdict.
    """
    sizes = {kind: {row.drawn_from for row in rows if row.judged is kind} for kind in (True, False)}
    if any(len(each) > 1 for each in sizes.values()):
        raise InputError("the labels were drawn among several files of reports; give those of one")
    if not all(sizes.values()):
        raise InputError("all labels are of one verdict, which does not tell how common it is")
    of = {kind: next(iter(size)) for kind, size in sizes.items()}
    drawn = Counter(row.judged for row in rows)
    # Each row stands for what it was drawn among, and each of those for 1 / chance answers.
    weights = [of[row.judged] / drawn[row.judged] / row.chance for row in rows]
    bad = sum(weight for row, weight in zip(rows, weights, strict=True) if row.judged)
    mean = min(1.0, bad / sum(weights))
    # The rows are a part of those; their chances tell how unequal those of all are.
    chances = [1 / row.chance for row in rows]
    equality = sum(chances) ** 2 / sum(each**2 for each in chances) / len(rows)
    answers = sum(of.values())
    effective_n = answers * equality
    lower, upper = wilson(mean, effective_n)
    return Estimate(mean=mean, lower=lower, upper=upper, effective_n=effective_n), answers


def _as_json(rates: _Rates) -> dict[str, Any]:
    return {
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
    precision, omission = rates.precision, rates.omission
    n_precision, n_omission = (0 if each is None else each.labels for each in (precision, omission))
    lines: Sequence[tuple[str, str, Estimate | Share | None]] = (
        ("judged hallucinated", f"{rates.answers:,} answers", rates.judged),
        ("... and people agree (PPV)", f"{n_precision:,} labels", precision),
        ("judged fine, and people do not agree (FOR)", f"{n_omission:,} labels", omission),
        ("corrected rate", f"{len(rates.labels):,} labels", rates.corrected),
    )
    for name, of, share in lines:
        values = ("-", "-")
        if share is not None:
            values = (f"{share.mean:.1%}", f"{share.lower:.1%} to {share.upper:.1%}")
        table.add_row(name, of, *values)
    new_console().print(table)
    if precision is None or omission is None:
        say("of one verdict there is no label: a corrected rate needs both")
    elif rates.corrected is None:
        say(f"a corrected rate needs {MIN_LABELS} labels, there are {len(rates.labels)}")
