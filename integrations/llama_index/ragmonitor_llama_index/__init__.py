"""ragmonitor for LlamaIndex: `instrument(monitor)`, or `with observed(monitor):` around calls."""

from ragmonitor_llama_index.handler import instrument, observed, uninstrument
from ragmonitor_llama_index.translate import LlamaIndexTranslator

__all__ = ["LlamaIndexTranslator", "instrument", "observed", "uninstrument"]
