"""The command line's interface: commands, options and exit codes. The work is done elsewhere.

Nothing heavy is imported before a command runs, so that `--help` is there at once.
"""

from __future__ import annotations

import os
import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, cast

import typer
from typer.core import TyperGroup

from ragmonitor import __version__
from ragmonitor.cli.human_labels import commands as labels_commands
from ragmonitor.cli.terminal import EXIT_CODES, SOMETHING_WRONG, USAGE, say

if TYPE_CHECKING:
    from ragmonitor.cli.record_files import Format
    from ragmonitor.cli.score_files import OutputFormat


class Guarded(TyperGroup):
    """Says what went wrong in one line, and never shows a traceback of an expected error."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command."""
        from ragmonitor.errors import RagMonitorError

        try:
            return super().invoke(ctx)
        except RagMonitorError as error:
            from ragmonitor.cli.masking import Masker

            say(f"error: {Masker().text(str(error))}")
            raise typer.Exit(USAGE) from None
        except BrokenPipeError:
            # Whoever read us has seen enough; what is still buffered has nowhere to go.
            sink = os.open(os.devnull, os.O_WRONLY)
            os.dup2(sink, sys.stdout.fileno())
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


class WrittenFormat(StrEnum):
    """What `score` writes."""

    AUTO = "auto"
    JSONL = "jsonl"
    CSV = "csv"
    RAGCHECKER = "ragchecker"


class FileFormat(StrEnum):
    """What the columns of a file are called."""

    AUTO = "auto"
    RAGMONITOR = "ragmonitor"
    RAGAS = "ragas"
    RAGCHECKER = "ragchecker"


FormatOption = Annotated[
    FileFormat,
    typer.Option(
        "--format",
        help="ragmonitor: question, contexts, answer. ragas: user_input, retrieved_contexts, "
        "response. ragchecker: query, response, retrieved_context. auto: by the first record.",
    ),
]
QuietOption = Annotated[
    bool, typer.Option("--quiet", "-q", help="Nothing on standard error but errors.")
]


def _named(form: FileFormat) -> Format | None:
    return None if form is FileFormat.AUTO else cast("Format", form.value)


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
    """Take the options that stand before a command."""


