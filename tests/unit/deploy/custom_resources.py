"""The shape of the resources of the Prometheus operator and of KEDA, as far as these files use it.

Written by hand from its API reference, https://prometheus-operator.dev/docs/api-reference/api/: an
API server drops a key that it does not know, and then nothing is scraped and nobody is told.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

DURATION = re.compile(r"(\d+(ms|[smhdwy]))+")
LABEL = re.compile(r"[a-zA-Z_][a-zA-Z0-9_]*")
METRIC = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")

ENDPOINT = {
    "port": str,
    "portNumber": int,
    "path": str,
    "interval": "duration",
    "scrapeTimeout": "duration",
    "scheme": str,
    "honorLabels": bool,
    "relabelings": list,
    "metricRelabelings": list,
}
MONITOR = {
    "selector": dict,
    "namespaceSelector": dict,
    "jobLabel": str,
    "sampleLimit": int,
    "labelLimit": int,
    "podTargetLabels": list,
}
RULE = {
    "record": str,
    "alert": str,
    "expr": str,
    "for": "duration",
    "keep_firing_for": "duration",
    "labels": dict,
    "annotations": dict,
}
SCALED = {
    "scaleTargetRef": dict,
    "pollingInterval": int,
    "cooldownPeriod": int,
    "minReplicaCount": int,
    "maxReplicaCount": int,
    "fallback": dict,
    "triggers": list,
}
REDIS_STREAMS = ("address", "stream", "consumerGroup", "lagCount", "activationLagCount")
GROUP = {"name": str, "interval": "duration", "limit": int, "labels": dict, "rules": list}


def faults(resource: Mapping[str, Any]) -> list[str]:
    """Return what is wrong with a resource of the Prometheus operator, or of KEDA."""
    kind, spec = resource["kind"], resource["spec"]
    found = [*_keys(resource, dict.fromkeys(("apiVersion", "kind", "metadata", "spec"), object))]
    if kind in {"ScaledObject", "TriggerAuthentication"}:
        return [*found, *_scaling(resource)]
    if resource["apiVersion"] != "monitoring.coreos.com/v1":
        found.append(f"apiVersion {resource['apiVersion']}")
    if kind == "PrometheusRule":
        return [*found, *_keys(spec, {"groups": list}), *_groups(spec.get("groups", []))]
    ends = {"PodMonitor": "podMetricsEndpoints", "ServiceMonitor": "endpoints"}[kind]
    found += _keys(spec, MONITOR | {ends: list})
    if not spec.get("selector", {}).get("matchLabels"):
        found.append("spec.selector.matchLabels: selects everything")
    found += _keys(spec.get("selector", {}), {"matchLabels": dict, "matchExpressions": list})
    if not spec.get(ends):
        found.append(f"spec.{ends}: nothing is scraped")
    for endpoint in spec.get(ends, ()):
        found += _keys(endpoint, ENDPOINT)
        if "port" not in endpoint and "portNumber" not in endpoint:
            found.append(f"spec.{ends}: no port")
    return found


def _scaling(resource: Mapping[str, Any]) -> Iterator[str]:
    """Yield faults of KEDA's resources: https://keda.sh/docs/latest/scalers/redis-streams/."""
    spec = resource["spec"]
    if resource["apiVersion"] != "keda.sh/v1alpha1":
        yield f"apiVersion {resource['apiVersion']}"
    if resource["kind"] == "TriggerAuthentication":
        yield from _keys(spec, {"secretTargetRef": list})
        for each in spec.get("secretTargetRef", ()):
            yield from _keys(each, {"parameter": str, "name": str, "key": str})
        return
    yield from _keys(spec, SCALED)
    yield from _keys(spec["scaleTargetRef"], {"name": str})
    yield from _keys(spec.get("fallback", {}), {"failureThreshold": int, "replicas": int})
    for trigger in spec["triggers"]:
        yield from _keys(trigger, {"type": str, "metadata": dict, "authenticationRef": dict})
        # Whatever it is, it is a text there.
        known = dict.fromkeys((*REDIS_STREAMS, "databaseIndex"), str)
        yield from _keys(trigger["metadata"], known)
        yield from (f"no {key}" for key in REDIS_STREAMS if key not in trigger["metadata"])


def _groups(groups: list[Mapping[str, Any]]) -> Iterator[str]:
    if not groups:
        yield "spec.groups: no rules"
    names = [group.get("name") for group in groups]
    if None in names or len(names) != len(set(names)):
        yield "spec.groups: names are missing or not unique"
    for group in groups:
        yield from _keys(group, GROUP)
        for rule in group.get("rules", ()):
            yield from _keys(rule, RULE)
            yield from _rule(rule)


def _rule(rule: Mapping[str, Any]) -> Iterator[str]:
    if ("record" in rule) == ("alert" in rule):
        yield f"a rule records or alerts: {rule}"
        return
    name = rule.get("record") or rule["alert"]
    if not rule.get("expr"):
        yield f"{name}: no expr"
    if "record" in rule:
        if not METRIC.fullmatch(name):
            yield f"{name} is no name of a series"
        if {"for", "keep_firing_for", "annotations"} & set(rule):
            yield f"{name}: only alerts wait and are annotated"
    for field in ("labels", "annotations"):
        for key, value in rule.get(field, {}).items():
            if not LABEL.fullmatch(key) or not isinstance(value, str):
                yield f"{name}: {field}.{key}"


def _keys(value: Mapping[str, Any], known: Mapping[str, Any]) -> Iterator[str]:
    for key, content in value.items():
        kind = known.get(key)
        if kind is None:
            yield f"unknown key {key}"
        elif kind == "duration":
            if not isinstance(content, str) or not DURATION.fullmatch(content):
                yield f"{key}: {content!r} is no duration"
        elif not isinstance(content, kind):
            yield f"{key}: {content!r}"
