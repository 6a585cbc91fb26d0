"""Registers the commands, and runs the function of the one that the user types.

The class of a command's options describes it: its docstring is the help, its fields are the
options. Heavy modules are imported when a command runs, so that `--help` is fast.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from ragmonitor import __version__
from ragmonitor.cli.golden_options import (
    GenerateOptions,
    MineOptions,
)
from ragmonitor.cli.monitor_options import (
    IncidentOptions,
    McpOptions,
    RolloutOptions,
    StatusOptions,
)
from ragmonitor.cli.options import (
    CompareOptions,
    DemoOptions,
    DoctorOptions,
    GateOptions,
    ProbeOptions,
    RateOptions,
    RulesOptions,
    SampleOptions,
    ScoreOptions,
)
from ragmonitor.cli.service_options import (
    ReceiveOptions,
    WorkerOptions,
)
from ragmonitor.cli.terminal import EXIT_CODES, SOMETHING_WRONG, USAGE, prepare_streams, say


class Guarded(TyperGroup):
    """Prints an expected error in one line, without a traceback."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        from ragmonitor.runtime.errors import RagMonitorError

        try:
            return super().invoke(ctx)
        except RagMonitorError as error:
            from ragmonitor.cli.masking import Masker

            say(f"error: {Masker().text(str(error))}")
            raise typer.Exit(USAGE) from None
        except BrokenPipeError:  # the reader has closed the pipe, as `head` does
            _drop_buffered()
            raise typer.Exit(SOMETHING_WRONG) from None
        except OSError as error:  # a full disk behind `>`, a working directory that is gone
            place = f"{error.filename}: " if error.filename else ""
            say(f"error: {place}{error.strerror or error}")
            _drop_buffered()
            raise typer.Exit(SOMETHING_WRONG) from None


def _drop_buffered() -> None:
    """Discard the rest of standard output: nothing reads it any more."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


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
    "score": (ScoreOptions, "score:run"),
    "compare": (CompareOptions, "compare:run"),
    "status": (StatusOptions, "status:run"),
    "demo": (DemoOptions, "demo.run:run"),
    "doctor": (DoctorOptions, "doctor:run"),
    "gate": (GateOptions, "golden_gate:run"),
    "rollout": (RolloutOptions, "rollout:run"),
    "probe": (ProbeOptions, "probing_commands:run"),
    "rules": (RulesOptions, "rules:run"),
    "worker": (WorkerOptions, "services:work"),
    "receive": (ReceiveOptions, "services:receive"),
    "labels sample": (SampleOptions, "human_labels:sample"),
    "labels rate": (RateOptions, "human_labels:rate"),
    "mcp": (McpOptions, "mcp_server:run"),
    "incident": (IncidentOptions, "incident_reports:run"),
    "goldens generate": (GenerateOptions, "golden_files:generate_from_documents"),
    "goldens mine": (MineOptions, "golden_files:mine_traffic"),
}


def _command(options: type, place: str) -> Callable[..., None]:
    """Return a command that calls a function with the options and exits with its result.

    Args:
        options: The class of the command's options.
        place: The function, as `module:function` below `ragmonitor.cli`.
    """

    def command(**given: Any) -> None:
        module, _, function = place.partition(":")
        run = getattr(import_module(f"ragmonitor.cli.{module}"), function)
        raise typer.Exit(run(options(**given)))

    # Typer keeps the line breaks of a docstring: its paragraphs are to fill the terminal.
    paragraphs = inspect.cleandoc(options.__doc__ or "").split("\n\n")
    command.__doc__ = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    vars(command)["__signature__"] = inspect.signature(options)
    return command


def _register() -> None:
    groups = {"": app}
    for path, (options, place) in COMMANDS.items():
        group, _, name = path.rpartition(" ")
        if group not in groups:
            groups[group] = typer.Typer(
                no_args_is_help=True, help=f"{GROUPS[group]}\n\n{EXIT_CODES}"
            )
            app.add_typer(groups[group], name=group)
        groups[group].command(name=name, epilog=EXIT_CODES)(_command(options, place))


_register()


def main() -> None:
    """Run the command line."""
    prepare_streams()
    app()


if __name__ == "__main__":
    main()
