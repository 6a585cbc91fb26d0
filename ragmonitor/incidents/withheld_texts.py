"""Takes out of an incident what its own content policy kept and a stricter one does not."""

from __future__ import annotations

import re
from typing import Final

from ragmonitor.causes.sources import hashed_name
from ragmonitor.export.content import ContentPolicy
from ragmonitor.incidents.incident import BadAnswer, BadSentence, Candidate, Incident

_STRICTNESS: Final = {"all": 0, "hashed": 1, "none": 2}
_SOURCE: Final = re.compile(r"(?<![^ {])source=(.*?)(?=, [^=]+=|}?$)", re.DOTALL)
"""A document in the name of a slice: `route=returns, source=handbook.md`."""


def withheld(incident: Incident, policy: ContentPolicy) -> Incident:
    """Return the incident without texts that the policy withholds; the same one if it has none.

    Of one that was kept under `all` documents have the names that the policy gives to documents
    without an id, so that an incident that goes on still speaks of the same ones.
    """
    if _STRICTNESS[incident.content] >= _STRICTNESS[policy.content]:
        return incident
    names = _Names(policy, is_hashed=incident.content == "all")
    return incident.model_copy(
        update={
            "content": policy.content,
            "id": re.sub("-source-.*", "", incident.id),
            "alarms": tuple(
                each.model_copy(update={"signal": names.slice(each.signal)})
                for each in incident.alarms
            ),
            "candidates": tuple(map(names.candidate, incident.candidates)),
            "cause": incident.cause.model_copy(
                update={"name": names.named(incident.cause.kind, incident.cause.name)}
            ),
            "answers": tuple(map(names.answer, incident.answers)),
        }
    )


class _Names:
    """Hashes the names of documents, which are texts under `all`."""

    def __init__(self, policy: ContentPolicy, *, is_hashed: bool) -> None:
        self._policy = policy
        self._is_hashed = is_hashed

    def document(self, name: str) -> str:
        return hashed_name(name, self._policy) if name and self._is_hashed else name

    def slice(self, name: str) -> str:
        return _SOURCE.sub(lambda match: f"source={self.document(match[1])}", name)

    def named(self, kind: str, name: str) -> str:
        return self.document(name) if kind == "document" else self.slice(name)

    def candidate(self, candidate: Candidate) -> Candidate:
        return candidate.model_copy(update={"name": self.named(candidate.kind, candidate.name)})

    def answer(self, answer: BadAnswer) -> BadAnswer:
        causes = (each.partition(" ") for each in answer.causes)
        return answer.model_copy(
            update={
                "question": "",
                "sentences": tuple(map(self._sentence, answer.sentences)),
                "causes": tuple(f"{kind} {self.named(kind, name)}" for kind, _, name in causes),
            }
        )

    def _sentence(self, sentence: BadSentence) -> BadSentence:
        gone = {"text": "", "words": (), "passage": "", "source": self.document(sentence.source)}
        return sentence.model_copy(update=gone)
