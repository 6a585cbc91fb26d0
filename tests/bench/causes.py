"""What an incident names as the cause of a planted spike, how soon, and how often wrongly.

    python tests/bench/causes.py [--runs 8] [--per-hour 20 180 2000] [--worlds route document ...]

Simulated traffic of which half is judged goes through the sampler, the statistics, the alarms, the
reference answers and the incidents as a monitor wires them, on a clock of its own. Something gets
worse after a while without an alarm; each world goes on until the time of `UNTIL` has passed since
the alarm. Prints a table in Markdown.

Each seed has one history, which the worlds share: each goes on from it in a forked process.
"""

from __future__ import annotations

import argparse
import dataclasses
import logging
import multiprocessing
import random
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent.parent
sys.path.insert(0, str(ROOT))

from ragmonitor.causes.document_causes import Documents  # noqa: E402  # from a checkout
from ragmonitor.causes.events import Events  # noqa: E402
from ragmonitor.causes.slice_watch import SliceWatch  # noqa: E402
from ragmonitor.causes.slices import Slices  # noqa: E402
from ragmonitor.causes.versions import Versions  # noqa: E402
from ragmonitor.estimation import (  # noqa: E402
    Alarms,
    Anchors,
    EarlyWarning,
    JudgeDrift,
    Predictions,
    SelfDisagreement,
    Statistics,
    WindowedMeans,
    streams,
    summarise,
)
from ragmonitor.estimation.alarm_streams import slice_slots  # noqa: E402
from ragmonitor.export.content import ContentPolicy  # noqa: E402
from ragmonitor.incidents import Incident, IncidentKeeper, Journal  # noqa: E402
from ragmonitor.judges.builtin import BuiltinJudge  # noqa: E402
from ragmonitor.records import Chunk, CompletedAnswer, Interaction, Report  # noqa: E402
from ragmonitor.sampling import AdaptiveSampler  # noqa: E402
from ragmonitor.testing import ManualClock  # noqa: E402
from tests.support.streams import LEXICAL, SUPPORTED, Answer, Records  # noqa: E402

HOUR_S = 3_600.0
GOOD, HARD = 0.03, 0.2
"""Shares of bad answers: of most of the traffic, and of the route `legal`."""
SLIPS = 0.005
"""Share of readings in which the judge errs by chance."""
OBJECTIVE = 0.06
RATE = 0.5
"""Of the answers, that is judged."""
AUROC = 0.75
"""Of the built-in score."""
DOCUMENTS = 60
HISTORY = {20: 72.0, 180: 24.0, 2_000: 4.0}
"""Hours before something gets worse, by judged answers an hour."""
UNTIL = {20: 24.0, 180: 4.0, 2_000: 1.0}
"""Hours after the alarm until which the incident is followed."""
WAITED_FOR = {20: 72.0, 180: 12.0, 2_000: 3.0}
"""Hours until which an alarm is waited for."""

Names = tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class World:
    """What becomes worse."""

    says: str
    right: Names
    """What may be named; empty: nothing may."""
    route: float = GOOD
    """Of the answers of the route `billing`, a fifth."""
    document: float = GOOD
    """Of the answers that are shown one document, a fifth."""
    legal_share: float = 0.05
    """Of the answers, that is of the route that always was bad."""
    stricter: float = 0.0
    """Share of fine answers that the judge finds bad."""
    version: float | None = None
    """Of the answers of a new version, which half of the traffic gets; None: there is none."""
    everything: float = GOOD
    document_by_version: bool = False
    """One document is shown by the new version alone, for half of its answers, which are bad."""


ROUTE, DOCUMENT, VERSION = "slice route=billing", "document guide-7.md", "version version 1.5"
BEFORE = World(says="-", right=())
WORLDS = {
    "route": World(says="a route, a fifth of the traffic, 3 to 35 %", right=(ROUTE,), route=0.35),
    "document": World(
        says="a document, shown for a fifth, 3 to 35 %", right=(DOCUMENT,), document=0.35
    ),
    "version": World(says="a new version, half, at 16 %", right=(VERSION,), version=0.16),
    "mix": World(
        says="a route that was bad (20 %) goes from 5 to 45 %",
        right=("mix route=legal",),
        legal_share=0.45,
    ),
    "judge": World(says="the judge is stricter on 7 %", right=("judge",), stricter=0.07),
    "two": World(
        says="the route and the document, each to 35 %",
        right=(ROUTE, DOCUMENT),
        route=0.35,
        document=0.35,
    ),
    "document of a version": World(
        says="a document that a new version alone shows, 80 % bad",
        right=(DOCUMENT, VERSION),
        version=GOOD,
        document_by_version=True,
    ),
    "everything": World(says="all answers, 3 to 10 %", right=(), everything=0.1),
}


