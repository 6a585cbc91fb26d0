"""The command line's interface: commands, options and exit codes. The work is done elsewhere.

Nothing heavy is imported before a command runs, so that `--help` is there at once.
"""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable
from functools import wraps
from typing import Annotated, Any, TypeVar

import typer
from typer.core import TyperGroup

from ragmonitor import __version__
from ragmonitor.cli.golden_options import (
    ConvertOptions,
    ExportOptions,
    GenerateOptions,
    MineOptions,
    ReviewOptions,
)
from ragmonitor.cli.options import (
    DemoOptions,
    DoctorOptions,
    DocumentsOptions,
    EstimatorOptions,
    ExplainOptions,
    GateOptions,
    IncidentExportOptions,
    IncidentListOptions,
    IncidentShowOptions,
    LearnedOptions,
    McpOptions,
    ProbeOptions,
    RateOptions,
    ReceiveOptions,
    ReplayOptions,
    RulesOptions,
    SampleOptions,
    ScoreOptions,
    StreamOptions,
    TailOptions,
    TopOptions,
    WorkerOptions,
)
from ragmonitor.cli.terminal import EXIT_CODES, SOMETHING_WRONG, USAGE, say


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


Record = TypeVar("Record")


def command(
    group: typer.Typer, options: Callable[..., Record]
) -> Callable[[Callable[[Record], int]], Callable[[Record], int]]:
    """Return what makes a command of a function from a record of options to an exit code."""

    def register(run: Callable[[Record], int]) -> Callable[[Record], int]:
        @wraps(run)
        def callback(**given: Any) -> None:
            raise typer.Exit(run(options(**given)))

        vars(callback)["__signature__"] = inspect.signature(options)
        group.command(name=run.__name__.strip("_"), epilog=EXIT_CODES)(callback)
        return run

    return register


@command(app, ScoreOptions)
def score(options: ScoreOptions) -> int:
    """Score recorded answers offline, with the judges and evaluators of a live monitor.

    One line of JSON comes out for each line that goes in, in the same order: the scores, or why
    there are none, the risk, and a verdict with its evidence for every sentence. A line that
    cannot be read gives a line with its number and an error. The summary goes to standard error.
    Ctrl-C waits for the replies under way and ends with exit code 130; --resume goes on.
    """
    from ragmonitor.cli import compare, score

    if bool(options.file) == bool(options.compare):
        raise typer.BadParameter("give a FILE to score, or --compare BEFORE AFTER")
    return score.run(options) if options.file else compare.run(options)


@command(app, ReplayOptions)
def replay(options: ReplayOptions) -> int:
    """Drive recorded interactions through a real framework, and check that nothing is lost.

    Each record is answered by a real chain or query engine with the integration attached, and
    compared with what the monitor captured: question, contexts in their order, answer. Traces go
    where OTEL_EXPORTER_OTLP_ENDPOINT says. Exit code 1 unless all are accounted for.
    """
    from ragmonitor.cli.replay import run

    return run(options)


@command(app, DemoOptions)
def demo(options: DemoOptions) -> int:
    """Watch a live RAG application being monitored, with a spike of hallucinations.

    Real LangChain and LlamaIndex applications answer questions about this project from its own
    documents, under a real monitor with a real /metrics endpoint. After a while many answers are
    spoiled on purpose, and then it recovers. Needs no key and no network.
    """
    from ragmonitor.cli.demo.run import run

    return run(options)


@command(app, DoctorOptions)
def doctor(options: DoctorOptions) -> int:
    """Check settings, versions, endpoints, and whether the judges recognise a hallucination.

    With a judge configured, one call is made to it, and its cost is shown.
    """
    from ragmonitor.cli.doctor import run

    return run(options)


@command(app, ExplainOptions)
def explain(options: ExplainOptions) -> int:
    """Say what the numbers of a running monitor rest on, and what they would be at other budgets.

    Reads its state once, beside /metrics: estimates and what they are made of, sampling, money,
    the judge, alarms and their evidence, what comes in; then how wide intervals would be and how
    long alarms would take at other budgets. docs/statistics.md says what each number means.
    """
    from ragmonitor.cli.explain import run

    return run(options)


@command(app, GateOptions)
def gate(options: GateOptions) -> int:
    """Decide whether a version may be rolled out, and say it by the exit code.

    With GOLDENS it asks a release golden questions and compares the scores with those of a
    baseline; without, it waits until live versions are told apart. 0 better; 3 equivalent, at most
    --max-worse (--max-drop) worse; 4 worse, by more than that; 5 undecided.
    """
    if options.goldens is not None:
        from ragmonitor.cli.golden_gate import run
    else:
        from ragmonitor.cli.gate import run

    return run(options)


@command(app, ProbeOptions)
def probe(options: ProbeOptions) -> int:
    """Ask a running service golden questions, again and again, and serve the scores.

    Needs no monitor in the service; if there is one, it keeps these questions apart by their
    header. Ctrl-C or SIGTERM ends it. Exit code 1 if nothing was answered. docs/goldens.md says
    what the series mean, and when they raise an alarm.
    """
    from ragmonitor.cli.probing_commands import run

    return run(options)


