"""What the judge's verdicts teach the predictions of them, on labelled answers.

    python tests/bench/learning.py [FOLDER] [--orders 10] [--splits 6]

Every FOLDER/*.jsonl holds one object a line: `question`, `contexts` (list of text), `answer`,
`hallucinated`, perhaps `source_id`; the label is taken for the LLM judge's verdict. Four tables in
Markdown. The first: AUROC of the built-in judge's risk, and of the prediction after 100, 300 and
1,000 verdicts, of all the answers that were not learned from by then, over random orders, and their
difference; of one source either all answers were learned from or none. The second: verdicts saved
at equal width of the interval, against a plain random sample. The third: how far verdicts on the
riskiest fifth are off their predictions on services that do not change, and the alarms on it. The
fourth: the first one's differences where verdicts are simulated, so that it is known what can be
learned.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import pstdev

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from ragmonitor.estimation import Predictions, summarise  # noqa: E402  # runs from a checkout
from ragmonitor.estimation.alarm_streams import RESIDUAL_OBJECTIVE, half  # noqa: E402
from ragmonitor.estimation.answer_features import NAMES, features_of  # noqa: E402
from ragmonitor.estimation.detector import Detector  # noqa: E402
from ragmonitor.estimation.parts import Answer  # noqa: E402
from ragmonitor.estimation.residuals import Residuals  # noqa: E402
from ragmonitor.estimation.signals import language_of, outcomes  # noqa: E402
from ragmonitor.estimation.sums import Sums  # noqa: E402
from ragmonitor.judges.builtin import BuiltinJudge  # noqa: E402
from ragmonitor.records import (  # noqa: E402
    Assessment,
    Chunk,
    CompletedAnswer,
    Interaction,
    JudgeIdentity,
    Prediction,
    Report,
    SamplingDecision,
    SentenceVerdict,
    Verdict,
)
from ragmonitor.sampling import AdaptiveSampler  # noqa: E402
from ragmonitor.testing import ManualClock  # noqa: E402

DEFAULT_FOLDER = "../shared/data"
AFTER = (100, 300, 1_000)
"""Verdicts."""
MIN_ANSWERS = 100
"""Left to be scored, and a tenth of it of each kind; else there is no figure."""
FEW = 1_000
"""A file with fewer answers is learned in proportionally more orders."""
RESAMPLES = 200
TOLD = (0.0, 0.5, 1.0)
"""Of what features tell in the fourth table, the standard deviation in log odds."""
MIN_DEVIATION = 0.05
"""Of a feature that tells anything there."""
RATE = 0.15
"""Of bad answers in the second table; the corpora's own are near one half."""
FRACTION = 0.1
JUDGED = 200
BLOCKS = 8
JUDGE = JudgeIdentity(name="labels", version="1", kind="HUMAN")
LINE = 600.0
"""Threshold in days: two signals of ten that share one half of the false alarms."""
LEARNED = 300
MIN_LEARNED = 100
"""Verdicts before anything is measured in the second table; files with too few are left out."""


@dataclass(frozen=True, slots=True)
class Row:
    """One labelled answer, as the built-in judge reports it."""

    report: Report
    bad: bool
    source: str
    risk: float


def rows_of(path: Path) -> list[Row]:
    """Return the rows of a file that the built-in judge can read."""
    judge, found = BuiltinJudge(), []
    for number, line in enumerate(path.read_text("utf-8").splitlines()):
        row = json.loads(line)
        interaction = Interaction(
            id=f"{number:032x}",
            query=row["question"],
            chunks=tuple(Chunk(text=text) for text in row["contexts"]),
            answer=row["answer"],
            framework="python",
            started_ns=0,
            ended_ns=0,
        )
        read = judge.read(interaction)
        if read.risk is not None:
            report = Report(
                interaction=interaction, judge=judge.identity, evaluations=(), assessment=read
            )
            source = f"{path.stem} {row.get('source_id') or number}"
            found.append(Row(report, bool(row["hallucinated"]), source, read.risk))
    return found


