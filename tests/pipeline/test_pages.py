"""What the README and the how-tos tell people to paste, run as it stands."""

import re
import subprocess
import sys

import pytest

from tests.support.scripts import ROOT, run_python

pytestmark = pytest.mark.slow

BLOCKS = {
    name: block
    for page in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
    for name, block in re.findall(
        r"<!-- runs: (\w+) -->\n```python\n(.*?)```", page.read_text(encoding="utf-8"), re.DOTALL
    )
}
COUNTED = """
from prometheus_client import generate_latest
text = generate_latest(monitor.registry).decode()
assert 'ragmonitor_interactions_total{' in text, text
assert 'evaluator="faithfulness"' in text and 'outcome="scored"' in text, text
"""


def test_the_pages_have_their_blocks():
    """One for each way of attaching."""
    assert {"langchain", "llama_index", "plain", "block", "decorators"} <= set(BLOCKS)


@pytest.mark.parametrize("name", BLOCKS)
def test_a_block_runs_and_its_answer_is_scored(name, tmp_path):
    """Pasted into a file, nothing added: it runs, and the interaction is counted and scored."""
    output = run_python(BLOCKS[name] + COUNTED, tmp_path, RAGMONITOR_SERVER__PORT="0")
    assert "http://127.0.0.1:" in output


@pytest.mark.parametrize("script", ["coverage.py", "metrics_page.py", "settings_page.py"])
def test_a_generated_page_is_what_its_source_says(script):
    """docs/coverage.md follows from what tests run, the others from the package's tables."""
    written = subprocess.run(
        [sys.executable, f"tools/{script}", "--check"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert written.returncode == 0, written.stderr


def test_the_first_example_prints_what_the_readme_shows(tmp_path):
    """The score, and the sentence that is not supported."""
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    behind = readme.partition("<!-- runs: langchain -->")[2]
    shown = re.search(r"```\n\n```\n(.*?)http://", behind, re.DOTALL)
    assert shown is not None
    output = run_python(BLOCKS["langchain"], tmp_path, RAGMONITOR_SERVER__PORT="0")
    assert output.startswith(shown[1])
