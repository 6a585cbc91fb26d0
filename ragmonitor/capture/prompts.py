"""Finds in the prompts which of the retrieved chunks the model was really shown."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any, Final

from ragmonitor.records import Chunk, Generation

HEAD = 100
"""Characters of a chunk's beginning that are searched for if the whole is not found."""
MAX_SEARCHED: Final = 300_000_000
"""Characters that are looked through for one interaction, in each of three questions: what was
shown, what was not, and what tools repeat. A search through that many takes a tenth of a second."""


def is_too_much(texts: Collection[Any], within: str) -> bool:
    """Return whether a search for each of these texts would cost more than `MAX_SEARCHED`."""
    return len(texts) * len(within) > MAX_SEARCHED


def seen_in(generations: Sequence[Generation], chunks: Sequence[Chunk]) -> list[Chunk] | None:
    """Return the chunks that stand in what the models were asked, in the order they stand there.

    A chunk counts as shown if its text stands in a prompt, or if its beginning does, at a place
    that no other chunk explains: an application may cut what it shows. White space is ignored,
    and so is a message that comes again: an agent repeats the talk in every prompt.

    Returns:
        None where no chunk is found, or no prompt is known: the application has changed the texts
        on their way (escaped, translated, summed up), and nothing can be said. So too where chunks
        times prompts are more than `MAX_SEARCHED`.
    """
    messages = dict.fromkeys(message.text for each in generations for message in each.input)
    prompt = "\n".join(messages)
    texts = [chunk.text for chunk in chunks]
    if not all(text in prompt and text.strip() for text in texts):
        prompt = "\n".join(" ".join(text.split()) for text in messages)
        texts = [" ".join(text.split()) for text in texts]
    if not prompt or is_too_much(texts, prompt):
        return None
    where = {text: prompt.find(text) for text in dict.fromkeys(texts) if text}
    places = {at: where[text] for at, text in enumerate(texts) if text and where[text] >= 0}
    taken = {(place, texts[at][:HEAD]) for at, place in places.items()}
    after: dict[str, int] = {}
    for position, text in enumerate(texts):
        if position in places or not text:
            continue
        # Gone on with, for the next chunk that begins alike: what was taken stays taken.
        head = text[:HEAD]
        place = prompt.find(head, after.get(head, 0))
        while (place, head) in taken:
            place = prompt.find(head, place + 1)
        after[head] = place + 1 or len(prompt)
        if place >= 0:
            places[position] = place
    if not places:
        return None
    before = -1
    for position, text in enumerate(texts):
        # A blank chunk is shown wherever its neighbours are, for all that anyone can see.
        before = places.get(position, before)
        if not text:
            places[position] = before
    return [chunks[position] for position in sorted(places, key=lambda p: (places[p], p))]


def not_among(shown: Sequence[Chunk], retrieved: Iterable[Chunk]) -> tuple[Chunk, ...]:
    """Return what was retrieved and of which nothing was shown, each text once.

    A compressor shows a part of a chunk; the chunk it was taken from then counts as shown. So does
    one whose beginning stands in a text that was made after the retrieval: widened to what stands
    around it, or cut and numbered for citations. So does what was not looked for, since what was
    shown times what was retrieved is more than `MAX_SEARCHED`.
    """
    texts = dict.fromkeys(chunk.text for chunk in shown if chunk.text)
    by_text: dict[str, Chunk] = {}
    for chunk in retrieved:
        if chunk.text:
            by_text.setdefault(chunk.text, chunk)
    made = "\n".join(" ".join(text.split()) for text in texts if text not in by_text)
    if is_too_much(texts, "".join(by_text)):
        return ()

    def is_shown(text: str) -> bool:
        return (
            text in texts
            or any(len(part) < len(text) and part in text for part in texts)
            or (bool(made) and " ".join(text.split())[:HEAD] in made)
        )

    return tuple(chunk for text, chunk in by_text.items() if not is_shown(text))


_BEFORE: Final = 2_000
"""Characters before a chunk in a prompt in which its metadata may stand."""
_NO_CONTENT: Final = frozenset({"score", "relevance_score", "sql_query"})
_MAX_VALUES: Final = 50
_MAX_VALUE: Final = 500
_SHORT: Final = 2
"""Characters of a value that a prompt may hold by chance."""


def with_metadata(chunks: Sequence[Chunk], generations: Sequence[Generation]) -> list[Chunk]:
    """Return the chunks as the models saw them: with what a prompt shows of their metadata.

    That is what stands between a chunk's text and the chunk, or the beginning, before it. What was
    kept from the model is no evidence.
    """
    messages = dict.fromkeys(message.text for each in generations for message in each.input)
    prompt = "\n".join(messages)
    if not any(chunk.metadata for chunk in chunks) or is_too_much(chunks, prompt):
        return [*chunks]
    places = [prompt.find(chunk.text) if chunk.text else -1 for chunk in chunks]
    ends = sorted(
        place + len(chunk.text) for chunk, place in zip(chunks, places, strict=True) if place >= 0
    )
    seen: list[Chunk] = []
    for chunk, place in zip(chunks, places, strict=True):
        before = bisect_right(ends, place) - 1
        start = max(ends[before] if before >= 0 else 0, place - _BEFORE, 0)
        shown = _shown_in(prompt[start:place], chunk.metadata) if place > 0 else []
        seen.append(replace(chunk, text="\n".join([*shown, "", chunk.text])) if shown else chunk)
    return seen


def _shown_in(text: str, metadata: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, value in islice(metadata.items(), _MAX_VALUES):
        if name in _NO_CONTENT:
            continue
        if isinstance(value, str | int | float) and (written := str(value).strip()):
            place = text.find(written) if len(written) <= _MAX_VALUE else -1
            around = text[place - 1 : place] + text[place + len(written) :][:1]
            # A word, not a part of one; a lone digit of a prompt's own is none without its name.
            is_told = len(written) > _SHORT or name.lower() in text[: max(0, place)].lower()
            if place >= 0 and is_told and not any(map(str.isalnum, around)):
                lines.append(f"{name}: {written}")
    return lines
