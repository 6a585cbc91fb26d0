"""No framework: a search of one's own and litellm; `python plain_litellm.py`."""

from __future__ import annotations

import os

import litellm

from ragmonitor import Chunk, Monitor
from ragmonitor_litellm import instrument

DOCUMENTS = {
    "opening.md": "The library opens at nine and closes at eight. It is closed on Sundays.",
    "cards.md": "A library card costs ten euros a year. Students pay nothing.",
}
MODEL = os.environ.get("MODEL")
"""What to ask; nothing: the answer is the scripted one."""
SCRIPTED = "A library card costs ten euros a year. Pensioners pay five euros."

monitor = Monitor(service="library-desk")
instrument(monitor)  # model, prompt and tokens of each completion


@monitor.retrieves  # what it returns belongs to the interaction that is under way
def search(question: str) -> list[Chunk]:
    """Return the documents that share a word with the question."""
    words = set(question.lower().strip("?").split())
    return [
        Chunk(text=text, id=name, metadata={"source": name})
        for name, text in DOCUMENTS.items()
        if words & set(text.lower().replace(".", "").split())
    ]


@monitor.answers  # each call is one interaction
def answer(question: str) -> str:
    """Answer from what the search finds."""
    context = "\n\n".join(chunk.text for chunk in search(question))
    reply = litellm.completion(
        model=MODEL or "openai/gpt-4o-mini",
        messages=[{"role": "user", "content": f"{context}\n\n{question}"}],
        mock_response=None if MODEL else SCRIPTED,
    )
    return reply.choices[0].message.content


print(answer("What does a library card cost?"))
print(monitor.last())
monitor.close()
