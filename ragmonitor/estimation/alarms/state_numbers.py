"""Numbers of a state on disk, which anything may have been written to."""

from typing import Annotated

from pydantic import Field

Number = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Finite and not negative."""