@command(app, DocumentsOptions)
def documents(options: DocumentsOptions) -> int:
    """Print which documents go with bad answers, as a running monitor knows them.

    Misleading ones, noise, questions for which nothing relevant was found, and chunks that
    contradict each other; then what each retrieval of an answer brought. Read off the monitor's
    page, which needs server.ui. docs/causes.md says how documents are named.
    """
    from ragmonitor.cli.document_lists import run

    return run(options)


@command(app, TopOptions)
def top(options: TopOptions) -> int:
    """Watch a running monitor in a terminal: rates with intervals, alarms, answers.

    Of the answers the newest, and the last bad ones. Reads the page, which the monitor serves with
    server.ui=true.
    """
    from ragmonitor.cli import watching

    return watching.top(options)


@command(app, TailOptions)
def tail(options: TailOptions) -> int:
    """Print the answers of a running monitor as they come, with what is not supported.

    Begins with those that the page keeps. Reads the page, which the monitor serves with
    server.ui=true; an answer comes again when another judge has scored it, and when it is given
    to another user.
    """
    from ragmonitor.cli import watching

    return watching.tail(options)


@command(app, LearnedOptions)
def learned(options: LearnedOptions) -> int:
    """Show, export or forget what a service's predictions have learned from verdicts.

    Reads the service's file in the state folder; no monitor need run. Without --json the largest
    coefficients by name: what each adds to the log odds that the judge finds an answer bad. Exit
    code 1 if nothing was learned.
    """
    from ragmonitor.cli.learned import run

    return run(options)


@command(app, RulesOptions)
def rules(options: RulesOptions) -> int:
    """Print recording and alerting rules for Prometheus, for one's own objectives.

    Means with intervals over 5 minutes to 3 days, and alerts that page, file a ticket or inform,
    each with a runbook. An error budget gets those burn rates that it can reach at all.
    """
    from ragmonitor.cli.rules import run

    return run(options)


@command(app, WorkerOptions)
def worker(options: WorkerOptions) -> int:
    """Score what applications put on a stream: `Monitor(stream=...)`.

    One worker for each service: it keeps the statistics, the budget and the alarms, serves
    /metrics and the page, and emits traces, as the settings say. Records are settled once they are
    counted. A record that three workers died of is buried. Ctrl-C or SIGTERM ends it in order.

    With --fleet as many as are started: each reads and judges, and `ragmonitor estimator` keeps the
    numbers.
    """
    if options.fleet:
        from ragmonitor.cli import fleet_commands

        return fleet_commands.work(options)
    from ragmonitor.cli import stream_records

    return stream_records.work(options)


@command(app, EstimatorOptions)
def estimator(options: EstimatorOptions) -> int:
    """Keep the numbers of a service whose answers several workers score: `worker --fleet`.

    It keeps the statistics and the alarms, serves /metrics and the page, and exports reports. Start
    a second one to stand by: it takes over within 10 s, with the same evidence and counts.
    """
    from ragmonitor.cli import fleet_commands

    return fleet_commands.estimate(options)


@command(app, ReceiveOptions)
def receive(options: ReceiveOptions) -> int:
    """Score applications in any language: take the spans that they send by OTLP.

    Spans in the conventions of OpenInference, OpenLLMetry and OpenTelemetry's GenAI become
    interactions; their scores go out as linked spans, to /metrics and to the page, as the settings
    say. Ctrl-C or SIGTERM ends it in order. docs/receive.md says how applications are set up.
    """
    from ragmonitor.cli.receiving import run

    return run(options)


stream = typer.Typer(
    no_args_is_help=True,
    help=f"The stream between applications and the worker, and what was buried.\n\n{EXIT_CODES}",
)
app.add_typer(stream, name="stream")


@command(stream, StreamOptions)
def inspect_(options: StreamOptions) -> int:
    """Show how much waits, and the oldest hundred buried records: why, and their size; no texts."""
    from ragmonitor.cli import stream_records

    return stream_records.inspect(options)


@command(stream, StreamOptions)
def replay_(options: StreamOptions) -> int:
    """Put all buried records back on the stream, to be scored after what waits."""
    from ragmonitor.cli import stream_records

    return stream_records.replay(options)


@command(stream, StreamOptions)
def purge(options: StreamOptions) -> int:
    """Delete all buried records."""
    from ragmonitor.cli import stream_records

    return stream_records.purge(options)


labels = typer.Typer(
    no_args_is_help=True,
    help="People's verdicts on judged answers: draw answers to read, and correct the judged rate "
    f"by what people say.\n\n{EXIT_CODES}",
)
app.add_typer(labels, name="labels")


