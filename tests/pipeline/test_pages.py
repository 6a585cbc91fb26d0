"""What the README and the how-tos tell people to paste, run as it stands."""

import re
import subprocess
import sys

import pytest

from tests.support.scripts import ROOT, run_python

pytestmark = pytest.mark.slow

PAGES = (*ROOT.glob("README*.md"), *sorted((ROOT / "docs").rglob("*.md")))
BLOCK = re.compile(r"<!-- runs: (\w+) -->\n```python\n(.*?)```(?:\n\n```\n(.*?)```)?", re.DOTALL)
FOUND = {
    f"{page.stem} {name}": (code, printed)
    for page in PAGES
    for name, code, printed in BLOCK.findall(page.read_text(encoding="utf-8"))
}
"""By page and name: the code, and what the page says that it prints (empty: it does not say)."""
COUNTED = """
from prometheus_client import generate_latest
text = generate_latest(monitor.registry).decode()
assert 'ragmonitor_interactions_total{' in text, text
assert 'evaluator="faithfulness"' in text and 'outcome="scored"' in text, text
"""


def test_the_pages_have_their_blocks():
    """One for each way of attaching; both READMEs show what theirs print."""
    assert {"capture block", "capture decorators"} <= set(FOUND)
    for readme in ("README", "README.zh-CN"):
        for framework in ("langchain", "llama_index", "plain"):
            assert FOUND[f"{readme} {framework}"][1]


@pytest.mark.parametrize("name", FOUND)
def test_a_block_runs_and_its_answer_is_scored(name, tmp_path):
    """Pasted into a file: it runs, prints what the page shows, and the answer is scored."""
    code, printed = FOUND[name]
    output = run_python(code + COUNTED, tmp_path, RAGMONITOR_SERVER__PORT="0")
    if printed:
        assert output == printed
    else:
        assert "http://127.0.0.1:" in output


def test_a_generated_page_is_what_its_source_says():
    """The tables of settings and series follow from the package."""
    written = subprocess.run(
        [sys.executable, "tools/pages.py", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert written.returncode == 0, written.stderr
