"""An application that a gate asks: one release answers by the notes, the other makes things up."""

import json
from pathlib import Path

NOTES = {
    note["question"]: note["answer"]
    for note in map(json.loads, Path("goldens.jsonl").read_text("utf-8").splitlines())
}


def ask(question: str) -> dict[str, object]:
    return {"answer": NOTES[question], "chunks": [NOTES[question]]}


def broken(question: str) -> dict[str, object]:
    return {"answer": "Napoleon sold 17 bananas in Rome.", "chunks": [NOTES[question]]}
