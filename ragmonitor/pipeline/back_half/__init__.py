"""Does the work behind the request path: on a thread of this process, or elsewhere."""

from ragmonitor.pipeline.back_half.choice import back_half_of

__all__ = ["back_half_of"]
