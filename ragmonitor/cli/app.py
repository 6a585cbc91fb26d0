"""Registers the commands, and runs the function of the one that the user types.

The class of a command's options describes it: its docstring is the help, its fields are the
options. Heavy modules are imported when a command runs, so that `--help` is fast.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from dataclasses import MISSING, fields
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from ragmonitor import __version__
from ragmonitor.cli import options
from ragmonitor.cli.terminal import EXIT_CODES, SOMETHING_WRONG, USAGE, prepare_streams, say


class Guarded(TyperGroup):
    """Prints an expected error in one line, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        from ragmonitor.runtime.errors import RagMonitorError

        try:
            return super().invoke(ctx)
        except RagMonitorError as error:
            from ragmonitor.cli.masking import masked

            say(f"error: {masked(str(error))}")
            raise typer.Exit(USAGE) from None
        except OSError as error:  # a full disk behind `>`, a working directory that is gone
            if not isinstance(error, BrokenPipeError):  # a reader that has enough, as `head` does
                place = f"{error.filename}: " if error.filename else ""
                say(f"error: {place}{error.strerror or error}")
            # The rest of standard output goes nowhere: nothing reads it any more.
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
            raise typer.Exit(SOMETHING_WRONG) from None


app = typer.Typer(
    name="ragmonitor",
    cls=Guarded,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    help="Observability for live RAG applications: every answer traced, scored and summed up "
    f"honestly.\n\n{EXIT_CODES}",
)


def _say_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"ragmonitor {__version__}")
        raise typer.Exit


@app.callback()
def ragmonitor(
    version: Annotated[
        bool,
        typer.Option("--version", callback=_say_version, is_eager=True, help="Show the version."),
    ] = False,
) -> None:
    """Take the options before a command."""


GROUPS: Final = {
    "labels": "People's verdicts on judged answers: draw answers to read, and correct the judged "
    "rate by these verdicts.",
    "goldens": "Golden questions: questions with known answers, made of documents or taken from "
    "live traffic.",
}
COMMANDS: Final[dict[str, tuple[type, str]]] = {
    "score": (options.ScoreOptions, "score:run"),
    "compare": (options.CompareOptions, "compare:run"),
    "status": (options.StatusOptions, "status:run"),
    "demo": (options.DemoOptions, "demo.run:run"),
    "doctor": (options.DoctorOptions, "doctor:run"),
    "gate": (options.GateOptions, "golden_gate:run"),
    "rollout": (options.RolloutOptions, "rollout:run"),
    "probe": (options.ProbeOptions, "probing_commands:run"),
    "rules": (options.RulesOptions, "rules:run"),
    "worker": (options.WorkerOptions, "services:work"),
    "receive": (options.ReceiveOptions, "services:receive"),
    "labels sample": (options.SampleOptions, "human_labels:sample"),
    "labels rate": (options.RateOptions, "human_labels:rate"),
    "mcp": (options.McpOptions, "mcp_server:run"),
    "incident": (options.IncidentOptions, "incident_reports:run"),
    "goldens generate": (options.GenerateOptions, "golden_files:generate_from_documents"),
    "goldens mine": (options.MineOptions, "golden_files:mine_traffic"),
}


def _command(taken: type, place: str) -> Callable[..., None]:
    """Return a command that calls a function with the options and exits with its result.

    Args:
        taken: The class of the command's options.
        place: The function, as `module:function` below `ragmonitor.cli`.
    """

    def command(**given: Any) -> None:
        module, _, function = place.partition(":")
        run = getattr(import_module(f"ragmonitor.cli.{module}"), function)
        raise typer.Exit(run(taken(**given)))

    # Typer keeps the line breaks of a docstring: its paragraphs are to fill the terminal.
    paragraphs = inspect.cleandoc(taken.__doc__ or "").split("\n\n")
    command.__doc__ = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    parameters = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if each.default is MISSING else each.default,
            annotation=Annotated[each.type, each.metadata["typer"]],
        )
        for each in fields(taken)
    ]
    vars(command)["__signature__"] = inspect.Signature(parameters)
    return command


_groups = {"": app}
for _path, _options_and_place in COMMANDS.items():
    _group, _, _name = _path.rpartition(" ")
    if _group not in _groups:
        _groups[_group] = typer.Typer(
            no_args_is_help=True, help=f"{GROUPS[_group]}\n\n{EXIT_CODES}"
        )
        app.add_typer(_groups[_group], name=_group)
    _groups[_group].command(name=_name, epilog=EXIT_CODES)(_command(*_options_and_place))


def main() -> None:
    """Run the command line."""
    prepare_streams()
    app()


if __name__ == "__main__":
    main()
