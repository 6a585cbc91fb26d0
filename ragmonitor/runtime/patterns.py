"""Regular expressions that are compiled at their first use.

The package has some two hundred of them, most of them for the work behind a request. Compiling all
takes a third of the time that `from ragmonitor import Monitor` would take.
"""

from __future__ import annotations

import re
from typing import Any, cast


class _LazyPattern:
    """Stands for a `re.Pattern`; its methods are the pattern's own from their first use on."""

    # Of the class too, so that a copy is no endless look for them.
    _expression = ""
    _flags = 0

    def __init__(self, expression: str, flags: int) -> None:
        self._expression = expression
        self._flags = flags

    def __getattr__(self, name: str) -> Any:
        # Two threads may both come here: `re` hands both the same pattern, or equal ones.
        value = getattr(re.compile(self._expression, self._flags), name)
        setattr(self, name, value)
        return value


def lazy_pattern(expression: str, flags: int = 0) -> re.Pattern[str]:
    """Return a pattern that is compiled when it is first used.

    Raises:
        re.PatternError: At the first use: the expression is wrong.
    """
    return cast("re.Pattern[str]", _LazyPattern(expression, flags))
