"""The beta distribution, and Student's t by it, to what intervals need."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Final

TAIL: Final = 0.025
Z95: Final = 1.959963984540054


def beta_cdf(x: float, a: float, b: float) -> float:
    """Return the regularised incomplete beta function, by Lentz's continued fraction.

    Source:
        Press et al., "Numerical Recipes" (2007), section 6.4.

    >>> round(beta_cdf(0.3, 2, 5), 6)
    0.579825
    """
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1 - beta_cdf(1 - x, b, a)
    front = math.exp(_log_density(x, a, b) + math.log(x) + math.log1p(-x)) / a
    c, d = 1.0, 1 / (1 - (a + b) * x / (a + 1) or 1e-30)
    fraction = d
    for m in range(1, 400):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for top in (even, odd):
            d = 1 / (1 + top * d or 1e-30)
            c = 1 + top / c or 1e-30
            fraction *= c * d
        if abs(c * d - 1) < 1e-12:
            break
    return front * fraction


def _log_density(x: float, a: float, b: float) -> float:
    scale = math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b)
    return scale + (a - 1) * math.log(x) + (b - 1) * math.log1p(-x)


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return where the distribution function has a value; 0 or 1 where a or b is 0.

    >>> round(beta_quantile(0.975, 1, 20), 6)
    0.168433
    """
    if a <= 0 or b <= 0:
        return float(b <= 0)
    low, high, x = 0.0, 1.0, _near(probability, a, b)
    for _ in range(80):  # Newton's steps, and halves where they lead out of the bracket
        excess = beta_cdf(x, a, b) - probability
        low, high = (x, high) if excess < 0 else (low, x)
        step = excess * math.exp(min(700.0, -_log_density(x, a, b)))
        new = x - step if low < x - step < high else (low + high) / 2
        if abs(new - x) < 1e-11 + 1e-9 * x:
            return new
        x = min(max(new, 1e-300), 1 - 1e-16)
    return x


def _near(probability: float, a: float, b: float) -> float:
    """Return where to begin to look: the mean, but for shapes that a normal deviate describes.

    Source:
        Abramowitz & Stegun, "Handbook of Mathematical Functions" (1964), 26.2.22, 26.5.22.
    """
    if a <= 1 or b <= 1:
        return a / (a + b)
    t = math.sqrt(-2 * math.log(min(probability, 1 - probability)))
    y = t - (2.30753 + 0.27061 * t) / (1 + 0.99229 * t + 0.04481 * t * t)
    y = y if probability < 0.5 else -y
    scale = (y * y - 3) / 6
    h = 2 / (1 / (2 * a - 1) + 1 / (2 * b - 1))
    w = y * math.sqrt(h + scale) / h
    w -= (1 / (2 * b - 1) - 1 / (2 * a - 1)) * (scale + 5 / 6 - 2 / (3 * h))
    return a / (a + b * math.exp(2 * w))


@lru_cache(maxsize=256)
def t_quantile(freedom: int, tail: float = TAIL) -> float:
    """Return the point of Student's t that leaves so much above it.

    >>> round(t_quantile(31), 4)
    2.0395
    """
    x = beta_quantile(2 * tail, freedom / 2, 0.5)
    return math.sqrt(freedom * (1 - x) / x)


def clopper_pearson(hits: float, n: float) -> tuple[float, float]:
    """Return the exact 95 % interval of a share.

    Args:
        hits: How many were seen.
        n: Of how many, above 0; effective ones, if their weights differ.

    Source:
        Clopper & Pearson (1934), Biometrika 26(4).

    >>> [round(end, 4) for end in clopper_pearson(1, 20)]
    [0.0013, 0.2487]
    """
    misses = n - hits
    return beta_quantile(TAIL, hits, misses + 1), beta_quantile(1 - TAIL, hits + 1, misses)
