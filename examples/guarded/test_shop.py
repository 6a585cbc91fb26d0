"""Each golden question, put to both applications: `pytest test_shop.py`."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("application", ["langchain_shop", "llama_index_shop"])
@pytest.mark.rag(goldens="goldens.jsonl")
def test_answers(application, golden, ragmonitor_check):
    ask = pytest.importorskip(application).ask
    reply = ask(golden.question)
    if golden.chunks:
        ragmonitor_check.assert_retrieves(reply["chunks"], golden)
    ragmonitor_check.assert_faithful(reply["answer"], reply["chunks"], golden)
    ragmonitor_check.assert_correct(reply["answer"], golden, reply["chunks"])
