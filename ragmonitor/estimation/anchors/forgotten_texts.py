"""Removes the texts of reference answers that earlier settings kept and those of now do not."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ragmonitor.estimation.anchors.anchor_files import anchors_of, texts_file
from ragmonitor.estimation.parts import Observation, Part
from ragmonitor.guard import logger
from ragmonitor.state import State


class ForgottenTexts(Part):
    """Removes the anchors and their texts once, at the first tick at which the state is there."""

    def __init__(self, file: State) -> None:
        """Touch nothing yet.

        Args:
            file: Where anchors were kept, as `Anchors` takes it.
        """
        self._file: State | None = file

    def tick(self) -> Sequence[Observation]:
        """Remove them, unless that is done."""
        file = self._file
        if file is None:
            return ()

        def remove(state: Mapping[str, Any]) -> None:
            if not state:
                return
            known = anchors_of(state).anchors
            for identity in known:
                texts_file(file, identity).remove()
            file.remove()
            logger.warning(
                "ragmonitor: the reference answers were removed from %s (%d): by the settings of "
                "now no texts of them are kept",
                file.place,
                len(known),
            )

        if file.update(remove, stage="estimation", what="the reference answers"):
            self._file = None
        return ()
