"""What `import ragmonitor` costs."""

import subprocess
import sys

import ragmonitor


def test_importing_pulls_in_no_heavy_package():
    """Neither litellm, numpy, pydantic nor a framework is loaded by the import alone."""
    code = (
        "import sys, ragmonitor; "
        "print([m for m in ('litellm', 'numpy', 'pydantic', 'langchain_core', 'llama_index', "
        "'prometheus_client', 'opentelemetry.sdk') if m in sys.modules])"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "[]"


def test_everything_public_can_be_had():
    """Each name of `__all__` resolves."""
    assert all(getattr(ragmonitor, name) is not None for name in ragmonitor.__all__)


def test_a_monitor_needs_no_sdk():
    """OpenTelemetry's SDK is loaded where spans are read or sent, and not before."""
    code = "import sys; from ragmonitor import Monitor; print('opentelemetry.sdk' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"
