"""No replaced name is left: see docs/glossary.md for the words that are used instead.

The names are put together here, so that this file does not hold them itself.
"""

from __future__ import annotations

import ast
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SUFFIXES = {".py", ".md", ".js", ".css", ".html", ".json", ".yml", ".yaml", ".toml", ".tsx"}
LEFT_OUT = (
    "CHANGELOG.md",
    "docs/decisions/",
    "tests/unit/test_settings.py",
    "tests/unit/test_vocabulary.py",
)
"""The changelog has the table of renamed names, decisions say what was decided at their time, and
the settings refuse old names."""


def joined(*parts: str) -> str:
    """Return a name that does not stand in this file."""
    return "".join(parts)


SERIES = tuple(
    joined("ragmonitor", "_", *parts)
    for parts in (
        ("alarm", "_tolerate"),
        ("alarm", "_evidence_days"),
        ("alarm", "_line_days"),
        ("warning", "_evidence_days"),
        ("embedded", "_auroc"),
        ("judge_sampling_rate", "_most"),
        ("novel", "_question_ratio"),
        ("question", "_psi"),
    )
)
ATTRIBUTES = (
    joined("ragmonitor.alarm.", "evidence_days"),
    joined("ragmonitor.alarm.", "tolerate"),
)
ALERTS = (joined("RagMonitor", "RulerMoved"), joined("RagMonitor", "QuestionsNovel"))
LABEL_VALUES = (joined("novel", "_question"), joined("lexi", "cal@"), joined('"lexi', 'cal"'))
SETTINGS = tuple(
    joined(*parts)
    for parts in (
        ("attribute_bytes", "_most"),
        ("span_bytes", "_most"),
        ("open_runs", "_most"),
        ("judge_max", "_pending_most"),
        ("warning", "_boost"),
        ("alarm_line", "_days"),
        ("--", "tolerate"),
    )
)
PYTHON = tuple(
    joined(*parts)
    for parts in (
        ("Dis", "closure"),
        ("Flip", "Rate"),
        ("Embedded", "Judge"),
        ("Fore", "ignSpan"),
        ("Cause", "Settings"),
        ("Notify", "Settings"),
        ("Redaction", "Settings"),
    )
)
FLAT_SETTINGS = (
    "ALARMS ANCHORS ANCHORS_PER_DAY BUDGET_CALLS_PER_DAY BUDGET_CALLS_PER_HOUR "
    "BUDGET_TOKENS_PER_DAY BUDGET_TOKENS_PER_HOUR BUDGET_USD_PER_DAY BUDGET_USD_PER_HOUR "
    "CONTENT_HASH_KEY FALSE_ALARM_EVERY_DAYS GROUP_BY HUMAN_LABELS INTERACTION JSONL "
    "JUDGE_ALWAYS JUDGE_API_BASE JUDGE_CACHE_SIZE JUDGE_CONCURRENCY JUDGE_FALLBACKS "
    "JUDGE_FLOOR_BY JUDGE_RATE JUDGE_REPEAT_RATE JUDGE_TIMEOUT_S JUDGE_WAIT_S "
    "LANGFUSE_URL LINK_TRACES PHOENIX_URL PHOENIX_API_KEY PROMETHEUS_HOST PROMETHEUS_PORT "
    "QUEUE_SIZE ROOT_NAMES SECOND_JUDGE STATE_DIR TOLERATE TRACES UI UI_TOKEN UI_TRACE_URL "
    "CAUSES__LEAVE_OUT NOTIFY REDACTION"
)
"""Variables of settings that stand in a group now."""
VARIABLES = tuple(joined("RAGMONITOR", "_", name) for name in FLAT_SETTINGS.split())
REPLACED_DEFINITIONS = frozenset(
    [
        "Allowance",
        "Bench",
        "Chance",
        "Gathering",
        "Judging",
        "Outlook",
        "Purse",
        "Room",
        "Settled",
        "Tab",
        "Watch",
        "attend",
        "dialect",
        "outlook",
        "ruler",
        "settling",
        "speaks",
        "strangers",
        "tend",
        "tolerate",
        "warning_boost",
    ]
)
"""Classes, functions, parameters and attributes that have the field's names now. Elsewhere, as in
comments, these are ordinary words."""
REPLACED_MODULES = frozenset(
    [
        "draws",
        "embedded",
        "evidence",
        "foreign",
        "given",
        "keeping",
        "lexical",
        "places",
        "ruler",
        "settling",
        "tally",
        "tolerate",
        "warning",
    ]
)
MOST_AND_LEAST = (joined("s", "_most"), joined("s", "_least"))
"""Bounds begin with `max_` or `min_`."""
SOURCE = re.compile(r"(ragmonitor|integrations/\w+/ragmonitor_\w+)/.*\.py$")
WORDS = (
    joined("embedded", " judge"),
    joined("embedded", " score"),
    joined("novel", " question"),
)
TOLERATED = (joined("is", " tolerated"), joined("as", " tolerated"))
CHINESE = (
    joined("答", "案"),
    joined("追", "踪"),
    joined("词", "元"),
    joined("断", "言"),
    joined("容", "许值"),
    joined("锚", "点"),
    joined("新颖", "问题"),
)
FOR_PEOPLE = (
    "deploy/",
    "docs/",
    "ragmonitor/export/",
    "ragmonitor/rules/",
    "README.md",
    "README.zh-CN.md",
)
"""Where the Chinese words are ours; elsewhere they are an application's texts."""
PAGES = tuple(
    joined("docs/", *parts)
    for parts in (
        ("beside", "-others.md"),
        ("stran", "gers.md"),
        ("num", "bers.md"),
        ("embedded", "-judge.md"),
        ("foreign", "-spans.md"),
        ("runbooks/ruler", "-moved.md"),
        ("runbooks/questions", "-novel.md"),
    )
)


