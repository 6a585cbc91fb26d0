"""The Kubernetes manifests: what they name exists, and fits together."""

from __future__ import annotations

import copy
import json
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from ragmonitor.cli.options import RulesOptions
from ragmonitor.cli.rules import written
from ragmonitor.settings import PREFIX, VARIABLES, Settings
from tests.unit.deploy.custom_resources import faults
from tests.unit.deploy.manifests import (
    BASE,
    DEPLOY,
    KUBERNETES,
    OVERLAYS,
    Kustomization,
    base_resources,
    container,
    document,
    documents,
    named,
)

OLDEST = "1.30"
"""Version of Kubernetes whose schemas are asked."""
RULES = BASE / "prometheusrule.yaml"
DASHBOARDS = tuple(sorted((DEPLOY / "grafana" / "dashboards").glob("*.json")))
MAX_CONFIG_MAP_BYTES = 1024 * 1024
MAX_ANNOTATION_BYTES = 256 * 1024
"""`kubectl apply` notes the whole object down in one annotation."""
CUSTOM = {"PodMonitor", "ServiceMonitor", "PrometheusRule"}
OF_KEDA = {"ScaledObject", "TriggerAuthentication"}
PODS = ("application", "otelcol")

everywhere = pytest.mark.parametrize("overlay", OVERLAYS, ids=lambda path: path.name)


def pod(name: str) -> dict[str, Any]:
    """Return the pod's specification of a Deployment."""
    found: dict[str, Any] = named(base_resources("Deployment"), name)["spec"]["template"]["spec"]
    return found


def template_labels(name: str) -> dict[str, str]:
    """Return the labels of a Deployment's pods, with those that the kustomization adds."""
    added = document(BASE / "kustomization.yaml")["labels"]
    labels: dict[str, str] = {}
    for entry in added:
        labels |= entry["pairs"] if entry["includeTemplates"] else {}
    own = named(base_resources("Deployment"), name)["spec"]["template"]["metadata"]["labels"]
    return labels | dict(own)


def selects(selector: Mapping[str, Any], labels: Mapping[str, str]) -> bool:
    """Return whether a selector's labels are all there."""
    wanted: Mapping[str, str] = selector.get("matchLabels", selector)
    return wanted.items() <= labels.items()


def rendered(overlay: Path) -> list[dict[str, Any]]:
    """Return what kustomize makes of an overlay; skip without kustomize."""
    if kubectl := shutil.which("kubectl"):
        command = [kubectl, "kustomize", str(overlay)]
    elif kustomize := shutil.which("kustomize"):
        command = [kustomize, "build", str(overlay)]
    else:
        pytest.skip("neither kubectl nor kustomize is installed")
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return [found for found in yaml.safe_load_all(done.stdout) if found]


def check(found: list[dict[str, Any]]) -> None:
    """Hold every document against its schema, the operator's against its shape."""
    for one in found:
        if one["kind"] in CUSTOM | OF_KEDA:
            assert faults(one) == [], one["metadata"]["name"]
        else:
            kubernetes_validate.validate(one, OLDEST, strict=True)


@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=lambda path: path.name)
def test_everything_that_is_named_exists(folder: Path):
    """Resources, patches, and the files of generated ConfigMaps."""
    files = list(Kustomization(folder).files())
    assert files
    assert [path for path in files if not path.is_file()] == []


def test_nothing_stands_there_unnamed():
    """A manifest in no kustomization is applied by nobody."""
    named_there = {
        path.resolve()
        for folder in (BASE, *OVERLAYS)
        for path in [folder / "kustomization.yaml", *Kustomization(folder).files()]
    }
    assert {path for path in KUBERNETES.rglob("*.yaml") if path not in named_there} == set()


def test_the_base_is_valid():
    """Each document by itself, generated ConfigMaps included."""
    found = list(Kustomization(BASE).resources())
    assert {"Deployment", "Service", "ConfigMap", "NetworkPolicy"} | CUSTOM == {
        one["kind"] for one in found
    }
    check(found)


