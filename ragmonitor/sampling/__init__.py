"""Which answers a judge reads, each with a chance that was fixed before the coin fell."""

from ragmonitor.sampling.budget import Budget
from ragmonitor.sampling.coin import coin
from ragmonitor.sampling.uniform import UniformSampler

__all__ = ["Budget", "UniformSampler", "coin"]