@pytest.fixture(scope="module")
def texts() -> dict[str, str]:
    """Return every text file of the repository by its path."""
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.splitlines()
    paths = [name for name in listed if not name.startswith(LEFT_OUT)]
    return {
        name: (ROOT / name).read_text(encoding="utf-8", errors="replace")
        for name in paths
        if Path(name).suffix in SUFFIXES and (ROOT / name).is_file()
    }


@pytest.mark.parametrize(
    "name", [*SERIES, *ATTRIBUTES, *ALERTS, *LABEL_VALUES, *SETTINGS, *VARIABLES, *PYTHON, *WORDS]
)
def test_a_replaced_name_is_gone(texts: dict[str, str], name: str) -> None:
    """From code, tests, deployment, pages and docs."""
    right_edge = r"(?!\w)" if name[-1].isalnum() else ""
    pattern = re.compile(r"(?<![\w-])" + re.escape(name) + right_edge)
    named = {path: text for path, text in texts.items() if name in text}  # which is much faster
    assert [path for path, text in named.items() if pattern.search(text)] == []


def _defined(tree: ast.AST) -> Iterator[str]:
    for node in ast.walk(tree):
        match node:
            case ast.ClassDef(name=name) | ast.FunctionDef(name=name):
                yield name
            case ast.AsyncFunctionDef(name=name) | ast.arg(arg=name):
                yield name
            case ast.Name(id=name, ctx=ast.Store()) | ast.Attribute(attr=name, ctx=ast.Store()):
                yield name


def test_a_replaced_name_is_not_defined_again(texts: dict[str, str]) -> None:
    """In the package and the integrations; a name's leading underscores do not matter."""
    sources = {path: text for path, text in texts.items() if SOURCE.match(path)}
    assert sources
    assert {
        f"{path}: {name}"
        for path, text in sources.items()
        for name in _defined(ast.parse(text))
        if name.lstrip("_") in REPLACED_DEFINITIONS or name.endswith(MOST_AND_LEAST)
    } == set()
    assert [path for path in sources if Path(path).stem in REPLACED_MODULES] == []


@pytest.mark.parametrize("word", [*TOLERATED, *CHINESE])
def test_a_replaced_word_is_gone_from_texts_for_people(texts: dict[str, str], word: str) -> None:
    """From pages, dashboards, alerts and docs."""
    shown = {path: text for path, text in texts.items() if path.startswith(FOR_PEOPLE)}
    assert [path for path, text in shown.items() if word in text] == []


@pytest.mark.parametrize("page", PAGES)
def test_a_renamed_page_is_gone(page: str) -> None:
    """It has another name now."""
    assert not (ROOT / page).exists()
