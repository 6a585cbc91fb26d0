"""What works behind the request path: on a thread of this process, or in a helper process."""

from ragmonitor.back_half.local import LocalBackHalf
from ragmonitor.back_half.seam import BackHalf

__all__ = ["BackHalf", "LocalBackHalf"]
