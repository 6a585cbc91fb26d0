"""Says what a monitor has started, and which modules are there, before the first interaction."""

import json
import sys
import threading
from pathlib import Path

import ragmonitor

imported = sorted(sys.modules)
monitor = ragmonitor.Monitor("quiet", judge="openai/gpt-4o-mini", budget="usd_per_day=1")
print(
    json.dumps(
        {
            "imported": imported,
            "loaded": sorted(sys.modules),
            "threads": len(threading.enumerate()),
            "tasks": len([*Path("/proc/self/task").iterdir()]) if sys.platform == "linux" else 1,
            "url": monitor.metrics_url,
        }
    )
)