class Traffic(Records):
    """Answers with a route, a tenant, a version and five documents, in a world that may change."""

    def __init__(self, seed: int) -> None:
        """Begin in the world before."""
        super().__init__(seed=seed)
        self.world = BEFORE
        self.rng = random.Random(seed)
        self.truths: dict[str, Answer] = {}
        self._values: tuple[dict[str, str], tuple[Chunk, ...]] = ({}, ())
        self._chunks = [
            Chunk(text=f"Guide {n}.", id=f"g{n}", metadata={"source": f"guide-{n}.md"})
            for n in range(DOCUMENTS)
        ]

    def answers(self, began_s: float, per_hour: float) -> Iterator[Answer]:
        """Yield answers for ever, in order of time."""
        rng, at_s, number = self.rng, began_s, len(self.truths)
        while True:
            at_s += rng.expovariate(per_hour / HOUR_S)
            number += 1
            is_bad = rng.random() < self._draw()
            shift = 0.954 if is_bad else 0.0  # sqrt(2) times the normal quantile of AUROC
            yield Answer(
                at_s=at_s,
                number=number,
                score=rng.gauss(shift, 1),
                hallucinated=is_bad,
                refused=False,
                supported=rng.choice(SUPPORTED) if is_bad else 1.0,
                relevancy=0.8,
                embedded_relevancy=0.8,
                session="",
                language=rng.choice(("en", "zh")),
                luck=rng.random(),
            )

    def _draw(self) -> float:
        """Draw what the next answer is of, and return how likely it is bad."""
        rng, world = self.rng, self.world
        route = "legal"
        if rng.random() >= world.legal_share:
            route = rng.choice(("faq", "sales", "help", "billing", "faq"))
        version = "1.5" if world.version is not None and rng.random() < 0.5 else "1.4"
        of_document = 0.5 * (version == "1.5") if world.document_by_version else 0.2
        shown = [rng.randrange(DOCUMENTS - 1) for _ in range(5)]
        shown = [each + (each >= 7) for each in dict.fromkeys(shown)]
        if rng.random() < of_document:
            shown[0] = 7
        attributes = {
            "route": route,
            "tenant": f"t{int(20 * rng.random() ** 2)}",
            "service_version": version,
        }
        self._values = attributes, tuple(self._chunks[each] for each in shown)
        rates = [world.everything, HARD if route == "legal" else 0.0]
        rates.append(world.route if route == "billing" else 0.0)
        if 7 in shown:
            rates.append(0.8 if world.document_by_version else world.document)
        if version == "1.5" and world.version is not None:
            rates.append(world.version)
        return max(rates)

    def interaction(self, answer: Answer) -> Interaction:
        """Return what was asked and answered."""
        attributes, chunks = self._values
        found = dataclasses.replace(
            super().interaction(answer), attributes=attributes, chunks=chunks
        )
        self.truths[found.id] = answer
        return found

    def says(self, answer: Answer) -> bool:
        """Return what the judge says of an answer, now."""
        strict = answer.luck < self.world.stricter
        return (answer.hallucinated or strict) ^ (self.rng.random() < SLIPS)


@dataclass(kw_only=True)
class Found:
    """What became of one world."""

    alarm_s: float | None = None
    """After the change; None: there was none."""
    first: str = ""
    """Kind and name; empty: nothing was named."""
    first_s: float = 0.0
    """After the alarm."""
    last: str = ""
    """What was named in the end."""
    shown: Names = ()
    """Everything that was shown in the end."""


