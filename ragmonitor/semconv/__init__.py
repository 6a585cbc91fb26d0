"""Every name of a span, an event and a series, in tables."""