@app.command(epilog=EXIT_CODES)
def score(
    file: Annotated[
        str | None,
        typer.Argument(
            help="Recorded interactions: JSON lines, JSON, .csv, .parquet, .arrow, or a folder "
            "that the library datasets saved; - for standard input (JSON)."
        ),
    ] = None,
    *,
    compare: Annotated[
        tuple[str, str] | None,
        typer.Option(
            metavar="BEFORE AFTER",
            help="Instead of FILE: two files of the same questions, recorded or scored already; "
            "says by how much their means differ.",
        ),
    ] = None,
    judge: Annotated[
        str,
        typer.Option(
            help="'builtin', the built-in judge, or a litellm model such as openai/gpt-4o-mini."
        ),
    ] = "builtin",
    evaluators: Annotated[
        str,
        typer.Option(
            help="Comma-separated names or patterns ('ragchecker_*', '*'); by default a monitor's, "
            "and those by a reference answer for the records that have one."
        ),
    ] = "",
    form: FormatOption = FileFormat.AUTO,
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", help="Write here instead of to standard output."),
    ] = None,
    output_format: Annotated[
        WrittenFormat,
        typer.Option(
            help="auto: by the suffix of --output, .csv, .json (RAGChecker's result file), else "
            "JSON lines."
        ),
    ] = WrittenFormat.AUTO,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume", help="Go on with an output that was interrupted, or is over its budget."
        ),
    ] = False,
    overwrite: Annotated[
        bool,
        typer.Option("--overwrite", help="Replace an output that a model was paid for."),
    ] = False,
    budget_usd: Annotated[
        float | None,
        typer.Option(min=0.0, help="Most that a model as judge may spend in this run, in dollars."),
    ] = None,
    budget_tokens: Annotated[
        int | None,
        typer.Option(min=0, help="Most tokens that a model as judge may use in this run."),
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(min=1, max=256, help="Judge calls in flight.")
    ] = None,
    api_base: Annotated[
        str | None, typer.Option(help="Address of an OpenAI-compatible server for the judge.")
    ] = None,
    builtin_max_characters: Annotated[
        int | None,
        typer.Option(
            min=1_000,
            help="Most characters of question, contexts and answer together that the built-in "
            "judge reads; longer is too_long. Without it the setting builtin_max_characters.",
        ),
    ] = None,
    embedding: Annotated[
        str,
        typer.Option(
            help="A litellm embedding model for the scores that compare texts by vectors; none: "
            "pieces of words, without a network. What it costs counts against the judge's budget."
        ),
    ] = "",
    plugin: Annotated[
        list[str] | None,
        typer.Option(help="Module to import first: it may register evaluators. Repeatable."),
    ] = None,
    json_output: Annotated[
        bool,
        typer.Option(
            "--json",
            help="The summary as one JSON object instead of a table: on standard output with -o, "
            "else on standard error.",
        ),
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Score recorded answers offline, with the judges and evaluators of a live monitor.

    One line of JSON comes out for each line that goes in, in the same order: the scores, or why
    there are none, the risk, and a verdict with its evidence for every sentence. A line that
    cannot be read gives a line with its number and an error. The summary goes to standard error.
    Ctrl-C waits for the replies under way and ends with exit code 130; --resume goes on.
    """
    from ragmonitor.cli.compare import run as run_comparison
    from ragmonitor.cli.score import Options
    from ragmonitor.cli.score import run as run_score

    if (file is None) == (compare is None):
        raise typer.BadParameter("give a FILE to score, or --compare BEFORE AFTER")
    options = Options(
        file=file or "",
        compare=compare,
        judge=judge,
        evaluators=tuple(n.strip() for n in evaluators.split(",") if n.strip()),
        form=_named(form),
        output=output,
        output_form=None
        if output_format is WrittenFormat.AUTO
        else cast("OutputFormat", output_format.value),
        resume=resume,
        overwrite=overwrite,
        budget_usd=budget_usd,
        budget_tokens=budget_tokens,
        concurrency=concurrency,
        api_base=api_base,
        builtin_max_characters=builtin_max_characters,
        embedding=embedding,
        plugins=tuple(plugin or ()),
        json_summary=json_output,
        quiet=quiet,
    )
    if compare is not None:
        raise typer.Exit(run_comparison(options, compare))
    raise typer.Exit(run_score(options))


@app.command(epilog=EXIT_CODES)
def replay(
    file: Annotated[
        str, typer.Argument(help="JSON lines of recorded interactions; - for standard input.")
    ],
    *,
    framework: Annotated[str, typer.Option(help="langchain or llama_index.")],
    rate: Annotated[
        float | None,
        typer.Option(min=0.001, help="Records per second; by default as fast as they go."),
    ] = None,
    limit: Annotated[int | None, typer.Option(min=1, help="Stop after so many records.")] = None,
    form: FormatOption = FileFormat.AUTO,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write every report here, as JSON lines.")
    ] = None,
    metrics: Annotated[
        bool, typer.Option("--metrics", help="Serve /metrics while it runs.")
    ] = False,
    json_output: Annotated[
        bool, typer.Option("--json", help="The outcome as one JSON object on standard output.")
    ] = False,
    quiet: QuietOption = False,
) -> None:
    """Drive recorded interactions through a real framework, and check that nothing is lost.

    Each record is answered by a real chain or query engine with the integration attached, and
    compared with what the monitor captured: question, contexts in their order, answer. Traces go
    where OTEL_EXPORTER_OTLP_ENDPOINT says. Exit code 1 unless all are accounted for.
    """
    from ragmonitor.cli.replay import Options, run

    raise typer.Exit(
        run(
            Options(
                file=file,
                framework=framework,
                form=_named(form),
                rate=rate,
                limit=limit,
                output=output,
                serve_metrics=metrics,
                json_summary=json_output,
                quiet=quiet,
            )
        )
    )


@app.command(epilog=EXIT_CODES)
def demo(
    *,
    seconds: Annotated[
        float | None,
        typer.Option(min=1.0, help="End after so long; by default it runs until Ctrl-C."),
    ] = None,
    json_output: Annotated[
        bool,
        typer.Option(
            "--json", help="No picture; one JSON object as the last line. Needs --seconds."
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(
            help="A litellm model that answers, instead of the built-in one. Costs money."
        ),
    ] = None,
    rate: Annotated[
        float, typer.Option(min=0.1, max=1000.0, help="Questions per second, over all frameworks.")
    ] = 8.0,
    port: Annotated[
        int | None,
        typer.Option(
            min=0,
            max=65535,
            help="Port of /metrics; by default 9464, or a free one if it is taken.",
        ),
    ] = None,
    spike_share: Annotated[
        float, typer.Option(min=0.0, max=1.0, help="Share of answers spoiled during the spike.")
    ] = 0.6,
    seed: Annotated[int, typer.Option(help="Of the questions and of what is spoiled.")] = 1,
) -> None:
    """Watch a live RAG application being monitored, with a spike of hallucinations.

    Real LangChain and LlamaIndex applications answer questions about this project from its own
    documents, under a real monitor with a real /metrics endpoint. After a while many answers are
    spoiled on purpose, and then it recovers. Needs no key and no network.
    """
    if json_output and seconds is None:
        say("error: --json needs --seconds: the object comes at the end")
        raise typer.Exit(USAGE)
    from ragmonitor.cli.demo.run import Options, run

    raise typer.Exit(
        run(
            Options(
                seconds=seconds,
                json=json_output,
                model=model,
                rate=rate,
                port=port,
                spike_share=spike_share,
                seed=seed,
            )
        )
    )


@app.command(epilog=EXIT_CODES)
def doctor(
    json_output: Annotated[
        bool, typer.Option("--json", help="Everything as one JSON object on standard output.")
    ] = False,
) -> None:
    """Check settings, versions, endpoints, and whether the judges recognise a hallucination.

    With a judge configured, one call is made to it, and its cost is shown.
    """
    from ragmonitor.cli.doctor import run

    raise typer.Exit(run(json_output=json_output))


@app.command(epilog=EXIT_CODES)
def explain(
    address: Annotated[
        str | None,
        typer.Argument(
            metavar="URL",
            help="Of a running monitor's /metrics; host and port are enough. By default as the "
            "settings say: http://127.0.0.1:9464/metrics.",
        ),
    ] = None,
    *,
    service: Annotated[str | None, typer.Option(help="Only this one.")] = None,
    judge_rate: Annotated[
        float | None,
        typer.Option(
            min=0.0001, max=1.0, help="The setting, where a budget hides it; for the last table."
        ),
    ] = None,
    answers_per_hour: Annotated[
        float | None,
        typer.Option(min=0.01, help="Plan for this traffic instead of that of now."),
    ] = None,
    json_output: Annotated[
        bool, typer.Option("--json", help="One JSON object on standard output.")
    ] = False,
) -> None:
    """Say what the numbers of a running monitor rest on, and what they would be at other budgets.

    Reads its state once, beside /metrics: estimates and what they are made of, sampling, money,
    the judge, alarms and their evidence, what comes in; then how wide intervals would be and how
    long alarms would take at other budgets. docs/statistics.md says what each number means.
    """
    from ragmonitor.cli.explain import Options, run

    raise typer.Exit(
        run(
            Options(
                url=address,
                service=service,
                judge_rate=judge_rate,
                answers_per_hour=answers_per_hour,
                json=json_output,
            )
        )
    )


app.add_typer(labels_commands, name="labels")


class RuleFormat(StrEnum):
    """What `rules` writes."""

    PROMETHEUS = "prometheus"
    KUBERNETES = "kubernetes"


@app.command(epilog=EXIT_CODES)
def rules(
    *,
    service: Annotated[
        list[str] | None,
        typer.Option(help="Only of this service; repeatable. By default of each that is scraped."),
    ] = None,
    false_alarm_every: Annotated[
        str | None,
        typer.Option(
            metavar="TIME",
            help="Evidence that pages: as good a time is paged at most once in so long (30d, 2w). "
            "At most the monitor's own false_alarm_every_days: what it raises always pages.",
        ),
    ] = None,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            metavar="SIGNAL=LEVEL",
            help="An objective, with its error budget: hallucination=0.05, faithfulness=0.95, "
            "'toxicity<=0.02'. Repeatable. Without any: hallucination=0.05 "
            "and faithfulness=0.95, held only against what a model judged.",
        ),
    ] = None,
    runbook_url: Annotated[
        str | None,
        typer.Option(help="Where docs/runbooks is published; by default that path itself."),
    ] = None,
    dashboard_url: Annotated[
        str | None,
        typer.Option(help="Grafana's address; by default http://127.0.0.1:3000."),
    ] = None,
    form: Annotated[
        RuleFormat,
        typer.Option("--format", help="A rule file, or a PrometheusRule for the operator."),
    ] = RuleFormat.PROMETHEUS,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write here, not to standard output.")
    ] = None,
) -> None:
    """Print recording and alerting rules for Prometheus, for one's own objectives.

    Means with intervals over 5 minutes to 3 days, and alerts that page, file a ticket or inform,
    each with a runbook. An error budget gets those burn rates that it can reach at all.
    """
    from ragmonitor.cli.rules import Options, run

    raise typer.Exit(
        run(
            Options(
                services=tuple(service or ()),
                false_alarm_every=false_alarm_every,
                objectives=tuple(objective or ()),
                runbook_url=runbook_url,
                dashboard_url=dashboard_url,
                form=form.value,
                output=output,
            )
        )
    )


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
