"""What the `OTEL_*` variables ask for. Nothing else of the exporters reads them.

By https://opentelemetry.io/docs/specs/otel/configuration/sdk-environment-variables/ and
https://opentelemetry.io/docs/specs/otel/protocol/exporter/: an empty variable is an unset one, and
a variable of one signal goes before that of all.
"""

from __future__ import annotations

import os
from typing import Final, Literal
from urllib.parse import unquote

from opentelemetry.util.re import parse_env_headers

from ragmonitor.export.content import Content, package_version
from ragmonitor.export.posting import Server
from ragmonitor.semconv.conventions import OI_PROJECT_NAME, OTEL_SERVICE_NAME, OTEL_SERVICE_VERSION

Signal = Literal["TRACES", "LOGS"]

HTTP: Final = "http/protobuf"
_TLS: Final = {
    "ca_certs": "CERTIFICATE",
    "cert_file": "CLIENT_CERTIFICATE",
    "key_file": "CLIENT_KEY",
}


def otlp_protocol(signal: Signal) -> str | None:
    """Return the OTLP protocol that is set for this signal; None: nothing is exported."""
    exporters = variable(f"{signal}_EXPORTER")
    if variable("SDK_DISABLED").lower() == "true" or not otlp_address(signal):
        return None
    if exporters and not any(name.strip().startswith("otlp") for name in exporters.split(",")):
        return None
    return _of(signal, "PROTOCOL") or HTTP


def otlp_address(signal: Signal) -> str:
    """Return the address that is set for this signal, or for all; empty: none."""
    return _of(signal, "ENDPOINT")


def otlp_url(signal: Signal) -> str:
    """Return the address to post this signal to."""
    own = variable(f"EXPORTER_OTLP_{signal}_ENDPOINT")
    return own or f"{otlp_address(signal).rstrip('/')}/v1/{signal.lower()}"


def otlp_server(signal: Signal) -> Server:
    """Return the server at that address, with the headers, certificates and time that are set."""
    headers = {"Content-Type": "application/x-protobuf"}
    if is_compressed(signal):
        headers["Content-Encoding"] = "gzip"
    timeout = _of(signal, "TIMEOUT")
    headers |= parse_env_headers(_of(signal, "HEADERS"), liberal=True)
    return Server(
        "OTLP",
        headers=headers,
        key_setting="OTEL_EXPORTER_OTLP_HEADERS",
        reply_s=float(timeout) if timeout.replace(".", "", 1).isdecimal() else None,
        tls={option: file for option, name in _TLS.items() if (file := _of(signal, name))},
    )


def is_compressed(signal: Signal) -> bool:
    """Return whether bodies are compressed: by gzip, the only way that OTLP names."""
    return _of(signal, "COMPRESSION").lower() == "gzip"


def captured_content(signal: Signal) -> Content:
    """Return whether OpenTelemetry's own setting wants texts in spans, or in log events.

    By the GenAI conventions: `SPAN_ONLY`, `EVENT_ONLY`, `SPAN_AND_EVENT`, or `true` as it was.
    """
    wanted = variable("INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT").upper()
    word = "SPAN" if signal == "TRACES" else "EVENT"
    return "all" if wanted == "TRUE" or word in wanted.split("_") else "none"


def resource(service: str, version: str) -> dict[str, str]:
    """Return the attributes of the resource: what is set, and our own where nothing is.

    Args:
        service: The service's name.
        version: Its version; empty: none.
    """
    pairs = (pair.partition("=") for pair in variable("RESOURCE_ATTRIBUTES").split(","))
    given = {name.strip(): unquote(value.strip()) for name, sign, value in pairs if sign}
    name = variable("SERVICE_NAME") or given.get(OTEL_SERVICE_NAME) or service
    own = {
        "telemetry.sdk.language": "python",
        "telemetry.sdk.name": "ragmonitor",
        "telemetry.sdk.version": package_version(),
        OI_PROJECT_NAME: name,
    }
    if version:
        own[OTEL_SERVICE_VERSION] = version
    return own | given | {OTEL_SERVICE_NAME: name}


def variable(name: str) -> str:
    """Return the value of an `OTEL_` variable; empty: it is not set."""
    value = os.environ.get(f"OTEL_{name}", "").strip()
    return value.encode("utf-8", "replace").decode()  # bytes that are no text


def _of(signal: Signal, name: str) -> str:
    return variable(f"EXPORTER_OTLP_{signal}_{name}") or variable(f"EXPORTER_OTLP_{name}")
