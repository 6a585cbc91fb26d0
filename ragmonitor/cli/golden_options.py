"""The options of `ragmonitor goldens ...`.

The annotations are objects and no texts, since the command line is built of them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from ragmonitor.cli.options import ApiBaseOption, JsonOption, QuietOption


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Make golden questions of documents: a model writes them, and checks each on its own.

    A question is kept if its chunk alone answers it as its reference answer does. One in five is
    to be unanswerable, and is kept if no chunk that is near answers it. The rest is dropped, with
    the reason. Each reply is kept, so that a run that was interrupted or has spent its budget goes
    on and pays nothing twice.
    """

    documents: Annotated[
        Path,
        typer.Argument(metavar="DOCS", help="A file or folder of Markdown or text."),
    ]
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The golden questions: JSON lines, or a .csv for spreadsheets. What stands "
            "in it stays; paid replies stand in FILE.replies beside it.",
        ),
    ]
    judge: Annotated[
        str, typer.Option(help="Who writes and checks: a litellm model, openai/gpt-4o-mini.")
    ]
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=10_000, help="How many questions.")
    ] = 100
    budget_usd: Annotated[
        float | None,
        typer.Option(min=0.0, help="Most that all runs with this output may spend, in dollars."),
    ] = None
    budget_tokens: Annotated[
        int | None, typer.Option(min=0, help="Most tokens that all runs with this output may use.")
    ] = None
    language: Annotated[
        str,
        typer.Option(help="en, zh, or en,zh in turn; by default that of the chunk asked about."),
    ] = ""
    seed: Annotated[int, typer.Option(help="Of which chunks are asked about.")] = 1
    concurrency: Annotated[
        int, typer.Option(min=1, max=64, help="Questions under way at once.")
    ] = 4
    api_base: ApiBaseOption = None
    json_output: JsonOption = False
    quiet: QuietOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MineOptions:
    """Take candidates for golden questions out of live traffic, for a person to review.

    The worst answers, those of which two judges say opposite things, novel questions,
    unanswered ones, and those that people found bad; diverse, and none that is known already. The
    reference answer is the application's own until somebody puts it right: before it is accepted
    no candidate is asked. Exit code 1 if there is none.
    """

    source: Annotated[
        str,
        typer.Argument(
            metavar="[FILE]",
            help="Reports that a monitor wrote (exporter jsonl:FILE); by default the file that the "
            "settings name.",
        ),
    ] = ""
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="Golden questions, JSON lines or a .csv; candidates are added to what is there.",
        ),
    ]
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=10_000, help="How many candidates at most.")
    ] = 50
    json_output: JsonOption = False
