"""What the README tells people to paste, run as it stands."""

import re
import textwrap

import pytest

from tests.support.scripts import ROOT, run_python

pytestmark = pytest.mark.slow

BLOCKS = dict(
    re.findall(
        r"<!-- runs: (\w+) -->\n *```python\n(.*?)\n *```",
        (ROOT / "integrations/litellm/README.md").read_text(encoding="utf-8"),
        re.DOTALL,
    )
)
COUNTED = """
from prometheus_client import generate_latest
text = generate_latest(monitor.registry).decode()
assert 'ragmonitor_interactions_total{framework="litellm"' in text, text
assert 'evaluator="faithfulness"' in text and 'outcome="scored"' in text, text
"""


@pytest.mark.parametrize("name", ["template", "metadata"])
def test_a_block_runs_and_its_answer_is_scored(name, tmp_path):
    """Pasted into a file, nothing added."""
    run_python(
        textwrap.dedent(BLOCKS[name]) + COUNTED,
        tmp_path,
        RAGMONITOR_SERVER__PORT="0",
        LITELLM_LOCAL_MODEL_COST_MAP="True",
    )
