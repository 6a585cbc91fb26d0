"""`ragmonitor learned`: what predictions have learned from verdicts, from the state folder."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from ragmonitor.cli.kept_places import kept_place
from ragmonitor.cli.monitor_options import LearnedOptions
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, print_json, say
from ragmonitor.errors import InputError
from ragmonitor.estimation.learned_score import LearnedScore
from ragmonitor.estimation.predictions import STATE_VERSION, state_name
from ragmonitor.judges import BuiltinJudge
from ragmonitor.settings import Settings
from ragmonitor.state import state_of_service
from ragmonitor.wiring import reader_of

_SHOWN: Final = 20


def run(options: LearnedOptions) -> int:
    """Show, export or forget it, and return the exit code.

    Raises:
        RagMonitorError: There is no state folder, or its file cannot be read or written.
    """
    settings = Settings.load(state=options.state, service=options.service)
    reader = reader_of(settings) or BuiltinJudge()
    name = state_name(reader.identity, settings.estimation.min_severity)
    with kept_place(settings) as place:
        file = state_of_service(place, name, settings.service, version=STATE_VERSION)
        if file is None:
            raise InputError(
                "nothing outlives a process without a state folder; name it with --state"
            )
        if options.reset and settings.state is None:
            raise InputError(
                "what a fleet has learned is its estimator's, and is not forgotten here"
            )
        try:
            with file.alone():
                state = file.read()
                if state is not None and options.reset:
                    anew = {"judge": state.get("judge", ""), "signals": {}, "model": None}
                    file.write(anew | {"resets": int(state.get("resets", 0)) + 1})
        except (OSError, ValueError) as error:
            raise InputError(f"{file.name}: {error}") from error
    if state is None:
        # The folder of a checkpoint's copy is gone by now.
        missing = f"there is no {file.name}" if settings.state else "its estimator has kept none"
        say(f"nothing was learned of {settings.service!r}: {missing}")
        return SOMETHING_WRONG
    if options.reset:
        say(f"forgotten; predictions of {settings.service!r} begin anew")
        return FINE
    return _show(state, service=settings.service, as_json=options.json_output)


def _show(state: Mapping[str, Any], *, service: str, as_json: bool) -> int:
    model = LearnedScore()
    learned = state.get("model")
    try:
        model.merge(learned if isinstance(learned, Mapping) else None)
    except ValueError as error:
        raise InputError(f"what was learned is of another version: {error}") from error
    coefficients = dict(model.largest(_SHOWN))
    if as_json:
        print_json(
            {
                "service": service,
                "judge": state.get("judge", ""),
                "verdicts": model.verdicts,
                "trust": model.trust,
                "error_ratios": model.error_ratios(),
                "coefficients": coefficients,
                "state": state,
            }
        )
    elif model.verdicts:
        say(
            f"{service}: {model.verdicts:,.0f} verdicts of {state.get('judge', '')}, trusted to "
            f"{100 * model.trust:.0f} %"
        )
        for name, coefficient in coefficients.items():
            say(f"{coefficient:+8.2f}  {name}")
    else:
        say(f"nothing was learned of {service!r}")
    return FINE if model.verdicts else SOMETHING_WRONG
