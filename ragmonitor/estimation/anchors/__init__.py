"""Judge drift: whether the judge still judges as it did, by old answers that it reads again.

A hallucination rate that rises says that the application became worse or the judge stricter. The
application cannot change answers that were given long ago, so whatever changes in their verdicts is
the judge. Texts for people call these anchors reference answers.

The life of an anchor:

- An answer that the judge has read becomes a candidate. It is confirmed once the judge has read it
  again and said the same; twice, if it said hallucinated. Slips are commoner among the rare
  verdict: where 4 % are hallucinated and one verdict in a hundred is a slip, one in five of the
  "hallucinated" is, and half of the anchors are of that kind. They would flip back and look like a
  judge that drifts.
- Each day some confirmed anchors, drawn at random, are read again and compared with their frozen
  verdict. They are drawn, and not taken in turn: then the chance of a flip at the next check is the
  share of anchors that flip, whatever came before, which is what the alarm's updates suppose.
- A confirmed anchor that flips and then comes back leaves: the judge wavers on it.
- When an alarm on hallucination or faithfulness is raised, fine answers judged before the rise are
  read again, a reserve of 500 beside the anchors, until it is known whether the judge or the
  application explains it (`inquiry`).
- When the judge's identity changes all anchors are read at once by the new judge, their flips are
  tested against what two readings by one judge differ by, and the new judge's verdicts are frozen
  instead of the old ones (`judge_change`). Until then they stay the first judge's, however often
  they flip; a person who accepts a judge that drifted in silence says so with `refreeze`.
"""

from ragmonitor.estimation.anchors.anchor_files import VERSION
from ragmonitor.estimation.anchors.anchor_set import Rise
from ragmonitor.estimation.anchors.forgotten_texts import ForgottenTexts
from ragmonitor.estimation.anchors.service_anchors import Anchors

__all__ = ["VERSION", "Anchors", "ForgottenTexts", "Rise"]