@dataclass
class Service:
    """A monitor's back half without its thread, on a clock that is told the time."""

    traffic: Traffic
    per_hour: int
    clock: ManualClock = field(default_factory=ManualClock)

    def __post_init__(self) -> None:
        self.clock.now_s = 0.0
        self.sampler = AdaptiveSampler(RATE, clock=self.clock)
        alarms = self._alarms()
        watch = SliceWatch(alarms, now=self.now, look_each_s=HOUR_S)
        self.finders = (
            Slices(
                max_importance_weight=2.0,
                higher_is_better=alarms.higher_is_better,
                watch=watch,
                clock=self.clock,
            ),
            Documents(
                is_sampled=True,
                read=BuiltinJudge().read,
                policy=ContentPolicy(content="all"),
                clock=self.clock,
                now=self.now,
            ),
            self._versions(alarms),
            Events(
                version="",
                is_judged=True,
                higher_is_better=alarms.higher_is_better,
                now=self.now,
            ),
        )
        judge = self.traffic.judge.name
        self.statistics = Statistics(
            [*self.finders, SelfDisagreement(clock=self.clock)],
            means=WindowedMeans(builtin=LEXICAL.name, judge=judge, clock=self.clock),
            alarms=alarms,
            predictions=Predictions(judge=judge, file=None),
            early_warning=EarlyWarning(factor=4.0, now=self.now),
            judge_drift=JudgeDrift(
                Anchors(per_day=20), judge=judge, threshold_s=30 * 86_400.0, now=self.now
            ),
        )
        self.keeper = IncidentKeeper(
            Journal(),
            service="simulated",
            finders=self.finders,
            summarise=summarise,
            policy=ContentPolicy(content="all"),
            now=self.now,
        )
        self.tick_s = {20: 300.0, 180: 60.0}.get(self.per_hour, 20.0)
        self.ticked_s = 0.0
        self.raised_s: float | None = None
        self._due_s = 0.0

    def _alarms(self) -> Alarms:
        judge = self.traffic.judge.name
        return Alarms(
            streams(
                evaluators=self.traffic.evaluators,
                lower_is_better=(),
                builtin=LEXICAL.name,
                judge=judge,
                patterns=("hallucination",),
                slices_share=0.1,
            ),
            false_alarm_every_days=30.0,
            objectives={"hallucination": OBJECTIVE},
            slots=slice_slots(50, 0.1, judge=judge, is_sampled=True),
            now=self.now,
        )

    def _versions(self, alarms: Alarms) -> Versions:
        return Versions(
            ("service_version",),
            version="",
            reader=LEXICAL.name,
            judge=self.traffic.judge.name,
            higher_is_better=alarms.higher_is_better,
            threshold_s=30 * 86_400.0,
            now=self.now,
        )

    def now(self) -> float:
        """Return the time, in seconds since the epoch."""
        return self.traffic.began_s + self.clock()

    def live(self, until: Callable[[], bool]) -> None:
        """Take answers until that is so."""
        for answer in self.traffic.answers(self.clock(), self.per_hour / RATE):
            while self.ticked_s + self.tick_s <= answer.at_s:
                self.ticked_s += self.tick_s
                self.clock.now_s = self.ticked_s
                self._tick()
                if until():
                    return
            self.clock.now_s = answer.at_s
            self._take(answer)

    def _take(self, answer: Answer) -> None:
        traffic, statistics = self.traffic, self.statistics
        interaction = traffic.interaction(answer)
        builtin = traffic.builtin(answer, interaction)
        prediction = statistics.predict(builtin)
        decision = self.sampler.draw(interaction, uncertainty=prediction.uncertainty)
        judged: Report | None = None
        if decision.drawn:
            statistics.awaits(builtin, prediction, decision)
            said = traffic.says(answer)
            judged = traffic.verdict(answer, interaction, decision, hallucinated=said)
            if not said and traffic.rng.random() < 0.05:
                again = traffic.verdict(
                    answer, interaction, decision, hallucinated=traffic.says(answer)
                )
                statistics.repeated(judged, again)
        statistics.add(
            CompletedAnswer(
                builtin=builtin, prediction=prediction, decision=decision, judged=judged
            )
        )

    def _tick(self) -> None:
        for event in self.statistics.tick():
            self.keeper.alarm(event)
            if event.raised and self.raised_s is None and event.kind != "judge":
                self.raised_s = self._due_s = self.clock()
        for interaction in self.statistics.due():
            answer = self.traffic.truths[interaction.id]
            decision = dataclasses.replace(self.sampler.draw(interaction, uncertainty=1.0))
            report = self.traffic.verdict(
                answer, interaction, decision, hallucinated=self.traffic.says(answer)
            )
            self.statistics.checked(interaction, report)
        if self.raised_s is not None and self.clock() >= self._due_s:
            # Less often than the worker, which has nothing else to do: a look takes a while.
            self._due_s = self.clock() + max(60.0, 0.3 * (self.clock() - self.raised_s))
            self.keeper.snapshot(self.statistics.snapshot())


