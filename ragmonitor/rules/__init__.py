"""Prometheus' rules as data: recorded means, and the alerts that rest on the monitor's alarms."""

from ragmonitor.rules.writing import RuleOptions, as_yaml, manifest, rule_file

__all__ = ["RuleOptions", "as_yaml", "manifest", "rule_file"]
