"""ragmonitor for LlamaIndex: `instrument(monitor)`."""

from ragmonitor_llama_index.handler import instrument, uninstrument
from ragmonitor_llama_index.translate import LlamaIndexTranslator

__all__ = ["LlamaIndexTranslator", "instrument", "uninstrument"]
