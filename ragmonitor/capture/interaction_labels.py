"""Labels of an interaction in the caller's OpenTelemetry context.

OpenInference's context managers (`using_session`, `using_user`, `using_tags`, `using_metadata`,
`using_prompt_template`, `using_attributes`) put their values there, under the names of the
attributes: https://github.com/Arize-ai/openinference/blob/main/spec/configuration.md and the
package `openinference-instrumentation`, which is not needed to read them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from opentelemetry import baggage
from opentelemetry.context import Context

from ragmonitor.capture.coercion import attributes_in, parsed, tags_in, text_in
from ragmonitor.semconv.conventions import PROBE_BAGGAGE

_SESSION = "session.id"
_USER = "user.id"
_TAGS = "tag.tags"
_METADATA = "metadata"
_TEMPLATE_VERSION = "llm.prompt_template.version"
_NAMES = (_SESSION, _USER, _TAGS, _METADATA, _TEMPLATE_VERSION)


_FRAMEWORK_METADATA = ("ls_", "lc_", "langgraph_", "checkpoint", "__", "llamaindex.")
_FRAMEWORK_TAGS = ("seq:step:", "map:key:", "graph:step:", "langsmith:", "ragmonitor:")
_SESSION_KEYS = ("session_id", _SESSION, "thread_id", "conversation_id")
_USER_KEYS = ("user_id", _USER)


def labels_in(context: Context) -> Mapping[str, Any] | None:
    """Return the labels in an OpenTelemetry context, by name; None: there are none.

    The mark of a golden question is among them. In the request path: look-ups only.
    """
    labels = {name: context[name] for name in _NAMES if name in context}
    mark = baggage.get_baggage(PROBE_BAGGAGE, context)
    if mark is not None:
        labels[PROBE_BAGGAGE] = mark
    return labels or None


def merged(own: Mapping[str, Any], inherited: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return an interaction's labels: those of the call itself, over those of its context.

    Args:
        own: Keys as those of the result, each optional.
        inherited: What `labels_in` returned.
    """
    theirs = inherited or {}
    metadata = theirs.get(_METADATA)
    attributes = attributes_in(parsed(metadata) if isinstance(metadata, str) else metadata)
    attributes |= attributes_in({"prompt_version": theirs.get(_TEMPLATE_VERSION)})
    attributes |= attributes_in(own.get("attributes"))
    attributes |= attributes_in({PROBE_BAGGAGE: theirs.get(PROBE_BAGGAGE)})
    tags = (*tags_in(own.get("tags", ())), *tags_in(theirs.get(_TAGS, ())))
    return {
        "session_id": text_in(own.get("session_id")) or text_in(theirs.get(_SESSION)) or "",
        "user_id": text_in(own.get("user_id")) or text_in(theirs.get(_USER)) or "",
        "tags": tuple(dict.fromkeys(tags)),
        "attributes": attributes,
        "capture_incomplete": bool(own.get("capture_incomplete")),
    }


def labels_of(metadata: Mapping[str, Any], tags: Any = ()) -> dict[str, Any]:
    """Return an interaction's labels from the metadata and tags of a framework's run.

    The framework's own metadata and tags are left out. Keys are those of `Translator.labels`.
    """
    return {
        "session_id": next((t for k in _SESSION_KEYS if (t := text_in(metadata.get(k)))), ""),
        "user_id": next((t for k in _USER_KEYS if (t := text_in(metadata.get(k)))), ""),
        "tags": tuple(
            tag
            for tag in (tags if isinstance(tags, list | tuple) else ())
            if isinstance(tag, str) and not tag.startswith(_FRAMEWORK_TAGS)
        ),
        "attributes": {
            key: value
            for key, value in metadata.items()
            if isinstance(value, str)
            and isinstance(key, str)
            and key not in (*_SESSION_KEYS, *_USER_KEYS)
            and not key.startswith(_FRAMEWORK_METADATA)
        },
    }
