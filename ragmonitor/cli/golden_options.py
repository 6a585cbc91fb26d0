"""The options of `ragmonitor goldens ...`.

The annotations are objects and no texts, since the command line is built of them.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import typer

from ragmonitor.cli.monitor_options import TokenOption
from ragmonitor.cli.options import ApiBaseOption, JsonOption, QuietOption

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


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerateOptions:
    """Make golden questions of documents: a model writes them, and reads each again on its own.

    A question is kept if its chunks alone answer it as its reference answer does, and it is clear
    and no general knowledge; what is to be unanswerable must be answered by no chunk that is near,
    a false premise must be denied. The rest is dropped, with the reason. Each reply is kept, so
    that a run that was interrupted or has spent its budget goes on and pays nothing twice.
    """

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
    api_base: ApiBaseOption = None
    json_output: JsonOption = False
    quiet: QuietOption = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ConvertOptions:
    """Write golden questions in the dataset format of another tool, or read them out of it.

    RAGAS, DeepEval, LangSmith, Langfuse, Phoenix, CSV and Parquet. What the format has no place for
    is said. Exit code 1 if a record of IN is no golden question.
    """

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
    """Accept, edit and reject golden questions on a page of this machine, or by a CSV.

    Keys: a accepts, r rejects, e edits, j and k move. Each decision is written at once, with who
    made it and when. The page's address, with its token, goes to standard output.
    """

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
    """Take candidates for golden questions out of live traffic, for a person to review.

    The worst answers of each slice, those of which two judges say opposite things, novel questions,
    unanswered ones, and those that people found bad; diverse, and none that is known already. The
    reference answer is the application's own until somebody puts it right: before it is accepted
    no candidate is asked. Exit code 1 if there is none.
    """

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
    """Write the worst answers of live traffic as test cases of RAGAS, DeepEval or Langfuse.

    From the file of reports or the page of a running monitor, the worst first, each question once.
    What was answered stands where the tool keeps answers, never as the right one; as jsonl they are
    golden questions that await their review. Exit code 1 if no answer is bad.
    """

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
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the output if it is there already.")
    ] = False
    token: TokenOption = None
