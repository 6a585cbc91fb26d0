"""Words incidents in one language, with numbers and times as people write them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Final

from ragmonitor.causes.signal_names import Language, number, signal_name
from ragmonitor.incidents import texts_en, texts_zh
from ragmonitor.incidents.incident import IncidentAlarm, Rate
from ragmonitor.records import is_difference

_TEXTS: Final = {"en": texts_en.TEXTS, "zh": texts_zh.TEXTS}


class Wording:
    """Says things in one language."""

    def __init__(self, language: Language) -> None:
        """Take the language."""
        self.language: Language = language
        self._texts = _TEXTS[language]

    def __call__(self, key: str, **values: object) -> str:
        """Return a text with its names filled in."""
        return self._texts[key].format(**values)

    def signal(self, alarm: IncidentAlarm) -> str:
        """Return what an alarm's signal is called."""
        return signal_name(alarm.signal, self.language)

    def verdict(self, name: str) -> str:
        """Return what a verdict on a sentence is called."""
        return self._texts.get(name, name)

    def cause(self, kind: str, name: str) -> str:
        """Return a cause with its kind."""
        of = name.removeprefix("version ") if self.language == "zh" and kind == "version" else name
        return self(f"kind_{kind}", name=of)

    def rate(self, rate: Rate, signal: str) -> str:
        """Return a mean with its interval."""
        ends = {name: number(getattr(rate, name), signal) for name in ("mean", "lower", "upper")}
        return self("interval", **ends)

    def bound(self, alarm: IncidentAlarm) -> str:
        """Return an alarm's limit."""
        objective, signal = alarm.objective, alarm.signal
        if objective is None:
            return self("learning")
        if signal == "version_worse":
            return self("no_worse")
        if is_difference(signal):
            return self("at_most_below", value=f"{1 - 2 * objective:.2f}")
        side = "at_least" if alarm.higher_is_better else "at_most"
        return self(side, value=number(objective, signal))

    def span(self, seconds: float) -> str:
        """Return how long it took: in minutes, or from two hours on in hours."""
        minutes = round(max(0.0, seconds) / 60)
        if minutes < 120:
            return self("min", n=minutes)
        return self("h", n=round(minutes / 60))


def percent(share: float) -> str:
    """Return a share in percent, which may be far above 100."""
    value = 100 * share
    return f"{round(value, 0) + 0.0:.0f} %" if value < 1e4 else "> 10000 %"


def moment(seconds: float) -> str:
    """Return a time in UTC."""
    return datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
