"""What works behind the request path: on a thread of this process, or elsewhere."""

from ragmonitor.back_half.choice import back_half_of
from ragmonitor.back_half.seam import BackHalf

__all__ = ["BackHalf", "back_half_of"]