@command(labels, SampleOptions)
def sample(options: SampleOptions) -> int:
    """Draw judged answers for people to read, and write them as a CSV.

    60 % of them are ones that the judge found hallucinated, where there are so many; within each
    kind every answer is as likely as any other. Write yes (something in the answer is not borne
    out by the chunks) or no into the column `human`; leave it empty where you cannot tell. The
    judge's verdict is in the column `sealed`, which people cannot read and `labels rate` can.
    """
    from ragmonitor.cli import human_labels

    return human_labels.sample(options)


@command(labels, RateOptions)
def rate(options: RateOptions) -> int:
    """Say what people's labels make of the judged hallucination rate.

    The corrected rate is judged rate * PPV + (1 - judged rate) * FOR: the share that people find
    hallucinated among those that the judge found so, and among the others. Exit code 1 if there
    are too few labels for a corrected rate (100, and some of each kind).
    """
    from ragmonitor.cli import human_labels

    return human_labels.rate(options)


@command(app, McpOptions)
def mcp(options: McpOptions) -> int:
    """Let an assistant read a running monitor: a server of the Model Context Protocol.

    Its tools read rates with their intervals, alarms, incidents, slices, documents, changes and
    the worst answers, and change nothing. Texts come only as far as the monitor's `content` lets
    them onto its page.
    """
    from ragmonitor.cli import mcp_server

    return mcp_server.run(options)


incidents = typer.Typer(
    no_args_is_help=True,
    help="Incidents: what moved, since when and because of what, from the first alarm to the "
    f"last.\n\n{EXIT_CODES}",
)
app.add_typer(incidents, name="incident")


@command(incidents, IncidentListOptions)
def list_(options: IncidentListOptions) -> int:
    """List the incidents that are kept, the newest first.

    From the state folder, or with --url from a running monitor that serves its page. Exit code 1
    if there is none.
    """
    from ragmonitor.cli import incident_reports

    return incident_reports.list_all(options)


@command(incidents, IncidentShowOptions)
def show(options: IncidentShowOptions) -> int:
    """Print one incident as Markdown: what moved, its cause, the worst answers, what to ask next.

    Of the answers it shows what the monitor's setting `content` permitted when it kept them.
    """
    from ragmonitor.cli import incident_reports

    return incident_reports.show(options)


@command(incidents, IncidentExportOptions)
def export(options: IncidentExportOptions) -> int:
    """Write one incident to a file: Markdown, an HTML page that needs nothing else, or JSON."""
    from ragmonitor.cli import incident_reports

    return incident_reports.export(options)


@command(app, ExportOptions)
def export_(options: ExportOptions) -> int:
    """Write the worst answers of live traffic as test cases of RAGAS, DeepEval or Langfuse.

    From the file of reports or the page of a running monitor, the worst first, each question once.
    What was answered stands where the tool keeps answers, never as the right one; as jsonl they are
    golden questions that await their review. Exit code 1 if no answer is bad.
    """
    from ragmonitor.cli.golden_files import export_worst

    return export_worst(options)


goldens = typer.Typer(
    no_args_is_help=True,
    help="Golden questions: questions with known answers, made of documents or taken from live "
    f"traffic.\n\n{EXIT_CODES}",
)
app.add_typer(goldens, name="goldens")


@command(goldens, GenerateOptions)
def generate(options: GenerateOptions) -> int:
    """Make golden questions of documents: a model writes them, and reads each again on its own.

    A question is kept if its chunks alone answer it as its reference answer does, and it is clear
    and no general knowledge; what is to be unanswerable must be answered by no chunk that is near,
    a false premise must be denied. The rest is dropped, with the reason. Each reply is kept, so
    that a run that was interrupted or has spent its budget goes on and pays nothing twice.
    """
    from ragmonitor.cli.golden_files import generate_from_documents

    return generate_from_documents(options)


@command(goldens, MineOptions)
def mine(options: MineOptions) -> int:
    """Take candidates for golden questions out of live traffic, for a person to review.

    The worst answers of each slice, those of which two judges say opposite things, novel questions,
    unanswered ones, and those that people found bad; diverse, and none that is known already. The
    reference answer is the application's own until somebody puts it right: before it is accepted
    no candidate is asked. Exit code 1 if there is none.
    """
    from ragmonitor.cli.golden_files import mine_traffic

    return mine_traffic(options)


@command(goldens, ReviewOptions)
def review(options: ReviewOptions) -> int:
    """Accept, edit and reject golden questions on a page of this machine, or by a CSV.

    Keys: a accepts, r rejects, e edits, j and k move. Each decision is written at once, with who
    made it and when. The page's address, with its token, goes to standard output.
    """
    from ragmonitor.cli.golden_files import review_file

    return review_file(options)


@command(goldens, ConvertOptions)
def convert(options: ConvertOptions) -> int:
    """Write golden questions in the dataset format of another tool, or read them out of it.

    RAGAS, DeepEval, LangSmith, Langfuse, Phoenix, CSV and Parquet. What the format has no place for
    is said. Exit code 1 if a record of IN is no golden question.
    """
    from ragmonitor.cli.golden_files import convert_file

    return convert_file(options)


def main() -> None:
    """Run the command line."""
    app()


if __name__ == "__main__":
    main()
