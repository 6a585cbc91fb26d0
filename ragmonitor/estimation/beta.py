"""The beta distribution, for exact intervals of a share; needs no numerical library."""

from __future__ import annotations

import math

_MAX_STEPS = 10_000
_TINY = 1e-300
_CLOSE = 1e-12


def beta_share(x: float, a: float, b: float) -> float:
    """Return the share of a Beta(a, b) variable below x: the regularised incomplete beta I_x(a, b).

    Args:
        x: 0 to 1.
        a: Above 0.
        b: Above 0.

    Source:
        NIST Digital Library of Mathematical Functions, 8.17.22 (the continued fraction) and
        8.17.4 (the mirror), evaluated by Lentz's method as modified by Thompson & Barnett (1986),
        J. Comp. Phys. 64, 490.
    """
    if x <= 0:
        return 0.0
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):
        return 1.0 - beta_share(1 - x, b, a)
    front = math.exp(_log_density(x, a, b) + math.log(x) + math.log1p(-x)) / a
    return min(1.0, front * _fraction(x, a, b))


def _fraction(x: float, a: float, b: float) -> float:
    c, d = 1.0, 1.0 - (a + b) * x / (a + 1)
    d = 1.0 / (d if abs(d) > _TINY else _TINY)
    result = d
    for m in range(1, _MAX_STEPS):
        for term in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            d = 1.0 + term * d
            d = 1.0 / (d if abs(d) > _TINY else _TINY)
            c = 1.0 + term / c
            c = c if abs(c) > _TINY else _TINY
            result *= c * d
        if abs(c * d - 1.0) < _CLOSE:
            break
    return result


def _log_density(x: float, a: float, b: float) -> float:
    return (
        (a - 1) * math.log(x)
        + (b - 1) * math.log1p(-x)
        + math.lgamma(a + b)
        - math.lgamma(a)
        - math.lgamma(b)
    )


def beta_quantile(probability: float, a: float, b: float) -> float:
    """Return x with `beta_share(x, a, b) = probability`, to within 1e-9.

    Args:
        probability: 0 to 1.
        a: 0 or more; 0 puts all of it at 0.
        b: 0 or more; 0 puts all of it at 1.
    """
    if a <= 0 or probability <= 0:
        return 0.0
    if b <= 0 or probability >= 1:
        return 1.0
    if a > b:  # near 1 a float has too few digits left of what lies above
        return 1.0 - beta_quantile(1.0 - probability, b, a)
    low, high = 0.0, 1.0
    x = a / (a + b)
    for _ in range(200):
        error = beta_share(x, a, b) - probability
        if error > 0:
            high = x
        else:
            low = x
        if high - low < _CLOSE:
            break
        density = math.exp(_log_density(x, a, b)) if 0 < x < 1 else 0.0
        step = error / density if density > _TINY else math.inf
        # Newton's step where it stays between the bounds, else the middle.
        following = x - step
        if not low < following < high:
            following = (low + high) / 2
        if abs(following - x) < 1e-10 * max(x, 1e-3):
            return following
        x = following
    return x
