"""Which of the retrieved chunks the model was really shown, read off its prompts."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from ragmonitor.records import Chunk, Generation

HEAD = 100
"""Characters of a chunk's beginning that are looked for where the whole is not found."""


def seen_in(generations: Sequence[Generation], chunks: Sequence[Chunk]) -> list[Chunk] | None:
    """Return the chunks that stand in what the models were asked, in the order they stand there.

    A chunk counts as shown if its text stands in a prompt, or if its beginning does, at a place
    that no other chunk explains: an application may cut what it shows. White space is not heeded.

    Returns:
        None where no chunk is found, or no prompt is known: the application has changed the texts
        on their way (escaped, translated, summed up), and nothing can be said.
    """
    prompt = "\n".join(
        " ".join(message.text.split()) for each in generations for message in each.input
    )
    if not prompt:
        return None
    texts = [" ".join(chunk.text.split()) for chunk in chunks]
    places: dict[int, int] = {}
    for position, text in enumerate(texts):
        place = prompt.find(text) if text else -1
        if place >= 0:
            places[position] = place
    taken = {(place, texts[position][:HEAD]) for position, place in places.items()}
    for position, text in enumerate(texts):
        if position in places or not text:
            continue
        head = text[:HEAD]
        for place in _occurrences(prompt, head):
            if (place, head) not in taken:
                places[position] = place
                taken.add((place, head))
                break
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
    around it, or cut and numbered for citations.
    """
    texts = [chunk.text for chunk in shown if chunk.text]
    found: dict[str, Chunk] = {}
    for chunk in retrieved:
        if chunk.text:
            found.setdefault(chunk.text, chunk)
    made = [" ".join(text.split()) for text in texts if text not in found]
    return tuple(
        chunk
        for chunk in found.values()
        if not any(text in chunk.text for text in texts) and not _begins_in(chunk.text, made)
    )


def _begins_in(text: str, others: Sequence[str]) -> bool:
    head = " ".join(text.split())[:HEAD]
    return any(head in other for other in others)


def _occurrences(prompt: str, head: str) -> Iterable[int]:
    place = prompt.find(head)
    while place >= 0:
        yield place
        place = prompt.find(head, place + 1)