@everywhere
def test_an_overlay_is_valid(overlay: Path):
    """What it adds."""
    check(list(Kustomization(overlay).resources()))


@everywhere
def test_an_overlay_is_valid_as_it_is_applied(overlay: Path):
    """As kustomize patches and names it."""
    found = rendered(overlay)
    check(found)
    namespace = document(overlay / "kustomization.yaml")["namespace"]
    for one in found:
        if one["kind"] != "Namespace":
            assert one["metadata"]["namespace"] == namespace
        assert one["metadata"]["labels"]["release"] == "kube-prometheus-stack"


@everywhere
def test_the_collectors_files_are_mounted_under_their_generated_name(overlay: Path):
    """With every file that it is told to read."""
    found = rendered(overlay)
    deployment = named([one for one in found if one["kind"] == "Deployment"], "otelcol")
    (volume,) = deployment["spec"]["template"]["spec"]["volumes"]
    maps = [one for one in found if one["kind"] == "ConfigMap"]
    held = named(maps, volume["configMap"]["name"])["data"]
    assert volume["configMap"]["name"] != "otelcol"  # a change of the files restarts the pod
    read = [text.removeprefix("--config=/etc/otelcol/") for text in container(deployment)["args"]]
    assert set(read) <= set(held)
    assert read[0] == "collector.yaml"


@everywhere
def test_patches_change_what_is_there(overlay: Path):
    """A patch for a misspelt name, or of a misspelt container, would add instead of change."""
    there = list(Kustomization(BASE).resources())
    for patch in Kustomization(overlay).patches():
        same_kind = [one for one in there if one["kind"] == patch["kind"]]
        below = named(same_kind, patch["metadata"]["name"])
        assert container(patch)["name"] == container(below)["name"]


def test_production_keeps_its_state():
    """In a claimed volume instead of one that ends with the pod."""
    production = KUBERNETES / "overlays" / "prod"
    deployments = [one for one in rendered(production) if one["kind"] == "Deployment"]
    spec = named(deployments, "application")["spec"]["template"]["spec"]
    (state,) = [volume for volume in spec["volumes"] if volume["name"] == "state"]
    assert state == {"name": "state", "persistentVolumeClaim": {"claimName": "state"}}
    (claim,) = documents(production / "state.yaml")
    assert claim["metadata"]["name"] == "state"


def test_one_pod_at_a_time_writes_the_state():
    """A volume of one node's: the new pod waits for the old one's end."""
    application = named(base_resources("Deployment"), "application")["spec"]
    assert application["replicas"] == 1
    assert application["strategy"] == {"type": "Recreate"}


def test_the_rules_are_those_that_are_tested():
    """Of the rule file that promtool runs, to the letter."""
    (path,) = (DEPLOY / "prometheus" / "rules").glob("*.yml")
    assert document(RULES)["spec"] == document(path)


def test_the_rules_are_the_output_of_the_command():
    """Which stands on top of the file."""
    assert RULES.read_text(encoding="utf-8") == written(RulesOptions(form="kubernetes"))


def test_every_dashboard_is_a_config_map_that_grafana_finds():
    """Its sidecar looks for the label."""
    held: dict[str, str] = {}
    for one in Kustomization(DEPLOY / "grafana").resources():
        assert one["metadata"]["labels"] == {"grafana_dashboard": "1"}
        held |= one["data"]
    assert held == {path.name: path.read_text(encoding="utf-8") for path in DASHBOARDS}


@pytest.mark.parametrize("folder", [BASE, *OVERLAYS], ids=lambda path: path.name)
def test_config_maps_are_small_enough(folder: Path):
    """For Kubernetes, and for the annotation that `kubectl apply` writes."""
    for one in Kustomization(folder).resources():
        if one["kind"] == "ConfigMap":
            size = sum(len(text.encode()) for text in one["data"].values())
            assert size < MAX_CONFIG_MAP_BYTES
        applied = json.dumps(one, ensure_ascii=False).encode()
        assert len(applied) < MAX_ANNOTATION_BYTES, one["metadata"]["name"]


