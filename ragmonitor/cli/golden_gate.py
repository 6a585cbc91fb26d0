"""`ragmonitor gate GOLDENS`: asks a release golden questions and compares it with its baseline."""

from __future__ import annotations

from pathlib import Path

from ragmonitor.cli.options import GateOptions
from ragmonitor.cli.probing_commands import http_ask
from ragmonitor.cli.rollout import EXIT
from ragmonitor.cli.terminal import FINE, SOMETHING_WRONG, print_json, say
from ragmonitor.goldens.asking import Ask
from ragmonitor.goldens.golden import askable, read_goldens
from ragmonitor.goldens.release_comparison import (
    CORRECTNESS,
    ReleaseComparison,
    as_json,
    compare_releases,
    headline,
    junit,
    markdown,
    not_counted,
)
from ragmonitor.goldens.scored_runs import (
    ScoredRun,
    ask_and_score,
    read_scored_run,
    write_scored_run,
)
from ragmonitor.runtime.durations import duration_s
from ragmonitor.runtime.errors import InputError, file_errors
from ragmonitor.runtime.imports import imported


def run(options: GateOptions) -> int:
    """Ask, score, compare, write what was asked for, and return the exit code.

    Raises:
        InputError: A file, an address or an option is wrong.
    """
    known = read_goldens(options.goldens)
    goldens = askable(known, options.goldens)
    if len(goldens) < len(known):
        say(f"{len(known) - len(goldens)} questions are left out: rejected, or awaiting review")
    baseline = read_scored_run(options.baseline) if options.baseline else None
    if baseline is None and options.save is None:
        raise InputError(
            "nothing to compare with; give --baseline FILE, or --save FILE to make one"
        )
    inputs = {Path(options.goldens).resolve(), Path(options.baseline).resolve()}
    for name in ("save", "junit", "markdown"):
        path = getattr(options, name)
        # A broken release that replaced its baseline would pass the next time.
        if path is not None and path.resolve() in inputs:
            raise InputError(f"--{name} {path}: the command reads this file; name another one")
    ask = _ask(options)
    scored = ask_and_score(
        goldens,
        ask,
        judge=options.judge,
        budget_usd=options.budget_usd,
        budget_tokens=options.budget_tokens,
        timeout_s=duration_s(options.timeout, "--timeout"),
    )
    unread = [golden.unread for golden in scored.goldens if golden.unread]
    errors = [golden.error for golden in scored.goldens if golden.error]
    is_unscored = bool(unread) and not any(golden.scores for golden in scored.goldens)
    if options.save is not None and not is_unscored:
        # First: a comparison that is refused loses no answer.
        with file_errors(options.save):
            write_scored_run(options.save, scored)
    if errors:
        say(f"{len(errors)} questions got no answer, such as: {errors[0]}")
    if unread:
        say(f"{len(unread)} answers were not judged, such as: {unread[0]}")
    comparison = None
    if is_unscored:
        say("nothing was scored, so nothing was compared" + " or saved" * bool(options.save))
    elif baseline is not None:
        comparison = compare_releases(
            scored,
            baseline,
            max_drop=options.max_drop,
            signal=options.signal or CORRECTNESS,
        )
    elif options.save is not None and not options.json_output:
        say(f"{len(scored.goldens)} questions scored; the baseline is {options.save}")
    _write(options, scored, comparison)
    if is_unscored or comparison is None:
        return SOMETHING_WRONG if is_unscored or errors else FINE
    return FINE if comparison.passes else EXIT[comparison.decision]


def _ask(options: GateOptions) -> Ask:
    if (options.url is None) == (options.callable is None):
        raise InputError("say whom to ask: --url http://app/ask or --callable module:function")
    if options.callable is not None:
        ask: Ask = imported(options.callable, option="--callable")
        if not callable(ask):
            raise InputError(
                f"--callable {options.callable} is no callable, but {type(ask).__name__}; give "
                "module:function"
            )
        return ask
    return http_ask(options, options.url or "")


def _write(options: GateOptions, scored: ScoredRun, comparison: ReleaseComparison | None) -> None:
    if options.junit is not None:
        with file_errors(options.junit):
            options.junit.write_bytes(junit(scored, comparison))
    if options.markdown is not None and comparison is not None:
        with file_errors(options.markdown), options.markdown.open("a", encoding="utf-8") as file:
            file.write(markdown(comparison))
    if options.json_output:
        print_json(as_json(scored, comparison))
    elif comparison is not None:
        say(headline(comparison))
        if uncounted := not_counted(comparison):
            say(f"  {uncounted}")
        for change in ("broken", "fixed"):
            for each in comparison.of(change):
                say(f"  {change}: {each.golden.question} ({each.before:.2f} -> {each.now:.2f})")
