"""ragmonitor for LangChain and LangGraph.

`instrument(monitor)` observes every chain, retriever and agent of the process;
`callbacks=[RagMonitorHandler(monitor)]` observes one call. Both together count once.
"""

from ragmonitor_langchain.handler import RagMonitorHandler, instrument, uninstrument

__version__ = "0.1.0"

__all__ = ["RagMonitorHandler", "__version__", "instrument", "uninstrument"]
