"""The demo's golden questions: about settings, with what the right document says of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextvars import Context, copy_context
from queue import Empty, SimpleQueue
from typing import Any, Final

from ragmonitor import metrics
from ragmonitor.cli.demo.answerer import readable_sentences
from ragmonitor.cli.demo.causes_of_spikes import REPLACED
from ragmonitor.cli.demo.phases import PHASES, Phase
from ragmonitor.goldens.golden import Golden, ReferenceChunk
from ragmonitor.records import GaugeValue
from ragmonitor.settings import OPTIONS
from ragmonitor.stats.goldens import MAX_DROP

N_GOLDENS: Final = 12
PER_SECOND: Final = 4.0
"""Golden questions; in a demo that lasts a minute an hour's must come quickly."""
_CORRECTNESS: Final = metrics.GOLDEN_SCORES["answer_correctness"]
WAIT_S: Final = 10.0
"""For a user of the demo to ask one."""


def demo_goldens(documents: Mapping[str, str], n: int = N_GOLDENS) -> list[Golden]:
    """Return golden questions about numbers that the right edition of the replaced document names.

    Args:
        documents: Text by name, in Markdown.
        n: How many at most.
    """
    lines = documents[REPLACED].splitlines()
    goldens = []
    for option in OPTIONS:
        question = f"What does the setting {option.name} mean?"
        begins = f"The setting {option.name} (default "
        line = next((line for line in lines if line.startswith(begins)), "")
        sentences = readable_sentences(line)
        if sentences and line.removeprefix(begins)[:1].isdigit():
            goldens.append(
                Golden(
                    question=question,
                    answer=sentences[0],
                    chunks=(ReferenceChunk(text=line, source=REPLACED),),
                    source="written",
                )
            )
    return goldens[:n]


class GoldenDesk:
    """Hands golden questions to the demo's users, who ask them between two of their own."""

    def __init__(self) -> None:
        self._waiting: SimpleQueue[tuple[str, Context, SimpleQueue[str | Exception]]] = (
            SimpleQueue()
        )

    def ask(self, question: str) -> str:
        """Return the answer of the application; called by the probe, on its thread."""
        answers: SimpleQueue[str | Exception] = SimpleQueue()
        self._waiting.put((question, copy_context(), answers))
        answer = answers.get(timeout=WAIT_S)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def serve(self, answer: Callable[[str], str]) -> None:
        """Have one question answered, if one waits: under the mark that it came with."""
        try:
            question, context, answers = self._waiting.get_nowait()
        except Empty:
            return
        try:
            answers.put(context.run(answer, question))
        except Exception as error:  # noqa: BLE001 - an application's failure is an outcome
            answers.put(error)


class GoldenFigures:
    """The results of the golden questions in each phase of the demo."""

    def __init__(self) -> None:
        self.correctness: dict[Phase, float] = {}
        """The value as of the end of a phase; of the spike the lowest."""
        self.faults: dict[Phase, int] = {}
        """The most of a phase."""
        self.asked = 0
        self.is_judge = False
        """Whether the judge was named as changed."""

    def note(self, phase: Phase, gauges: Sequence[GaugeValue]) -> None:
        """Take in the gauges of now."""
        asked = sum(each.value for each in gauges if each.name == metrics.GOLDEN_ASKS)
        if not asked:
            return
        self.asked = round(asked)
        for each in gauges:
            if each.name == metrics.GOLDEN_CAUSE and ("cause", "judge") in each.labels:
                self.is_judge = self.is_judge or each.value > 0
            if each.name == metrics.GOLDEN_FAULTS:
                self.faults[phase] = max(round(each.value), self.faults.get(phase, 0))
            if each.name == _CORRECTNESS and ("window", "1h") in each.labels:
                lowest = min(each.value, self.correctness.get(phase, 1.0))
                self.correctness[phase] = lowest if phase == "during" else each.value

    def as_json(self, alarms: Sequence[str]) -> dict[str, Any]:
        """Return an object for JSON.

        Args:
            alarms: Signals of the golden alarms that were raised.
        """
        return {
            "asked": self.asked,
            "answer_correctness": {p: round(each, 4) for p, each in self.correctness.items()},
            "faults": self.faults,
            "alarms": list(dict.fromkeys(alarms)),
            "at_fault": self._at_fault(),
        }

    def _at_fault(self) -> str:
        """Return who is at fault for the spike: `judge`, `application` or `nobody`."""
        if self.is_judge:
            return "judge"
        before, during = (self.correctness.get(phase, 1.0) for phase in PHASES[:2])
        return "application" if during < before - MAX_DROP else "nobody"
