"""Whether the judge still judges as it did: old answers that it reads again.

A hallucination rate that rises says that the application became worse or the judge stricter. The
application cannot change answers that were given long ago, so whatever changes in their verdicts is
the judge: "the ruler moved", and not "the system moved".

The life of an anchor:

- An answer that the judge has read becomes a candidate. It is an anchor, "settled", once the judge
  has read it again and said the same; twice, if it said hallucinated. Slips are commoner among the
  rare verdict: where 4 % are hallucinated and one verdict in a hundred is a slip, one in five of
  the "hallucinated" is, and half of the anchors are of that kind. They would flip back and look
  like a judge that moved.
- Each day some anchors, drawn at random, are read again and compared with their frozen verdict.
  Drawn, and not taken in turn: then the chance of a flip at the next check is the share of anchors
  that flip, whatever came before, which is what the alarm's bets suppose.
- An anchor that flips and then comes back was never settled; it leaves, and its place is free.
- When an alarm on hallucination or faithfulness is raised, fine answers judged before the rise are
  read again, a reserve of 500 beside the anchors, until it is known whether the judge or the
  application explains it (`inquiry`).
- When the judge's identity changes all anchors are read at once by the new judge, their flips are
  tested against what two readings by one judge differ by, and the new judge's verdicts are frozen
  instead of the old ones: from then on the new judge is the ruler, and a later silent change is one
  of *its* verdicts. Until then they stay the first judge's, however often they flip; who accepts a
  judge that moved in silence says so with `refreeze`.
"""

from ragmonitor.estimation.anchors.files import VERSION
from ragmonitor.estimation.anchors.keeping import Anchors
from ragmonitor.estimation.anchors.records import DAY_S, Outcome, Rise, RulerChange

__all__ = ["DAY_S", "VERSION", "Anchors", "Outcome", "Rise", "RulerChange"]
