"""The same application, which has answered a question before its server forks."""

from tests.contract.programs.application import answered, asgi, monitor, wsgi

__all__ = ["answered", "asgi", "monitor", "wsgi"]

answered(0)
