"""Alarms, finders and answers for incidents: everything but the incidents is scripted."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ragmonitor.causes import Explanation, NamedPart
from ragmonitor.export.content import ContentPolicy
from ragmonitor.incidents import Incident, IncidentKeeper, Journal
from ragmonitor.incidents.incident import Occasion
from ragmonitor.records import (
    AlarmEvent,
    AlarmSpan,
    AlarmState,
    Assessment,
    Chunk,
    Estimate,
    Interaction,
    JudgeIdentity,
    Report,
    SentenceVerdict,
    Snapshot,
    SpanReference,
    Verdict,
)
from ragmonitor.store import Memory, Store

START_S = 1_800_000_000.0
DAY_S = 86_400.0
JUDGE = JudgeIdentity(name="model", version="1", kind="LLM")
QUESTION = "How long may goods be returned?"
SENTENCE = "Goods may be returned within 90 days."
CHUNK = "Goods may be returned within 30 days of delivery."
TRACE = "ab" * 16


def raised(signal: str = "hallucination", *, at_s: float = START_S, **changes: Any) -> AlarmEvent:
    """Return an alarm that was raised, its evidence rising for two minutes."""
    known: dict[str, Any] = {
        "signal": signal,
        "judge": "model",
        "kind": "quality",
        "raised": True,
        "at_s": at_s,
        "since_s": at_s - 120,
        "objective": 0.05,
        "span": AlarmSpan(since_s=at_s - 110, scored=80, mean=0.41, bad=33, before=0.03),
    }
    return AlarmEvent(**known | changes)


def cleared(signal: str = "hallucination", *, at_s: float) -> AlarmEvent:
    """Return the end of an alarm."""
    return replace(raised(signal, at_s=at_s), raised=False)


def state(signal: str = "hallucination", *, active: bool = True, **changes: Any) -> AlarmState:
    """Return where an alarm stands."""
    known: dict[str, Any] = {
        "signal": signal,
        "judge": "model",
        "kind": "quality",
        "evidence_s": 40 * DAY_S,
        "active": active,
        "since_s": START_S,
        "objective": 0.05,
    }
    return AlarmState(**known | changes)


def on(*signals: str, **changes: Any) -> Snapshot:
    """Return the numbers of now while these alarms are on."""
    return Snapshot(alarms=tuple(map(state, signals)), **changes)


CALM = Estimate(0.03, 0.01, 0.06, 200.0, 200.0, 1.0)
RISEN = Estimate(0.8, 0.7, 0.9, 60.0, 60.0, 1.0)


def part(name: str = "route=/returns", **changes: Any) -> NamedPart:
    """Return a slice that got worse than the others."""
    known: dict[str, Any] = {
        "kind": "slice",
        "name": name,
        "now": RISEN,
        "before": CALM,
    }
    return NamedPart(**known | changes)


def document(name: str = "handbook.md") -> NamedPart:
    """Return a document that got worse than the others."""
    return NamedPart(kind="document", name=name)


def report(number: int = 1, *, text: str = SENTENCE) -> Report:
    """Return the judge's report on a bad answer of one contradicted sentence."""
    interaction = Interaction(
        id=f"i-{number}",
        query=QUESTION if number == 1 else f"{QUESTION} ({number})",
        chunks=(Chunk(text=CHUNK, id="c1", metadata={"source": "handbook.md"}),),
        answer=text,
        framework="python",
        started_ns=int(START_S * 1e9),
        ended_ns=int((START_S + number) * 1e9),
        attributes={"route": "/returns"},
    )
    sentence = SentenceVerdict(
        text=text,
        start=0,
        end=len(text),
        verdict=Verdict.CONTRADICTED,
        chunks=(0,),
        words=("90",),
    )
    assessment = Assessment(
        judge=JUDGE,
        language="en",
        sentences=(sentence,),
        answer_relevancy=1.0,
        evasive=False,
        chunk_relevance=(1.0,),
    )
    return Report(
        interaction=interaction,
        judge=JUDGE,
        evaluations=(),
        assessment=assessment,
        target=SpanReference(trace_id=TRACE, span_id="cd" * 8),
    )


class Explained:
    """Says what it was given."""

    def __init__(self, *parts: NamedPart, **others: Any) -> None:
        self.found = Explanation(parts=parts, **others)
        self.asked: list[tuple[str, float]] = []

    def __call__(self, signal: str, since_s: float) -> Explanation:
        """Return it, and remember what was asked."""
        self.asked.append((signal, since_s))
        return self.found


class ListedNotices:
    """Keeps what people would be told."""

    def __init__(self) -> None:
        self.told: list[tuple[Occasion, Incident]] = []

    @property
    def occasions(self) -> list[Occasion]:
        """What they were told of, in order."""
        return [occasion for occasion, _ in self.told]

    def tell(self, occasion: Occasion, incident: Incident) -> None:
        """Keep it."""
        self.told.append((occasion, incident))

    def flush(self, timeout_s: float) -> bool:
        """Return True: nothing is under way."""
        return True


class Scene:
    """A keeper with a clock that the test moves."""

    def __init__(
        self,
        explain: Any = None,
        *,
        beside: Scene | None = None,
        store: Store | None = None,
        **options: Any,
    ) -> None:
        self.now_s = START_S
        self.explain = explain
        self.store = store or (Memory(lambda: self.now_s) if beside is None else beside.store)
        content = options.pop("content", "all")
        self.journal = Journal(self.store, content)
        self.notices = ListedNotices()
        self.on: dict[tuple[str, str], AlarmState] = {}
        self.keeper = IncidentKeeper(
            self.journal,
            **{
                "service": "shop",
                "policy": ContentPolicy(content=content),
                "notices": self.notices,
                "now": lambda: self.now_s,
            }
            | options,
        )
        self.keeper.explain = explain

    def alarm(self, event: AlarmEvent, *bad: Report) -> None:
        """Announce an alarm after some bad answers, and show the numbers of then."""
        for each in bad:
            self.keeper.export(each)
        key = event.signal, event.judge
        self.on.pop(key, None)
        if event.raised:
            self.on[key] = AlarmState(
                signal=event.signal,
                judge=event.judge,
                kind=event.kind,
                evidence_s=30 * DAY_S,
                active=True,
                since_s=event.at_s,
                rising_since_s=event.since_s,
                span=event.span,
                objective=event.objective,
                higher_is_better=event.higher_is_better,
                detail=event.detail,
            )
        self.keeper.alarm(event)
        self.keeper.snapshot(Snapshot(alarms=tuple(self.on.values())))

    @property
    def incident(self) -> Incident:
        """The only incident."""
        (found,) = self.journal.recent()
        return found

    def pass_time(self, seconds: float, snapshot: Snapshot) -> None:
        """Let time pass, and show the numbers of then."""
        self.now_s += seconds
        self.keeper.snapshot(snapshot)


def described(*parts: NamedPart, **options: Any) -> Incident:
    """Return an incident with a cause, two bad answers and everything else."""
    scene = Scene(Explained(*(parts or (document(),)), **options))
    scene.alarm(raised(), report(1), report(2))
    return scene.incident
