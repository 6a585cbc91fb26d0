"""One of several processes of a service: answers as it is told, and says where it is scraped.

Reads lines of JSON, `{"good": 20, "bad": 3}`; writes its address first, and a line after each.
"""

import json
import sys

from ragmonitor import Monitor, ServerSettings
from tests.contract.kit_outputs import BAD, GOOD, Judge, tell, until


def main() -> None:
    """Answer until standard input ends."""
    watched = {"judge": Judge(), "sample": 1.0, "objectives": {"hallucination": 0.05}}
    with Monitor("shop", **watched, server=ServerSettings(port=0)) as monitor:
        print(until("it serves", lambda: monitor.metrics_url), flush=True)
        for line in sys.stdin:
            for kind, n in json.loads(line).items():
                for number in range(n):
                    tell(monitor, f"Question {number}?", {"good": GOOD, "bad": BAD}[kind])
            monitor.flush(30)
            print("done", flush=True)


main()
