"""What is wrong with a collector's configuration, by its structure.

No collector runs here. This finds what breaks a start (a name that is not defined, a component the
image does not have) and what loses data quietly (an order, a size). It does not know every option
of every component: `otelcol validate` does.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

Config = Mapping[str, Any]

SECTIONS = ("receivers", "processors", "exporters", "connectors")
CORE = frozenset(
    {
        "attributes",
        "batch",
        "debug",
        "file",
        "filter",
        "health_check",
        "memory_limiter",
        "nop",
        "otlp",
        "otlp_grpc",
        "otlp_http",
        "probabilistic_sampler",
        "resource",
        "span",
        "zpages",
    }
)
"""Types in the distribution `otel/opentelemetry-collector`, of those that one might use here."""
DEPRECATED = {
    "batch": "sending_queue.batch of the exporter",
    "otlphttp": "otlp_http",
    "logging": "debug",
}
MAX_MESSAGE_BYTES = 4 * 1024 * 1024
"""What a gRPC server takes unless told otherwise."""
KEYS = frozenset({"receivers", "processors", "exporters", "connectors", "extensions", "service"})
QUOTED = re.compile(r'attributes\["([^"]+)"\]')


def faults(config: Config, *, image: str) -> list[str]:
    """Return what is wrong; empty: nothing that can be seen."""
    return [
        *(f"unknown section {key}" for key in sorted(set(config) - KEYS)),
        *_undefined_or_unused(config),
        *_order(config),
        *_not_in_the_image(config, image),
        *_deprecated(config),
        *_sizes(config),
    ]


def destinations(config: Config) -> dict[str, tuple[str, int]]:
    """Return host and port of each exporter that has an endpoint."""
    found = {}
    for name, exporter in config["exporters"].items():
        endpoint = (exporter or {}).get("endpoint")
        if endpoint is None:
            continue
        parts = urlsplit(endpoint if "//" in endpoint else f"//{endpoint}")
        if parts.hostname is None or parts.port is None:
            raise ValueError(f"{name}: {endpoint} names no host or no port")
        found[name] = (parts.hostname, parts.port)
    return found


def attributes(config: Config) -> set[str]:
    """Return every attribute that processors look at, change or decide by."""
    found: set[str] = set()
    for name, processor in config["processors"].items():
        if name.partition("/")[0] == "redaction":
            continue  # by values
        found |= set(_attributes_in(processor))
    return found


def _attributes_in(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield from QUOTED.findall(value)
    elif isinstance(value, Mapping):
        if isinstance(value.get("key"), str):
            yield value["key"]
        for part in value.values():
            yield from _attributes_in(part)
    elif isinstance(value, list):
        for part in value:
            yield from _attributes_in(part)


def _undefined_or_unused(config: Config) -> Iterator[str]:
    pipelines = config["service"]["pipelines"]
    connectors = set(config.get("connectors", {}))
    for section in SECTIONS[:3]:
        defined = set(config.get(section, {}))
        allowed = defined if section == "processors" else defined | connectors
        used = {part for pipeline in pipelines.values() for part in pipeline.get(section, ())}
        for pipeline, parts in pipelines.items():
            for part in parts.get(section, ()):
                if part not in allowed:
                    yield f"{pipeline}: {section[:-1]} {part} is not defined"
        yield from (f"{section[:-1]} {part} is used by no pipeline" for part in defined - used)
    extensions = set(config.get("extensions", {}))
    used = set(config["service"].get("extensions", ()))
    yield from (f"extension {part} is not defined" for part in used - extensions)
    yield from (f"extension {part} is not used" for part in extensions - used)
    for pipeline, parts in pipelines.items():
        for section in ("receivers", "exporters"):
            if not parts.get(section):
                yield f"{pipeline}: no {section}"
        kind = pipeline.partition("/")[0]
        if kind not in {"traces", "logs", "metrics"}:
            yield f"{pipeline}: no such kind of pipeline"
        if unknown := set(parts) - set(SECTIONS[:3]):
            yield f"{pipeline}: {', '.join(sorted(unknown))} is no part of a pipeline"


def _order(config: Config) -> Iterator[str]:
    for name, pipeline in config["service"]["pipelines"].items():
        kinds = [part.partition("/")[0] for part in pipeline.get("processors", ())]
        if not kinds or kinds[0] != "memory_limiter":
            yield f"{name}: memory_limiter is not first"
        if "redaction" not in kinds:
            yield f"{name}: nothing is redacted"
        if "tail_sampling" in kinds:
            if not name.startswith("traces"):
                yield f"{name}: tail_sampling is for traces"
            if "redaction" in kinds and kinds.index("redaction") > kinds.index("tail_sampling"):
                yield f"{name}: what waits for its sampling decision is not redacted"


def _not_in_the_image(config: Config, image: str) -> Iterator[str]:
    if "contrib" in image:
        return
    for section in (*SECTIONS, "extensions"):
        for name in config.get(section, {}):
            if name.partition("/")[0] not in CORE:
                yield f"{name} is not in {image}"


def _deprecated(config: Config) -> Iterator[str]:
    for section in (*SECTIONS, "extensions"):
        for name in config.get(section, {}):
            kind = name.partition("/")[0]
            if kind in DEPRECATED:
                yield f"{name} is deprecated: {DEPRECATED[kind]}"
            if kind == "otlp" and section == "exporters":
                yield f"{name} is deprecated: otlp_grpc"


def _sizes(config: Config) -> Iterator[str]:
    for name, exporter in config["exporters"].items():
        if not name.startswith("otlp"):
            continue
        queue = exporter.get("sending_queue", {})
        batch = queue.get("batch")
        if batch is None:
            yield f"{name}: every span is a request of its own"
            continue
        if batch.get("sizer") != "bytes" or not 0 < batch["max_size"] <= MAX_MESSAGE_BYTES:
            yield f"{name}: a batch may be larger than a receiver takes"
        if not batch["min_size"] <= batch["max_size"] <= queue["queue_size"]:
            yield f"{name}: min_size <= max_size <= queue_size does not hold"