def verdict_on(row: Row, decision: SamplingDecision) -> Report:
    """Return the label as a judge's report."""
    verdict = Verdict.ABSENT if row.bad else Verdict.SUPPORTED
    answer = row.report.interaction.answer
    sentence = SentenceVerdict(text=answer, start=0, end=len(answer), verdict=verdict)
    assessment = Assessment(
        judge=JUDGE,
        language="en",
        sentences=(sentence,),
        answer_relevancy=1.0,
        evasive=False,
        chunk_relevance=None,
    )
    return Report(
        interaction=row.report.interaction,
        judge=JUDGE,
        evaluations=(),
        assessment=assessment,
        decision=decision,
    )


class Learner:
    """The predictions of a service, fed as `Statistics` feeds them."""

    def __init__(self, *, learns: bool) -> None:
        self.predictions = Predictions(judge=JUDGE.name, learns=learns)

    def predict(self, row: Row) -> Prediction:
        """Return what past verdicts say of an answer."""
        return self.predictions.predict(row.report, outcomes(row.report), Prediction())

    def learn(
        self,
        row: Row,
        prediction: Prediction,
        decision: SamplingDecision,
        *,
        keep: bool = True,
    ) -> None:
        """Take in the verdict on an answer."""
        judged = verdict_on(row, decision)
        completed = CompletedAnswer(
            builtin=row.report, prediction=prediction, decision=decision, judged=judged
        )
        self.predictions.add(
            Answer(
                completed=completed,
                interaction=row.report.interaction,
                at_s=0.0,
                group=-1,
                builtin=outcomes(row.report),
                judged=outcomes(judged),
                weight=1 / decision.inclusion_probability,
            )
        )
        if keep:
            self.predictions.keep()


def by_source(rows: Sequence[Row], rng: random.Random) -> list[list[Row]]:
    """Return the rows source by source, in random order."""
    sources: dict[str, list[Row]] = {}
    for row in rows:
        sources.setdefault(row.source, []).append(row)
    shuffled = list(sources.values())
    rng.shuffle(shuffled)
    return shuffled


def course(rows: Sequence[Row], seed: int) -> Iterator[tuple[int, list[Row], list[float]]]:
    """Learn in a random order; after each number of verdicts yield the rest, as predicted."""
    learner = Learner(learns=True)
    certain = SamplingDecision(inclusion_probability=1.0, drawn=True)
    sources = by_source(rows, random.Random(seed))
    verdicts, column = 0, 0
    for number, source in enumerate(sources):
        if column < len(AFTER) and verdicts >= AFTER[column]:
            rest = list(itertools.chain(*sources[number:]))
            # Without a prediction, which takes eight verdicts of either kind, there is the risk.
            predicted = [learner.predict(row).hallucination for row in rest]
            scores = [
                row.risk if each is None else each
                for row, each in zip(rest, predicted, strict=True)
            ]
            yield column, rest, scores
            column += 1
        for row, prediction in [(row, learner.predict(row)) for row in source]:
            learner.learn(row, prediction, certain)
            verdicts += 1


def weighted_auroc(scored: Sequence[tuple[float, bool, str]], times: dict[str, int]) -> float:
    """Return the AUROC with each source counted so many times; nan if a class is empty.

    Args:
        scored: Score, label and source of each answer, in order of the scores.
        times: By source.
    """
    below = pairs = bads = 0.0
    for _, tied in itertools.groupby(scored, key=lambda each: each[0]):
        good = bad = 0.0
        for _, is_bad, source in tied:
            if is_bad:
                bad += times.get(source, 0)
            else:
                good += times.get(source, 0)
        pairs += bad * (below + good / 2)
        below += good
        bads += bad
    return pairs / (bads * below) if bads * below else math.nan


Window = list[list[tuple[float, bool, str]]]
"""Of each order the score, the label and the source of the answers of a column."""


def means(windows: Sequence[Window]) -> tuple[list[float], list[list[float]]]:
    """Return the mean AUROC over the orders of each score, and the same of resampled sources.

    Args:
        windows: Of each score of the same answers, in the same orders.
    """
    ordered = [[sorted(window) for window in each] for each in windows]
    sources = sorted({each[2] for window in windows[0] for each in window})
    rng = random.Random(1)

    def mean(window: Window, times: dict[str, int]) -> float:
        found = [weighted_auroc(order, times) for order in window]
        known = [each for each in found if not math.isnan(each)]
        return sum(known) / len(known) if known else math.nan

    resampled = []
    for _ in range(RESAMPLES):
        times: dict[str, int] = {}
        for source in rng.choices(sources, k=len(sources)):
            times[source] = times.get(source, 0) + 1
        resampled.append([mean(window, times) for window in ordered])
    once = dict.fromkeys(sources, 1)
    return [mean(window, once) for window in ordered], resampled


