"""Sampling of the answers that a judge scores, with inclusion probabilities fixed beforehand."""

from ragmonitor.sampling.budget import RunBudget, spent_in
from ragmonitor.sampling.consistent_draws import uniform_of
from ragmonitor.sampling.floors import Floors
from ragmonitor.sampling.sampler import AdaptiveSampler

__all__ = [
    "AdaptiveSampler",
    "Floors",
    "RunBudget",
    "spent_in",
    "uniform_of",
]
