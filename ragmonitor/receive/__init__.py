"""Interactions of applications in any language, read off the spans that they send by OTLP.

`ragmonitor receive` runs it; nothing else imports it. docs/receive.md is its page.
"""

from ragmonitor.receive.receiver import Receiver

__all__ = ["Receiver"]
