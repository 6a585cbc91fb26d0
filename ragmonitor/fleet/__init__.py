"""Several workers that judge, and one estimator that keeps the numbers: docs/scaling.md."""
