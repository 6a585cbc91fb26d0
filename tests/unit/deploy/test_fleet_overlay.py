"""The overlay with a fleet: who reaches whom, how it is replaced, and by what it is scaled."""

from __future__ import annotations

import copy
from typing import Any

import pytest

from ragmonitor.cli.demo.run import SERVICE
from ragmonitor.fleet.fleet_stream import FleetStream
from ragmonitor.settings import FILE, PREFIX, VARIABLES, Settings
from ragmonitor.streams.redis_streams import GROUP
from tests.unit.deploy.custom_resources import faults
from tests.unit.deploy.manifests import FLEET as COMPOSE_FLEET
from tests.unit.deploy.manifests import (
    KUBERNETES,
    Kustomization,
    container,
    document,
    documents,
    images,
    named,
    services,
)

FLEET = KUBERNETES / "overlays" / "fleet"
FOUND = list(Kustomization(FLEET).resources())
PARTS = ("worker", "estimator")
PODS = (*PARTS, "redis")


def of_kind(kind: str) -> list[dict[str, Any]]:
    """Return the overlay's documents of a kind, the base's included."""
    return [one for one in FOUND if one["kind"] == kind]


def deployed(name: str) -> dict[str, Any]:
    """Return a part's Deployment or StatefulSet."""
    return named([*of_kind("Deployment"), *of_kind("StatefulSet")], name)


def labels(name: str) -> dict[str, str]:
    """Return the labels of a part's pods, with what the kustomization and its patch add."""
    added = {"app.kubernetes.io/part-of": "ragmonitor"}
    if name == "application":
        (patch,) = documents(FLEET / "application.yaml")
        added |= patch["spec"]["template"]["metadata"]["labels"]
    return added | deployed(name)["spec"]["template"]["metadata"]["labels"]


def chosen(selector: dict[str, Any], name: str) -> bool:
    """Return whether a selector takes a part's pods."""
    wanted: dict[str, str] = selector.get("matchLabels", {})
    return wanted.items() <= labels(name).items()


def policies(direction: str, name: str) -> list[dict[str, Any]]:
    """Return the rules of one direction that hold for a part's pods."""
    return [
        rule
        for policy in of_kind("NetworkPolicy")
        if chosen(policy["spec"]["podSelector"], name)
        for rule in policy["spec"].get(direction, ())
    ]


@pytest.mark.parametrize("name", PODS)
def test_pods_may_do_little(name: str):
    """What the restricted level of the Pod Security Standards asks, and a file system to read."""
    spec = deployed(name)["spec"]["template"]["spec"]
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    one = container(deployed(name))
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert {"startupProbe", "readinessProbe", "livenessProbe"} <= set(one)
    assert one["resources"]["requests"].keys() >= {"cpu", "memory"}
    assert one["resources"]["limits"].keys() == {"memory"}


def test_the_settings_are_accepted(monkeypatch: pytest.MonkeyPatch):
    """The file where the containers find it, and every variable beside it."""
    monkeypatch.chdir(FLEET)
    for name in PARTS:
        one = container(deployed(name))
        (mount,) = [each for each in one["volumeMounts"] if each["name"] == "settings"]
        assert mount["mountPath"] == one["workingDir"]
        told = {each["name"] for each in one["env"] if each["name"].startswith(PREFIX)}
        assert told <= VARIABLES
    (generator,) = [
        each
        for each in document(FLEET / "kustomization.yaml")["configMapGenerator"]
        if each["name"] == "fleet"
    ]
    assert generator["files"] == [FILE]
    settings = Settings.load()
    assert settings.service == SERVICE
    assert settings.server.host == "0.0.0.0"
    assert settings.budget.is_given


def test_all_use_one_stream():
    """By the address in a Secret that only its creator has."""
    (patch,) = documents(FLEET / "application.yaml")
    for one in (container(patch), *(container(deployed(name)) for name in PARTS)):
        (told,) = [each for each in one["env"] if each["name"] == "RAGMONITOR_STREAM"]
        assert told["valueFrom"] == {"secretKeyRef": {"name": "stream", "key": "url"}}
    assert of_kind("Secret") == []


