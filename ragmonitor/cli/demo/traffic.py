"""Users of the demo's applications: one thread per framework, one question after the other."""

from __future__ import annotations

import asyncio
import itertools
import random
import threading
from collections.abc import Callable, Iterator
from typing import Literal, Protocol

from ragmonitor.cli.demo.causes_of_spikes import (
    SpikeCause,
    attributes_of,
    spoiled_share,
)
from ragmonitor.cli.demo.demo_goldens import GoldenDesk
from ragmonitor.cli.demo.phases import DemoClock, Phase
from ragmonitor.cli.demo.spoiler import spoil
from ragmonitor.cli.drivers import Application

Way = Literal["ask", "stream", "aask"]
_WAYS: tuple[Way, ...] = ("ask", "stream", "aask")


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


class Notes(Protocol):
    """The place in which an asker says what it does."""

    def asking(self, framework: str, phase: Phase) -> None:
        """Note that a question is about to be asked."""
        ...

    def failed(self, framework: str, error: Exception) -> None:
        """Note that the application raised."""
        ...


class Asker(threading.Thread):
    """Asks one application, at a steady rate, until it is stopped."""

    def __init__(
        self,
        framework: str,
        application: Application,
        model: SpoilableModel,
        asked: Iterator[str],
        *,
        cause: SpikeCause,
        in_spike: Application,
        clock: DemoClock,
        seconds: float | None,
        rate: float,
        spike_share: float,
        seed: int,
        notes: Notes,
        stop: threading.Event,
        goldens: GoldenDesk | None = None,
    ) -> None:
        """Prepare; `start` begins.

        Args:
            framework: The application's.
            application: Is asked.
            model: Answers for it.
            asked: The questions.
            cause: What makes the spike.
            in_spike: Is asked during the spike.
            clock: Says when questions are due, and when answers are spoiled.
            seconds: How long to ask, by the clock; None: until `stop`.
            rate: Questions per second.
            spike_share: Share of the answers concerned that are spoiled during the spike.
            seed: Of everything that is drawn.
            notes: Hears of every question.
            stop: Ends it.
            goldens: Has questions that are asked between two of its own; None: there are none.
        """
        super().__init__(name=f"demo-{framework}", daemon=True)
        self.framework = framework
        self._application = application
        self._in_spike = in_spike
        self._cause: SpikeCause = cause
        self._model = model
        self._asked = asked
        self._clock = clock
        self._seconds = seconds
        self._rate = rate
        self._spike_share = spike_share
        self._seed = seed
        self._notes = notes
        self._stop_asking = stop
        self._goldens = goldens

    def run(self) -> None:
        """Ask until the time is over."""
        try:
            with asyncio.Runner() as runner:
                for turn in itertools.count():
                    if not self._is_due(turn / self._rate):
                        return
                    self._clock.asking(self.framework, (turn + 1) / self._rate)
                    self._turn(turn, self._clock.phase, runner)
        finally:
            self._clock.stopped(self.framework)

    def _is_due(self, due_s: float) -> bool:
        """Wait for a question's time; return whether it comes."""
        while (wait_s := due_s - self._clock.elapsed_s) > 0:
            if self._stop_asking.wait(wait_s):
                return False
        return not self._stop_asking.is_set() and (
            self._seconds is None or self._clock.elapsed_s < self._seconds
        )

    def _turn(self, turn: int, phase: Phase, runner: asyncio.Runner) -> None:
        if self._goldens is not None:
            chance = random.Random(f"{self._seed}:{self.framework}:{turn}:golden")
            application = self._prepared(turn, phase, chance)
            self._goldens.serve(application.ask)
        chance = random.Random(f"{self._seed}:{self.framework}:{turn}")
        application = self._prepared(turn, phase, chance)
        way = chance.choice(_WAYS)
        question = next(self._asked)
        self._notes.asking(self.framework, phase)
        try:
            if way == "ask":
                application.ask(question)
            elif way == "stream":
                for _ in application.stream(question):
                    pass
            else:
                runner.run(application.aask(question))
        except Exception as error:  # noqa: BLE001 - an application's failure is what is monitored
            self._notes.failed(self.framework, error)

    def _prepared(self, turn: int, phase: Phase, chance: random.Random) -> Application:
        """Return the application as it is in this phase, for one question."""
        attributes = attributes_of(self._cause, phase, chance)
        share = spoiled_share(self._cause, phase, attributes, self._spike_share)
        spoiled = share > 0 and chance.random() < share
        self._model.spoiled_with = f"{self._seed}:{turn}" if spoiled else None
        application = self._in_spike if phase == "during" else self._application
        application.attributes = attributes
        return application
