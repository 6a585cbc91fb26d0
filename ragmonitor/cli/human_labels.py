"""`ragmonitor labels` draws answers for people to label, and corrects the judge's rate by them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from msgspec.structs import replace

from ragmonitor.cli.options import RateOptions, SampleOptions
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, print_json, print_table, say
from ragmonitor.export import is_feedback
from ragmonitor.records import Estimate, is_builtin
from ragmonitor.runtime.errors import InputError, file_errors
from ragmonitor.runtime.tables import table_rows, write_csv
from ragmonitor.stats.labels import (
    MIN_LABELS,
    Label,
    corrected,
    hallucinated_share,
    labels_of,
    read_rows,
    seal,
    wilson,
)

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
        InputError: A file cannot be read or written, or there is nothing to draw.
    """
    reports, output = options.reports, options.output
    if output.exists():
        raise InputError(f"{output} is there already; it may hold somebody's labels")
    judge, answers, bad_lines = _judged(reports)
    drawn = _draw(answers, options.count)
    rows = _rows(reports, drawn)
    with file_errors(output):
        write_csv(output, COLUMNS, rows, mode="xb")
    say(
        f"{output}: {len(drawn)} answers judged by {judge}, whose verdicts the column sealed "
        "hides from the people who label them"
    )
    if bad_lines:
        say(f"{bad_lines} lines of {reports} are no reports")
    if len({answer.judged for answer in drawn}) == 1:
        say("all have the same verdict: a corrected rate needs labels of both kinds")
    say(f"write yes or no into the column human, then: ragmonitor labels rate {output}")
    return SOMETHING_WRONG if bad_lines else FINE


def _judged(path: Path) -> tuple[str, list[Label], int]:
    """Return the judge, its verdicts, and the number of lines that are no reports.

    It is the judge of the sample, or if there is none the built-in one. Texts stay in the file.

    Raises:
        InputError: The file cannot be read, or holds no verdict, or verdicts of several judges.
    """
    by_judge: dict[str, dict[str, Label]] = {}
    bad_lines = 0
    for row in table_rows(path):
        if is_feedback(row.value):
            continue
        try:
            judge, label = _verdict(row.value)
        except (ValueError, TypeError, KeyError, AttributeError):
            bad_lines += 1
            continue
        if label is not None:
            by_judge.setdefault(judge, {})[label.interaction_id] = label
    sampled = [judge for judge in by_judge if not is_builtin(judge)]
    if not by_judge:
        raise InputError(f"{path} has no answer with a hallucination verdict")
    if len(sampled) > 1:
        raise InputError(f"{path} has several judges: {', '.join(sampled)}; give reports of one")
    judge = sampled[0] if sampled else next(iter(by_judge))
    return judge, [*by_judge[judge].values()], bad_lines


def _verdict(line: Any) -> tuple[str, Label | None]:
    """Return who judged, and the verdict; None: there is none in this line.

    Raises:
        ValueError, TypeError, KeyError, AttributeError: It is no report.
    """
    judge, score = line["judge"].partition("@")[0], line["evaluations"].get(SIGNAL, {}).get("score")
    if score is None:
        return judge, None
    return judge, Label(
        interaction_id=str(line["id"]),
        judged=float(score) >= 0.5,
        human=None,
        chance=min(1.0, float(line.get("chance", 1.0))),
    )


def _draw(answers: Iterable[Label], count: int) -> list[Label]:
    """Return answers in random order, each with how many of its kind it was drawn among.

    A longer draw has the shorter one's answers among its own.
    """
    kinds: dict[bool, list[Label]] = {True: [], False: []}
    for answer in sorted(answers, key=lambda each: _draw_key(each.interaction_id)):
        if answer.chance > 0:
            kinds[answer.judged].append(answer)
    bad = min(len(kinds[True]), round(count * JUDGED_HALLUCINATED_SHARE))
    fine = min(len(kinds[False]), count - bad)
    bad = min(len(kinds[True]), count - fine)
    drawn = [
        replace(each, drawn_from=len(kinds[each.judged]))
        for each in (*kinds[True][:bad], *kinds[False][:fine])
    ]
    # Mixed, so that the place of an answer does not tell what the judge said.
    return sorted(drawn, key=lambda each: _draw_key(f"place {each.interaction_id}"))


def _draw_key(name: str) -> bytes:
    return hashlib.blake2b(name.encode("utf-8", "surrogatepass")).digest()


def _rows(path: Path, drawn: Sequence[Label]) -> list[dict[str, object]]:
    """Return the rows of the CSV, with the texts. Raises `InputError`: there are none."""
    wanted = {label.interaction_id for label in drawn}
    values = (row.value for row in table_rows(path) if not is_feedback(row.value))
    lines = {
        str(value["id"]): value
        for value in values
        if isinstance(value, dict) and value.get("id") in wanted
    }
    rows: list[dict[str, object]] = []
    for label in drawn:
        line = lines[label.interaction_id]
        if line.get("content", "all") != "all" or not isinstance(line.get("answer"), str):
            raise InputError(
                f"{path} holds no texts that people could read: it was written without them "
                "(setting content)"
            )
        chunks = (f"[{n}] {text}" for n, text in enumerate(line.get("contexts") or (), 1))
        texts = {
            "question": str(line.get("question", "")),
            "answer": line["answer"],
            "chunks": "\n\n".join(chunks),
        }
        cells = {
            name: text
            if len(text) <= MAX_CELL
            else f"{text[:MAX_CELL]}… [cut: {len(text) - MAX_CELL} characters]"
            for name, text in texts.items()
        }
        rows.append({"id": label.interaction_id, **cells, "sealed": seal(label)})
    return rows


# --- rate -----------------------------------------------------------------------------------------


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
    judged, answers = _judged_rate(rows)
    labels = labels_of(rows)
    found = sum(label.judged for label in labels)
    precision = hallucinated_share(labels, judged=True)
    omission = hallucinated_share(labels, judged=False)
    rate = corrected(judged, labels)
    shares: Mapping[str, tuple[str, int, Estimate | None]] = {
        "judged_rate": ("judged hallucinated", answers, judged),
        "ppv": ("... and people agree (PPV)", found, precision),
        "for": ("judged fine, and people do not agree (FOR)", len(labels) - found, omission),
        "corrected_rate": ("corrected rate, by labels", len(labels), rate),
    }
    if options.json_output:
        print_json(
            {
                "labels": len(labels),
                "unlabelled": sum(row.human is None for row in rows),
                "judged_answers": answers,
            }
            | {name: _interval(share) for name, (_, _, share) in shares.items()}
        )
        return SOMETHING_WRONG if rate is None else FINE
    print_table(
        ("", "answers", "share", "95 % interval"),
        (
            (name, f"{n:,}", f"{share.mean:.1%}", f"{share.lower:.1%} to {share.upper:.1%}")
            if share
            else (name, f"{n:,}", "-", "-")
            for name, n, share in shares.values()
        ),
    )
    if precision is None or omission is None:
        say("of one verdict there is no label: a corrected rate needs both")
    elif rate is None:
        say(f"a corrected rate needs {MIN_LABELS} labels, there are {len(labels)}")
    return SOMETHING_WRONG if rate is None else FINE


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


def _interval(share: Estimate | None) -> dict[str, float] | None:
    if share is None:
        return None
    values = {name: round(getattr(share, name), 5) for name in ("mean", "lower", "upper")}
    return values | {"effective_n": round(share.effective_n, 1)}
