"""Queue, read, draw, judge, evaluate, settle, export."""