def named(incident: Incident) -> str:
    """Return what an incident names; empty: nothing."""
    cause = incident.cause
    return "" if cause.kind == "unknown" else f"{cause.kind} {cause.name}".strip()


def lived(service: Service, world: World) -> Found:
    """Return what comes of a world after the history."""
    found, changed_s = Found(), service.clock()
    service.traffic.world = world
    per_hour = service.per_hour

    def is_over() -> bool:
        if service.raised_s is None:
            return service.clock() - changed_s > WAITED_FOR[per_hour] * HOUR_S
        incidents = [each for each in service.keeper.journal.recent() if each.scope == "answers"]
        if incidents:
            last = found.last = named(incidents[-1])
            if last and not found.first:
                found.first, found.first_s = last, service.clock() - service.raised_s
            found.shown = tuple(
                f"{each.kind} {each.name}" for each in incidents[-1].candidates if each.is_discovery
            )
        return service.clock() - service.raised_s > UNTIL[per_hour] * HOUR_S

    service.live(is_over)
    if service.raised_s is not None:
        found.alarm_s = service.raised_s - changed_s
    return found


_history: Service | None = None
"""What forked processes go on from."""


def _go_on(world: str) -> Found:
    assert _history is not None
    return lived(_history, WORLDS[world])


def runs_of(seed: int, per_hour: int, worlds: Sequence[str], processes: int) -> list[Found] | None:
    """Return what came of each world after one history; None: there was an alarm before."""
    global _history  # noqa: PLW0603  # is inherited by the processes that are forked below
    service = Service(Traffic(seed), per_hour)
    hours = HISTORY[per_hour]
    service.live(lambda: service.raised_s is not None or service.clock() > hours * HOUR_S)
    if service.raised_s is not None:
        return None
    _history = service
    with multiprocessing.get_context("fork").Pool(processes, maxtasksperchild=1) as pool:
        return pool.map(_go_on, worlds, chunksize=1)


def _row(world: World, founds: Sequence[Found]) -> str:
    alarms = sorted(each.alarm_s for each in founds if each.alarm_s is not None)
    right = [each for each in founds if each.first in world.right]
    wrong = [each for each in founds if each.first and each.first not in world.right]
    last_wrong = [each for each in founds if each.last and each.last not in world.right]
    of = len(alarms)
    soon = median(each.first_s for each in right) if right else None
    all_shown = sum(
        all(name in each.shown or name == each.last for name in world.right) for each in founds
    )
    names = Counter(each.first for each in wrong) + Counter(
        f"at last {each.last}" for each in last_wrong if each not in wrong
    )
    said = ", ".join(f"{name} ({n})" for name, n in names.most_common(3))
    return (
        f"| {world.says} | {len(alarms)} of {len(founds)}"
        f"{f', {median(alarms) / 60:.0f} min' if alarms else ''} | {len(right)} of {of}"
        f"{'' if soon is None else f', {soon / 60:.0f} min'} | {len(wrong)}"
        f"{f': {said}' if said else ''} | {len(last_wrong)} "
        f"| {f'{all_shown} of {of}' if world.right else '-'} |"
    )


def main() -> None:
    """Print a table for each traffic."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--per-hour", type=int, nargs="+", default=list(HISTORY))
    parser.add_argument("--worlds", nargs="+", default=list(WORLDS), choices=list(WORLDS))
    parser.add_argument("--processes", type=int, default=2, help="worlds at the same time")
    options = parser.parse_args()
    logging.getLogger("ragmonitor").setLevel(logging.ERROR)
    for per_hour in options.per_hour:
        told = [
            runs_of(seed, per_hour, options.worlds, options.processes)
            for seed in range(options.runs)
        ]
        found = [each for each in told if each is not None]
        print(
            f"\n{per_hour:,} judged answers an hour; {HISTORY[per_hour]:.0f} h before, followed "
            f"for {UNTIL[per_hour]:.0f} h after the alarm; an alarm before anything got worse in "
            f"{len(told) - len(found)} of {len(told)} histories.\n"
        )
        print("| what gets worse | alarm | right first | wrong first | wrong last | all shown |")
        print("|---|---|---|---|---|---|")
        for at, world in enumerate(options.worlds):
            print(_row(WORLDS[world], [each[at] for each in found]), flush=True)


if __name__ == "__main__":
    main()
