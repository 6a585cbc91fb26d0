"""Prompts of any parts of an interaction, bordered as the judge's main prompt is."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ragmonitor.judges.prompts import Message, Prompt, border_outside, draw_border, harmless


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One part of the data."""

    name: str
    """Capital letters."""
    texts: Sequence[str]
    """One; or several, which are then numbered."""
    mark: str = ""
    """Letter before the numbers; empty: the one text as it is."""
    in_blocks: bool = False
    """Each numbered text keeps its lines, under a line with its number and the border; else it is
    one line, so that no line within it can pose as the next."""


def compose(
    system: str,
    sections: Sequence[Section],
    reminder: str,
    *,
    draw: Callable[[], str] = draw_border,
) -> Prompt:
    """Return a static system message, and a user message of bordered sections and a last line.

    Args:
        system: The same for every call, so that providers can cache it.
        sections: In order.
        reminder: The last line, in which `{border}` stands for the border.
        draw: Where borders come from; drawn again while the data contains one.
    """
    cleaned = [[harmless(text).strip() for text in section.texts] for section in sections]
    border = border_outside("\n".join(text for texts in cleaned for text in texts), draw)
    bodies = (
        f"<<{border} {section.name}\n{_body(section, texts, border)}\n{border}>>"
        for section, texts in zip(sections, cleaned, strict=True)
    )
    user = "\n".join((*bodies, reminder.replace("{border}", border)))
    return Prompt(
        messages=(
            Message(role="system", content=system),
            Message(role="user", content=user),
        ),
        border=border,
    )


def _body(section: Section, texts: Sequence[str], border: str) -> str:
    if not section.mark:
        return "\n".join(texts)
    if section.in_blocks:
        return "\n".join(
            f"[{section.mark}{number} {border}]\n{text}" for number, text in enumerate(texts, 1)
        )
    return "\n".join(
        f"{section.mark}{number} {' '.join(text.split())}" for number, text in enumerate(texts, 1)
    )
