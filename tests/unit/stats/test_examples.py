"""The examples in docstrings of `stats` and `store` run."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import ragmonitor.stats
import ragmonitor.store

MODULES = [
    f"{package.__name__}.{each.name}"
    for package in (ragmonitor.stats, ragmonitor.store)
    for each in pkgutil.iter_modules(package.__path__)
]


@pytest.mark.parametrize("name", MODULES)
def test_examples_of_a_module_hold(name):
    """Each prints what it says."""
    assert doctest.testmod(importlib.import_module(name)).failed == 0