def test_what_is_scaled_is_what_waits():
    """The stream of the service, its group, the workers, and as many at least as in compose."""
    (scaled,) = of_kind("ScaledObject")
    metadata = scaled["spec"]["triggers"][0]["metadata"]
    assert metadata["stream"] == FleetStream("redis://redis:6379/0", SERVICE)._key
    assert metadata["consumerGroup"] == GROUP
    host, port = metadata["address"].split(":")
    namespace = document(FLEET / "kustomization.yaml")["namespace"]
    (service,) = [one for one in of_kind("Service") if one["metadata"]["name"] == "redis"]
    assert host == f"redis.{namespace}.svc"
    assert int(port) == service["spec"]["ports"][0]["port"]
    assert scaled["spec"]["scaleTargetRef"]["name"] == "worker"
    assert scaled["spec"]["minReplicaCount"] == services(COMPOSE_FLEET)["worker"]["scale"]
    assert "replicas" not in deployed("worker")["spec"]
    (secret,) = of_kind("TriggerAuthentication")
    assert secret["metadata"]["name"] == scaled["spec"]["triggers"][0]["authenticationRef"]["name"]


def test_a_seeded_fault_is_found_in_what_scales():
    """A misspelt key, a number that is no text, and one that is missing."""
    (scaled,) = of_kind("ScaledObject")
    for key, value, complaint in (
        ("lagcount", "5", "unknown key lagcount"),
        ("lagCount", 5, "lagCount: 5"),
        ("stream", None, "no stream"),
    ):
        spoiled = copy.deepcopy(scaled)
        metadata = spoiled["spec"]["triggers"][0]["metadata"]
        metadata |= {key: value}
        if value is None:
            del metadata[key]
        assert complaint in faults(spoiled)


@pytest.mark.parametrize("name", PARTS)
def test_an_update_leaves_no_gap(name: str):
    """A new one is there before an old one goes, and has time to give back what it has."""
    spec = deployed(name)["spec"]
    assert spec["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}
    assert spec["template"]["spec"]["terminationGracePeriodSeconds"] >= 20
    (disruption,) = [one for one in of_kind("PodDisruptionBudget") if chosen_by(one, name)]
    assert disruption["spec"]["maxUnavailable"] == 1


def chosen_by(resource: dict[str, Any], name: str) -> bool:
    """Return whether a resource's selector takes a part's pods."""
    return chosen(resource["spec"]["selector"], name)


def test_one_stands_by():
    """For long enough to be ready to take over before the next one is replaced."""
    spec = deployed("estimator")["spec"]
    assert spec["replicas"] == 2
    assert spec["minReadySeconds"] >= 10
    assert not [one for one in of_kind("PodDisruptionBudget") if chosen_by(one, "redis")]


@pytest.mark.parametrize("name", ["application", *PARTS])
def test_who_uses_the_stream_reaches_it(name: str):
    """Out of its own pod, and into that of Redis; nobody else but KEDA does."""
    (redis,) = [one["containerPort"] for one in container(deployed("redis"))["ports"]]
    out = [
        rule
        for rule in policies("egress", name)
        if {"port": redis, "protocol": "TCP"} in rule["ports"]
    ]
    assert [peer for rule in out for peer in rule["to"] if chosen(peer["podSelector"], "redis")]
    (into,) = policies("ingress", "redis")
    pods, spaces = into["from"]
    assert chosen(pods["podSelector"], name)
    assert not chosen(pods["podSelector"], "otelcol")
    assert spaces == {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "keda"}}}


@pytest.mark.parametrize("name", PODS)
def test_everything_is_denied_but_what_is_allowed(name: str):
    """As in the base; and Redis itself goes nowhere but to the name service."""
    denying = named(of_kind("NetworkPolicy"), "deny-all")["spec"]
    assert chosen(denying["podSelector"], name)
    if name == "redis":
        (dns,) = policies("egress", name)
        assert {each["port"] for each in dns["ports"]} == {53}


@pytest.mark.parametrize("name", PARTS)
def test_each_is_scraped_once(name: str):
    """By its pods, as applications are."""
    (monitor,) = of_kind("PodMonitor")
    assert chosen_by(monitor, name)
    ports = {one["name"] for one in container(deployed(name))["ports"]}
    assert {one["port"] for one in monitor["spec"]["podMetricsEndpoints"]} <= ports


def test_redis_keeps_what_it_takes():
    """As in compose: the same image, and the same options but for sizes and the password."""
    words = container(deployed("redis"))["args"]
    told = dict(zip(words[::2], words[1::2], strict=True))
    other = services(COMPOSE_FLEET)["redis"]["command"][1:]
    for option, value in zip(other[::2], other[1::2], strict=True):
        assert option == "--maxmemory" or told[option] == value
    assert told["--requirepass"] == "$(REDISCLI_AUTH)"
    (claim,) = deployed("redis")["spec"]["volumeClaimTemplates"]
    (mount,) = container(deployed("redis"))["volumeMounts"]
    assert (mount["name"], mount["mountPath"]) == (claim["metadata"]["name"], told["--dir"])
    assert len(images()["redis"]) == 2
