"""The request path: events of frameworks and of plain code are noted here, and nothing more."""
