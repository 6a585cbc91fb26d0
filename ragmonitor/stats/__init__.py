"""Estimates, alarms and comparisons from sums of answers."""
