"""What the built-in judge tells apart on sentences about structured chunks.

    python tests/bench/structured_chunks.py [--held-out] [--show]

Prints one row each for the sentences that the reader of structured chunks was built with and,
with `--held-out`, for those that were written before it and not looked at: the share of false
sentences that are flagged, and flagged with the field named, the share of true ones that pass, and
the AUROC of the untrained `risk`. `--show` prints the sentences that are judged wrongly.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.bench.auroc import auroc  # runs from a checkout
from tests.support.structured import assessed, cases, is_flagged, names_field


def main() -> None:
    """Print the table."""
    options = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    options.add_argument("--held-out", action="store_true")
    options.add_argument("--show", action="store_true")
    arguments = options.parse_args()
    print("| sentences | true | pass | false | flagged | field named | AUROC of `risk` |")
    print("|---|---|---|---|---|---|---|")
    for is_held_out in (False, True)[: 1 + arguments.held_out]:
        read = [(case, assessed(case)) for case in cases() if case.is_held_out == is_held_out]
        good = [not is_flagged(found) for case, found in read if not case.field]
        bad = [(case, found) for case, found in read if case.field]
        flagged = [is_flagged(found) for _, found in bad]
        named = [is_flagged(found) and names_field(case, found) for case, found in bad]
        area = auroc(
            [1.0 if found.risk is None else found.risk for _, found in read],
            [bool(case.field) for case, _ in read],
        )
        print(
            f"| {'held out' if is_held_out else 'built with'} | {len(good)} "
            f"| {sum(good) / len(good):.2f} | {len(bad)} | {sum(flagged) / len(bad):.2f} "
            f"| {sum(named) / len(bad):.2f} | {area:.3f} |"
        )
        for case, found in read if arguments.show else ():
            wrong = is_flagged(found) if not case.field else not names_field(case, found)
            if wrong:
                print(f"  {case.name}: [{case.field}] {case.sentence} -> {found.sentences}")


if __name__ == "__main__":
    main()