def test_no_pod_is_scraped_twice():
    """Its counters would be summed twice."""
    monitors = [one for kind in ("PodMonitor", "ServiceMonitor") for one in base_resources(kind)]
    assert len(monitors) == 2
    services = base_resources("Service")
    for name in PODS:
        labels = template_labels(name)
        scraping = []
        for monitor in monitors:
            selector = monitor["spec"]["selector"]
            if monitor["kind"] == "PodMonitor":
                scraping += [monitor] if selects(selector, labels) else []
                continue
            scraping += [
                monitor
                for service in services
                if selects(selector, service["metadata"].get("labels", {}))
                and selects(service["spec"].get("selector", {"none": "here"}), labels)
            ]
        assert len(scraping) == 1, name


def test_applications_are_scraped_by_their_pods():
    """By a Service, the label `service` of every series would be renamed."""
    (monitor,) = base_resources("PodMonitor")
    assert selects(monitor["spec"]["selector"], template_labels("application"))
    (other,) = base_resources("ServiceMonitor")
    assert not selects(other["spec"]["selector"], template_labels("application"))


def test_monitors_name_ports_that_exist():
    """A PodMonitor the container's, a ServiceMonitor the Service's."""
    (pods,) = base_resources("PodMonitor")
    ports = {one["name"] for one in pod("application")["containers"][0]["ports"]}
    assert {one["port"] for one in pods["spec"]["podMetricsEndpoints"]} <= ports
    (services,) = base_resources("ServiceMonitor")
    ports = {one["name"] for one in named(base_resources("Service"), "otelcol")["spec"]["ports"]}
    assert {one["port"] for one in services["spec"]["endpoints"]} <= ports


def test_services_lead_to_ports_that_exist():
    """By name, to the pods that they select."""
    leading = 0
    for service in base_resources("Service"):
        if "selector" not in service["spec"]:
            continue
        for name in PODS:
            if selects(service["spec"]["selector"], template_labels(name)):
                ports = {one["name"] for one in pod(name)["containers"][0]["ports"]}
                assert {one["targetPort"] for one in service["spec"]["ports"]} <= ports
                leading += 1
    assert leading == len(PODS)


