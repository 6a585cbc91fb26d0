"""Users of the demo's applications: one thread per framework, one question after the other."""

from __future__ import annotations

import asyncio
import itertools
import math
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from ragmonitor.cli.demo.demo_questions import about_settings, questions
from ragmonitor.cli.demo.spikes import Phase, Schedule, SpikeCause, attributes_of, is_hit, spoil
from ragmonitor.cli.demo.watching import Watching
from ragmonitor.cli.drivers import Application

SLOWEST: Final = 3.0
"""A demo takes up to so many times as long as it was told, where it cannot ask at the rate."""
SLACK_S: Final = 0.5
"""An asker that is this far behind asks on at the rate, and not faster."""
SHORT_S: Final = 15.0
"""In the spike of a shorter demo every question is one that the replaced document answers."""


class SpoilableModel:
    """A model whose answers are spoiled on command. Serves one asker."""

    def __init__(self, respond: Callable[[str], str]) -> None:
        self._respond = respond
        self.spoiled_with: str | None = None
        """Seed of what is done to the answers; None: nothing is."""

    def __call__(self, prompt: str) -> str:
        """Return the model's reply to a prompt."""
        reply = self._respond(prompt)
        if self.spoiled_with is None:
            return reply
        return spoil(reply, random.Random(self.spoiled_with))


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What all askers do."""

    cause: SpikeCause
    """What makes the spike."""
    schedule: Schedule
    seconds: float | None
    """How long they ask; None: until they are stopped."""
    rate: float
    """Questions per second of each."""
    spike_share: float
    """Share of the answers concerned that are spoiled in the spike."""
    seed: int
    chinese: bool
    """Whether some questions are Chinese."""


class Asker(threading.Thread):
    """Asks one application at a steady rate; its time is counted in questions.

    So a machine that cannot ask at the rate takes longer, and shows no less.
    """

    def __init__(
        self,
        framework: str,
        applications: tuple[Application, Application],
        model: SpoilableModel,
        *,
        plan: Plan,
        watching: Watching,
        stop: threading.Event,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            framework: The application's.
            applications: The one that is asked, and the one that is asked during the spike.
            model: Answers for it.
            plan: Says what is asked when.
            watching: Hears of every question.
            stop: Ends it.
        """
        super().__init__(name=f"demo-{framework}", daemon=True)
        self._framework, self._model, self._plan = framework, model, plan
        self._application, self._in_spike = applications
        self._watching, self._stopping = watching, stop
        seed = f"{plan.seed}:{framework}"
        self._seed = seed
        self._asked = questions(seed, chinese=plan.chinese)
        is_short = plan.seconds is not None and plan.seconds < SHORT_S
        self._in_spike_asked = about_settings(seed) if is_short else self._asked
        self.elapsed_s = 0.0
        """By its own time."""

    @property
    def phase(self) -> Phase:
        """The phase that it is in."""
        return self._plan.schedule.phase(self.elapsed_s)

    def run(self) -> None:
        """Ask until the time is over."""
        began_s, seconds = time.monotonic(), self._plan.seconds
        end_s = began_s + SLOWEST * seconds if seconds else math.inf
        with asyncio.Runner() as runner:
            for turn in itertools.count():
                self.elapsed_s = turn / self._plan.rate
                ahead_s = self.elapsed_s - (time.monotonic() - began_s)
                began_s += max(0.0, -ahead_s - SLACK_S)  # what is late is not made up for
                if self._stopping.wait(max(0.0, ahead_s)):
                    return
                if seconds and (self.elapsed_s >= seconds or time.monotonic() > end_s):
                    return
                self._ask(turn, runner)

    def _ask(self, turn: int, runner: asyncio.Runner) -> None:
        phase, plan = self.phase, self._plan
        chance = random.Random(f"{self._seed}:{turn}")
        application = self._in_spike if phase == "during" else self._application
        application.attributes = attributes = attributes_of(plan.cause, phase, chance)
        is_spoiled = is_hit(plan.cause, phase, attributes) and chance.random() < plan.spike_share
        self._model.spoiled_with = f"{plan.seed}:{turn}" if is_spoiled else None
        question = next(self._in_spike_asked if phase == "during" else self._asked)
        self._watching.asking(self._framework, phase)
        way = chance.choice(("ask", "stream", "aask"))
        try:
            if way == "ask":
                application.ask(question)
            elif way == "stream":
                for _ in application.stream(question):
                    pass
            else:
                runner.run(application.aask(question))
        except Exception as error:  # noqa: BLE001 - an application's failure is what is monitored
            self._watching.failed(self._framework, error)
