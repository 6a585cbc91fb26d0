"""Regular expressions that are compiled at their first use."""

from __future__ import annotations

import copy
import gc
import pickle
import pkgutil
import re
from importlib import import_module

import ragmonitor
from ragmonitor.patterns import _LazyPattern, lazy_pattern


def test_every_expression_of_the_package_is_right() -> None:
    """A wrong one would be found at its first use only: behind the request, in production."""
    for module in pkgutil.walk_packages(ragmonitor.__path__, "ragmonitor."):
        if "__main__" not in module.name:
            import_module(module.name)
    gc.unfreeze()  # what the collector is spared, it would not list
    patterns = [each for each in gc.get_objects() if isinstance(each, _LazyPattern)]
    gc.freeze()
    assert len(patterns) > 100
    for each in patterns:
        assert each.groups >= 0


def test_it_does_what_the_compiled_pattern_does() -> None:
    pattern = lazy_pattern(r"(?P<word>[a-z]+)", re.IGNORECASE)
    assert pattern.findall("One two") == ["One", "two"]
    assert pattern.sub("x", "One two") == "x x"
    assert pattern.groupindex == {"word": 1}
    assert pattern.pattern == r"(?P<word>[a-z]+)"


def test_a_copy_does_the_same() -> None:
    pattern = lazy_pattern("a+")
    for twin in (copy.copy(pattern), copy.deepcopy(pattern), pickle.loads(pickle.dumps(pattern))):
        assert twin.findall("aab") == ["aa"]