@pytest.mark.parametrize("name", PODS)
def test_pods_may_do_little(name: str):
    """What the restricted level of the Pod Security Standards asks, and a file system to read."""
    spec = pod(name)
    assert spec["automountServiceAccountToken"] is False
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    (one,) = spec["containers"]
    assert one["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }


@pytest.mark.parametrize("name", PODS)
def test_pods_say_how_they_are_and_what_they_need(name: str):
    """Probes on ports that they have; memory limited, since what grows without bound is a bug."""
    (one,) = pod(name)["containers"]
    ports = {port["name"] for port in one["ports"]}
    for probe in ("readinessProbe", "livenessProbe"):
        assert one[probe]["httpGet"]["port"] in ports
    assert one["resources"]["requests"].keys() >= {"cpu", "memory"}
    assert one["resources"]["limits"]["memory"]


def test_variables_of_ragmonitor_are_settings():
    """A misspelt one would be refused at the start, and the pod with it."""
    told = {
        one["name"] for one in container(named(base_resources("Deployment"), "application"))["env"]
    }
    for overlay in OVERLAYS:
        for patch in Kustomization(overlay).patches():
            told |= {one["name"] for one in container(patch).get("env", ())}
    ours = {name for name in told if name.startswith(PREFIX)}
    assert {"RAGMONITOR_OBJECTIVES", "RAGMONITOR_STATE"} <= ours <= VARIABLES


def test_the_settings_of_production_are_accepted(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    """All together, by what reads them."""
    monkeypatch.chdir(tmp_path)
    (patch,) = documents(KUBERNETES / "overlays" / "prod" / "application.yaml")
    for one in container(patch)["env"]:
        monkeypatch.setenv(one["name"], one["value"])
    settings = Settings.load()
    assert settings.objectives == {"hallucination": 0.05, "faithfulness": 0.9}
    assert settings.content.policy == "none"


def test_everything_is_denied_but_what_is_allowed():
    """One policy for all pods in both directions; the others open ports by name."""
    denying = named(base_resources("NetworkPolicy"), "deny-all")["spec"]
    assert denying["policyTypes"] == ["Ingress", "Egress"]
    assert not {"ingress", "egress"} & set(denying)
    for name in PODS:
        assert selects(denying["podSelector"], template_labels(name))


def test_policies_select_pods_and_open_ports_that_exist():
    """A policy for nobody, or of a port that nobody has, opens nothing."""
    for policy in base_resources("NetworkPolicy"):
        chosen = [
            name for name in PODS if selects(policy["spec"]["podSelector"], template_labels(name))
        ]
        assert chosen, policy["metadata"]["name"]
        ports = {port["name"] for name in chosen for port in pod(name)["containers"][0]["ports"]}
        for rule in policy["spec"].get("ingress", ()):
            assert rule["from"]
            assert {one["port"] for one in rule["ports"]} <= ports
        for rule in policy["spec"].get("egress", ()):
            assert rule["to"]
            assert rule["ports"]


def test_what_the_collector_sends_to_is_open():
    """The ports of Tempo and Phoenix."""
    policy = named(base_resources("NetworkPolicy"), "otelcol")["spec"]
    opened = {one["port"] for rule in policy["egress"] for one in rule["ports"]}
    outside = [one for one in base_resources("Service") if one["spec"].get("externalName")]
    assert {one["spec"]["ports"][0]["port"] for one in outside} == opened


def _misspell_endpoint(pods: dict[str, Any], _: dict[str, Any]) -> None:
    pods["spec"]["podMetricsEndpoints"][0]["intervall"] = "15s"


def _no_duration(pods: dict[str, Any], _: dict[str, Any]) -> None:
    pods["spec"]["podMetricsEndpoints"][0]["interval"] = 15


def _everything(pods: dict[str, Any], _: dict[str, Any]) -> None:
    pods["spec"]["selector"] = {}


def _misspell_rule(_: dict[str, Any], rules: dict[str, Any]) -> None:
    rule = rules["spec"]["groups"][-1]["rules"][0]
    rule["foor"] = "1m"


def _both(_: dict[str, Any], rules: dict[str, Any]) -> None:
    rules["spec"]["groups"][-1]["rules"][0] |= {"record": "a:b", "alert": "C"}


def _twice(_: dict[str, Any], rules: dict[str, Any]) -> None:
    rules["spec"]["groups"].append(rules["spec"]["groups"][0])


@pytest.mark.parametrize(
    ("spoil", "complaint"),
    [
        (_misspell_endpoint, "unknown key intervall"),
        (_no_duration, "interval: 15 is no duration"),
        (_everything, "spec.selector.matchLabels: selects everything"),
        (_misspell_rule, "unknown key foor"),
        (_both, "a rule records or alerts"),
        (_twice, "spec.groups: names are missing or not unique"),
    ],
)
def test_a_seeded_fault_is_found_in_a_custom_resource(spoil: Any, complaint: str):
    """So that a shape without complaints says something."""
    (pods,) = copy.deepcopy(base_resources("PodMonitor"))
    (rules,) = copy.deepcopy(base_resources("PrometheusRule"))
    spoil(pods, rules)
    assert any(found.startswith(complaint) for found in [*faults(pods), *faults(rules)])


def test_a_seeded_fault_is_found_in_a_resource_of_kubernetes():
    """A misspelt key, and a port that is no number."""
    for key, value in (("replica", 2), ("replicas", "two")):
        spoiled = copy.deepcopy(named(base_resources("Deployment"), "application"))
        spoiled["spec"][key] = value
        with pytest.raises(kubernetes_validate.ValidationError):
            kubernetes_validate.validate(spoiled, OLDEST, strict=True)
