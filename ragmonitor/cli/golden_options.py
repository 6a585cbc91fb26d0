"""The options of `ragmonitor goldens ...`.

The annotations are objects and no texts, since the command line is built of them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from ragmonitor.cli.options import QuietOption

JsonOption = Annotated[bool, typer.Option("--json", help="One JSON object on standard output.")]
SourceArgument = Annotated[
    str,
    typer.Argument(
        metavar="[FILE|URL]",
        help="Reports that a monitor wrote (exporter jsonl:FILE), or the address of a running "
        "monitor with its page; by default as the settings say: the file if they name one.",
    ),
]
SinceOption = Annotated[
    str, typer.Option(help="Only answers of the last 90s, 15m, 12h or 2d; by default all.")
]
SliceOption = Annotated[
    list[str] | None,
    typer.Option("--slice", help="Only answers with this attribute: route=billing. Repeatable."),
]
TokenOption = Annotated[
    str | None,
    typer.Option(help="Of the page; by default server.ui_token as the settings say."),
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """The options of `ragmonitor goldens generate`."""

    documents: Annotated[
        str,
        typer.Argument(
            metavar="DOCS",
            help="A file or folder of Markdown, text, HTML, PDF or docx; or module:object, a "
            "vector store, index or retriever of LangChain or LlamaIndex.",
        ),
    ]
    output: Annotated[
        Path,
        typer.Option(
            "--output",
            "-o",
            help="The file of golden questions (JSON lines). What stands in it stays; the replies "
            "that were paid for stand in FILE.replies beside it.",
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
    mix: Annotated[
        str,
        typer.Option(
            help="Kinds with weights: single_fact=40,several_chunks=15,comparison=10,"
            "unanswerable=15,false_premise=10,follow_up=10, which is the default."
        ),
    ] = ""
    difficulty: Annotated[
        str, typer.Option(help="Difficulties with weights; easy=1,medium=2,hard=1 by default.")
    ] = ""
    language: Annotated[
        str,
        typer.Option(help="en, zh, or en,zh in turn; by default that of the chunk asked about."),
    ] = ""
    seed: Annotated[int, typer.Option(help="Of which chunks are asked about, and how.")] = 1
    query: Annotated[
        list[str] | None,
        typer.Option(help="What to ask a retriever first, to find its documents. Repeatable."),
    ] = None
    dropped: Annotated[
        Path | None, typer.Option(help="Write what was dropped here, with the reason (JSON lines).")
    ] = None
    concurrency: Annotated[
        int, typer.Option(min=1, max=64, help="Questions under way at once.")
    ] = 4
    api_base: Annotated[
        str | None, typer.Option(help="Address of an OpenAI-compatible server for the judge.")
    ] = None
    json_output: JsonOption = False
    quiet: QuietOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """The options of `ragmonitor goldens convert`."""

    source: Annotated[
        Path,
        typer.Argument(
            metavar="IN", help="Recognised by its columns: .jsonl, .json, .csv or .parquet."
        ),
    ]
    output: Annotated[
        Path, typer.Argument(metavar="OUT", help="Its suffix says whether JSON lines, JSON or CSV.")
    ]
    to: Annotated[
        Literal[
            "ragmonitor", "ragas", "deepeval", "langsmith", "langfuse", "phoenix", "csv", "parquet"
        ],
        typer.Option(help="The format of OUT; csv and parquet have our own columns."),
    ]
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace OUT if it is there already.")
    ] = False
    json_output: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewOptions:
    """The options of `ragmonitor goldens review`."""

    file: Annotated[Path, typer.Argument(help="Golden questions, JSON lines; written in place.")]
    reviewer: Annotated[
        str, typer.Option(help="Who decides; by default the user's name on this machine.")
    ] = ""
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Of the page, on 127.0.0.1; 0: any free one.")
    ] = 0
    csv_out: Annotated[
        Path | None, typer.Option(help="Instead of a page: write a CSV for a spreadsheet.")
    ] = None
    csv_in: Annotated[
        Path | None,
        typer.Option(help="Instead of a page: take question, answer and status from that CSV."),
    ] = None


@dataclass(frozen=True, slots=True, kw_only=True)
class MineOptions:
    """The options of `ragmonitor goldens mine`."""

    source: SourceArgument = ""
    output: Annotated[
        Path,
        typer.Option(
            "--output", "-o", help="Golden questions; candidates are added to what is there."
        ),
    ]
    count: Annotated[
        int, typer.Option("--count", "-n", min=1, max=10_000, help="How many candidates at most.")
    ] = 50
    since: SinceOption = ""
    slices: SliceOption = None
    reasons: Annotated[
        str,
        typer.Option(help="Only these: worst,disagreement,novel,unanswered,thumbs_down."),
    ] = ""
    slice_by: Annotated[
        str,
        typer.Option(
            help="Attributes whose values have their own worst answers: route,tenant. By default "
            "all that answers carry."
        ),
    ] = ""
    token: TokenOption = None
    json_output: JsonOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ExportOptions:
    """The options of `ragmonitor export`."""

    source: SourceArgument = ""
    worst: Annotated[
        int, typer.Option(min=1, max=10_000, help="How many answers at most, the worst first.")
    ] = 50
    since: SinceOption = ""
    slices: SliceOption = None
    format: Annotated[
        Literal["ragas", "deepeval", "langfuse", "jsonl"],
        typer.Option(help="Whose records; jsonl: golden questions to be reviewed."),
    ] = "jsonl"
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", help="JSON lines, or one list in a .json; else standard output."
        ),
    ] = None
    token: TokenOption = None
