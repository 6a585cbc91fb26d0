"""Prometheus' rules as data: recorded means with intervals, and the alerts that rest on them."""

from ragmonitor.rules.error_budgets import parse_days, parse_objective
from ragmonitor.rules.writing import RuleOptions, as_yaml, manifest, rule_file

__all__ = [
    "RuleOptions",
    "as_yaml",
    "manifest",
    "parse_days",
    "parse_objective",
    "rule_file",
]
