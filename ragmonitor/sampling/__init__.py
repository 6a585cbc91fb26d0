"""Which answers a judge reads, each with a chance that was fixed before the coin fell."""

from ragmonitor.sampling.budget import Budget, budget_file, spent_in
from ragmonitor.sampling.consistent_draws import uniform_of
from ragmonitor.sampling.floors import Floors
from ragmonitor.sampling.sampler import AdaptiveSampler

__all__ = ["AdaptiveSampler", "Budget", "Floors", "budget_file", "spent_in", "uniform_of"]
