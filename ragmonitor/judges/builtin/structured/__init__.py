"""Chunks that are structured data: JSON, YAML, tables, lists of keys and values, as fields."""
