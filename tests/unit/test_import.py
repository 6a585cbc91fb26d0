"""What `import ragmonitor` costs."""

import subprocess
import sys

import ragmonitor


def test_everything_public_can_be_had():
    """Each name of `__all__` resolves."""
    assert all(getattr(ragmonitor, name) is not None for name in ragmonitor.__all__)
    assert len(ragmonitor.__all__) <= 35


def test_a_monitor_needs_no_sdk():
    """OpenTelemetry's SDK is loaded where spans are read or sent, and not before."""
    code = "import sys; from ragmonitor import Monitor; print('opentelemetry.sdk' in sys.modules)"
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    assert result.stdout.strip() == "False"


def test_the_import_of_a_monitor_loads_no_back_half():
    """Judges, statistics and exporters are loaded for a monitor, not for the import of its class.

    Modules are counted, since time depends on the machine: 162 beside OpenTelemetry's, 30 of ours.
    """
    code = (
        "import sys, opentelemetry.trace; before = set(sys.modules); "
        "from ragmonitor import Monitor; print(*(set(sys.modules) - before))"
    )
    result = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(result.stdout.split())
    behind = ("pipeline", "judges", "stats", "causes", "export", "evaluators")
    assert loaded.isdisjoint({*(f"ragmonitor.{each}" for each in behind), "prometheus_client"})
    assert len(loaded) <= 190
