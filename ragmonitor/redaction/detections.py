"""Detections: where a text holds what must not leave, and the marks that take its place."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

MARK = "[redacted:{kind}]"
"""Stands where something was taken out."""


class Detection(NamedTuple):
    """A part of a text that must not leave, and its kind."""

    start: int
    end: int
    kind: str
    """Stands in the mark that replaces the part."""


def apart(detections: Iterable[Detection]) -> list[Detection]:
    """Return detections in order; those that overlap become one, of the first one's kind."""
    merged: list[Detection] = []
    for each in sorted(detections, key=lambda each: (each.start, -each.end)):
        if merged and each.start < merged[-1].end:
            merged[-1] = merged[-1]._replace(end=max(merged[-1].end, each.end))
        else:
            merged.append(each)
    return merged


def redacted(text: str, detections: Iterable[Detection]) -> str:
    """Return the text with a mark in place of each detection; they are in order, none overlaps."""
    pieces, done = [], 0
    for each in detections:
        pieces += [text[done : each.start], MARK.format(kind=each.kind)]
        done = each.end
    return "".join([*pieces, text[done:]]) if pieces else text