def within(values: Sequence[float], sign: str = "") -> str:
    """Return the interval that holds 95 % of the values."""
    cut = RESAMPLES // 40
    ends = sorted(values)[cut], sorted(values)[-1 - cut]
    return "[{0:{2}.3f}, {1:{2}.3f}]".format(*ends, sign)


def cells(windows: Sequence[Window]) -> list[str]:
    """Return the AUROC of both scores and their difference; empty if there are too few answers.

    Args:
        windows: By the risk and as predicted.
    """
    least = min(
        (min(len(w) // 10 * 10, 10 * sum(b for _, b, _ in w)) for w in windows[0]), default=0
    )
    if least < MIN_ANSWERS:
        return ["", "", ""]
    (risk, learned), resampled = means(windows)
    more = within([b - a for a, b in resampled], "+")
    return [f"{risk:.3f}", f"{learned:.3f}", f"{learned - risk:+.3f} {more}"]


def learned(files: dict[str, list[Row]], orders: int) -> None:
    """Print the AUROC of what is predicted, as verdicts come."""
    print(
        f"\n{orders} random orders, more of small files; intervals of 95 % by resampling sources, "
        "of the difference on the same answers.\n"
    )
    head = ["file", "answers", "risk"]
    for after in AFTER:
        head += [f"the rest after {after:,} verdicts: risk", "learned", "difference"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for name, rows in files.items():
        windows: list[list[Window]] = [[[], []] for _ in AFTER]
        for seed in range(orders * max(1, round(FEW / len(rows)))):
            for column, rest, scores in course(rows, seed):
                by_risk, as_predicted = windows[column]
                by_risk.append([(row.risk, row.bad, row.source) for row in rest])
                as_predicted.append(
                    [(score, row.bad, row.source) for row, score in zip(rest, scores, strict=True)]
                )
        all_of_it, resampled = means([[[(r.risk, r.bad, r.source) for r in rows]]])
        row = [
            name,
            str(len(rows)),
            f"{all_of_it[0]:.3f} {within([each for (each,) in resampled])}",
        ]
        for window in windows:
            row += cells(window)
        print("| " + " | ".join(row) + " |", flush=True)


def relabelled(rows: Sequence[Row], told: float, rng: random.Random) -> list[Row]:
    """Return rows with verdicts drawn by their risk and by three of their features.

    Args:
        rows: Real answers, whose features are kept as they are.
        told: Standard deviation, in log odds, of what the features tell beside the risk.
        rng: Draws the features, their signs and the verdicts.
    """
    known = [dict(features_of(row.report) or ()) for row in rows]
    plain = [at for at in range(2, len(NAMES)) if ", group " not in NAMES[at]]
    columns = {at: [each.get(at, 0.0) for each in known] for at in plain}
    varied = [at for at, column in columns.items() if pstdev(column) > MIN_DEVIATION]
    extra = [0.0] * len(rows)
    for at in rng.sample(varied, 3):
        scale = rng.choice((-1, 1)) / pstdev(columns[at])
        extra = [old + scale * value for old, value in zip(extra, columns[at], strict=True)]
    scale = told / pstdev(extra)
    odds = [each[1] + scale * more for each, more in zip(known, extra, strict=True)]
    middle = sorted(odds)[len(odds) * 7 // 10]
    return [
        replace(row, bad=rng.random() < 1 / (1 + math.exp(middle - each)))
        for row, each in zip(rows, odds, strict=True)
    ]


def simulated(files: dict[str, list[Row]], services: int) -> None:
    """Print what is learned where it is known how much there is to learn."""
    print(
        f"\n{services} services of {FEW} real English answers each, with verdicts drawn by their "
        "risk and by three of their features.\n"
    )
    head = ["told by features, log odds", "verdicts", "risk", "difference", "services ranked anew"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    # Of one language: those of two are calibrated apart, which ranks answers anew by itself.
    rows = [row for row in itertools.chain(*files.values()) if language_of(row.report) == "en"]
    for told in TOLD:
        found: dict[int, list[tuple[float, float]]] = {}
        for seed in range(services):
            rng = random.Random(seed)
            answers = relabelled(rng.sample(rows, min(FEW, len(rows))), told, rng)
            for column, rest, scores in course(answers, seed):
                aurocs = [
                    weighted_auroc(
                        sorted((score, row.bad, "") for score, row in zip(by, rest, strict=True)),
                        {"": 1},
                    )
                    for by in ([row.risk for row in rest], scores)
                ]
                found.setdefault(AFTER[column], []).append((aurocs[0], aurocs[1] - aurocs[0]))
        for after, each in found.items():
            risk, more = (sum(values) / len(each) for values in zip(*each, strict=True))
            anew = sum(abs(difference) > 1e-4 for _, difference in each) / len(each)
            cells = [f"{told}", str(after), f"{risk:.3f}", f"{more:+.3f}", f"{anew:.0%}"]
            print("| " + " | ".join(cells) + " |", flush=True)


def stream(rows: Sequence[Row], rng: random.Random, rate: float = RATE) -> Iterator[Row]:
    """Yield answers for ever, bad ones at this rate, each with an id of its own."""
    bad = [row for row in rows if row.bad]
    good = [row for row in rows if not row.bad]
    for _ in itertools.count():
        yield anew(rng.choice(bad if rng.random() < rate else good), rng)


def anew(row: Row, rng: random.Random) -> Row:
    """Return an answer with another id."""
    fresh = replace(row.report.interaction, id=f"{rng.getrandbits(128):032x}")
    return replace(row, report=replace(row.report, interaction=fresh))


def measured(rows: Sequence[Row], seed: int, *, learns: bool) -> tuple[float, float, float]:
    """Return the design effect, the interval's width and the verdicts learned from.

    A service learns from answers of one half of the sources, of each at most once, since a model
    would shine on what it has seen; it is measured on those of the other half.
    """
    rng = random.Random(seed)
    sources = by_source(rows, rng)
    halves = [list(itertools.chain(*sources[n::2])) for n in (0, 1)]
    learner, sampler = Learner(learns=learns), AdaptiveSampler(FRACTION, clock=ManualClock())
    left = {kind: [row for row in halves[0] if row.bad is kind] for kind in (True, False)}
    verdicts = 0
    while verdicts < LEARNED and all(left.values()):
        of_kind = left[rng.random() < RATE]
        place = rng.randrange(len(of_kind))
        row = anew(of_kind[place], rng)
        prediction = learner.predict(row)
        decision = sampler.draw(row.report.interaction, uncertainty=prediction.uncertainty)
        if decision.drawn:
            learner.learn(row, prediction, decision)
            verdicts += 1
            of_kind.pop(place)
    effects, widths = [], []
    for _ in range(BLOCKS):
        sums, judged = Sums(), 0
        for row in stream(halves[1], rng):
            prediction = learner.predict(row)
            decision = sampler.draw(row.report.interaction, uncertainty=prediction.uncertainty)
            expected = prediction.expected["hallucination"]
            if decision.drawn:
                outcome = dict(outcomes(verdict_on(row, decision)))["hallucination"]
                sums.add_drawn(expected, decision.inclusion_probability, outcome)
                judged += 1
            else:
                sums.add_not_drawn(expected, decision.inclusion_probability)
            if judged == JUDGED:
                break
        estimate = summarise(sums.moments())
        assert estimate is not None
        effects.append(estimate.efficiency)
        widths.append(estimate.upper - estimate.lower)
    return sum(effects) / BLOCKS, sum(widths) / BLOCKS, verdicts


def saved(files: dict[str, list[Row]], splits: int) -> None:
    """Print the verdicts that predictions save at equal width."""
    print(
        f"\n{RATE:.0%} of the answers bad, {FRACTION:.0%} judged; at most {LEARNED} verdicts of "
        "one half of the sources learned from, of each answer one; intervals of "
        f"{JUDGED} verdicts on the other; means of {splits} splits of {BLOCKS} intervals. Saved: "
        "against a plain random sample, by the design effect.\n"
    )
    head = [
        "file",
        "verdicts learned from",
        "width, untrained, pp",
        "width, learned, pp",
        "saved, untrained",
    ]
    head += ["saved, learned"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for name, rows in files.items():
        found = {
            learns: [measured(rows, seed, learns=learns) for seed in range(splits)]
            for learns in (False, True)
        }
        effects, widths, verdicts = (
            [sum(each[n] for each in found[learns]) / splits for learns in (False, True)]
            for n in (0, 1, 2)
        )
        if verdicts[1] < MIN_LEARNED:
            continue
        cells = [name, f"{verdicts[1]:.0f}", *(f"{100 * width:.1f}" for width in widths)]
        cells += [f"{1 - effect:.0%}" for effect in effects]
        print("| " + " | ".join(cells) + " |", flush=True)


def residuals(files: dict[str, list[Row]], verdicts: int) -> None:
    """Print how far verdicts are off learned predictions where nothing changes."""
    print(f"\n{verdicts:,} verdicts at 180 an hour, answers drawn again and again.\n")
    head = ["file", "rate", "off in the riskiest fifth, pp", "calibration_high", "_low"]
    print("| " + " | ".join(head) + " |\n" + "|---" * len(head) + "|")
    for name, rows in files.items():
        for rate in (0.05, 0.15):
            off, raised = steadily(rows, rate, verdicts)
            mean = 100 * sum(off) / max(1, len(off))
            print(f"| {name} | {rate:.0%} | {mean:+.1f} | {raised[1]} | {raised[-1]} |", flush=True)


def steadily(rows: Sequence[Row], rate: float, verdicts: int) -> tuple[list[float], dict[int, int]]:
    """Return the residuals of a service that does not change, and how often either alarm rose."""
    clock, learner = ManualClock(), Learner(learns=True)
    watched = Residuals(clock=clock)
    detectors = {
        sign: Detector(
            objective=half(RESIDUAL_OBJECTIVE), max_importance_weight=2.0, threshold_days=LINE
        )
        for sign in (1, -1)
    }
    certain = SamplingDecision(inclusion_probability=1.0, drawn=True)
    off, raised = [], {1: 0, -1: 0}
    for number, row in enumerate(itertools.islice(stream(rows, random.Random(9), rate), verdicts)):
        clock.now_s = number * 20.0
        prediction = learner.predict(row)
        expected = prediction.hallucination
        if expected is not None:
            watched.add_predicted(expected)
            if watched.is_risky(expected):
                off.append(row.bad - expected)
                for sign, detector in detectors.items():
                    detector.pass_time(clock.now_s)
                    detector.update(half(sign * off[-1]))
                    if detector.evidence >= LINE:
                        raised[sign] += 1
                        detector.restart()
        learner.learn(row, prediction, certain, keep=number % 10 == 0)
        watched.tick()
    return off, raised


def main() -> None:
    """Print the tables for every file of a folder, the first for all as one service too."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--orders", type=int, default=10)
    parser.add_argument("--splits", type=int, default=6)
    parser.add_argument("--verdicts", type=int, default=10_000, help="of the third table")
    parser.add_argument("--services", type=int, default=20, help="of the fourth table")
    parser.add_argument("--files", nargs="*", help="only these, by name")
    given = parser.parse_args()
    paths = sorted((given.folder or Path(DEFAULT_FOLDER)).glob("*.jsonl"))
    if not paths and given.folder is None:
        print(f"skipped: no labelled answers in {DEFAULT_FOLDER}; name a folder that has some")
        return
    if not paths:
        raise SystemExit(f"no .jsonl file in {given.folder}; name the one with labelled answers")
    files = {p.stem: rows_of(p) for p in paths if not given.files or p.stem in given.files}
    print("\n### Predictions learned from verdicts")
    together = {"all, as one service": list(itertools.chain(*files.values()))}
    everything = files | (together if len(files) > 1 else {})
    learned(everything, given.orders)
    saved(everything, given.splits)
    residuals(files, given.verdicts)
    simulated(files, given.services)


if __name__ == "__main__":
    main()
