"""Labelled answers about records, made of the cleaned E2E corpus: for `auroc.py`, `learning.py`.

    python tests/bench/e2e_corpus.py FILE.csv [...] > FOLDER/e2e.jsonl
    python tests/bench/auroc.py FOLDER

FILE.csv is one of `cleaned-data/` of github.com/tuetschek/e2e-cleaning: what people wrote about
records of restaurants (`orig_mr`, `ref`), and what they wrote really says (`mr`). Each record
becomes a chunk of JSON. A text that says what its record says is a sound answer; one that says
more or something else is a hallucinated one. Beside each sound one stand four hallucinated ones:
the same text, and a record of which another field's value was exchanged for one of the file's that
the text does not hold (seeded). Values that mean the same are not exchanged for each other.

Source:
    Dusek, Howcroft and Rieser, "Semantic Noise Matters for Neural Natural Language Generation",
    INLG 2019.
"""

from __future__ import annotations

import argparse
import csv
import json
import random
import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

CHANGED = 4
"""Hallucinated answers beside each sound one."""
ALIKE = (
    {"low", "1 out of 5"},
    {"average", "3 out of 5", "moderate", "£20-25"},
    {"high", "5 out of 5", "more than £30"},
    {"cheap", "less than £20"},
)
TWO_VALUED = frozenset({"area", "familyFriendly"})
"""Fields whose other value often stands in a text that denies it, or by chance: `no`, `not`."""

Record = Mapping[str, str]


def slots(text: str) -> list[tuple[str, str]]:
    """Return the fields of `name[The Mill], area[riverside]`, in order."""
    return re.findall(r"([A-Za-z][A-Za-z ]*)\[([^\]]*)\]", text)


def changed(record: Record, text: str, values: Mapping[str, Sequence[str]], rng: random.Random):
    """Return the record with another value of one field; None: there is none."""
    key = rng.choice([key for key in record if key != "name"])
    value = record[key]
    others = [
        other
        for other in values[key]
        if other != value
        and not any({other, value} <= same for same in ALIKE)
        and (key in TWO_VALUED or other.lower() not in text.lower())
    ]
    return {**record, key: rng.choice(others)} if others else None


def answers(rows: Sequence[Mapping[str, str]]) -> Iterator[tuple[Record, str, bool]]:
    """Yield a record, a text and whether the text says what is not in the record."""
    rng = random.Random(1)
    of_field: dict[str, set[str]] = {}
    for row in rows:
        for key, value in slots(row["orig_mr"]):
            of_field.setdefault(key, set()).add(value)
    values = {key: sorted(some) for key, some in of_field.items()}
    for row in rows:
        record, text = dict(slots(row["orig_mr"])), row["ref"]
        if set(slots(row["mr"])) - set(slots(row["orig_mr"])):
            yield record, text, True
        elif row["fixed"] == "0":
            yield record, text, False
            for _ in range(CHANGED):
                if (other := changed(record, text, values, rng)) is not None:
                    yield other, text, True


def main() -> None:
    """Print one answer a line."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("files", nargs="+", type=Path)
    rows = [
        row
        for file in options.parse_args().files
        for row in csv.DictReader(file.read_text("utf-8").splitlines())
    ]
    for record, text, is_hallucinated in answers(rows):
        line = {
            "question": f"What is {record['name']} like?",
            "contexts": [json.dumps(record, ensure_ascii=False)],
            "answer": text,
            "hallucinated": is_hallucinated,
        }
        print(json.dumps(line, ensure_ascii=False))


if __name__ == "__main__":
    main()
