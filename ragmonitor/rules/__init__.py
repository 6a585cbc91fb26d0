"""Prometheus' rules as data: recorded means with intervals, and the alerts that rest on them."""

from ragmonitor.rules.error_budgets import BURNS, Burn, Objective, parse_days, parse_objective
from ragmonitor.rules.model import Alert, Group, Recording
from ragmonitor.rules.writing import (
    DEFAULT_OBJECTIVES,
    RuleOptions,
    as_yaml,
    groups,
    manifest,
    rule_file,
)

__all__ = [
    "BURNS",
    "DEFAULT_OBJECTIVES",
    "Alert",
    "Burn",
    "Group",
    "Objective",
    "Recording",
    "RuleOptions",
    "as_yaml",
    "groups",
    "manifest",
    "parse_days",
    "parse_objective",
    "rule_file",
]
