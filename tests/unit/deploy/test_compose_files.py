"""The compose files: who can reach what, what is pinned, what is mounted."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from ragmonitor.cli.demo.run import SERVICE
from ragmonitor.settings import PREFIX, VARIABLES, ServerSettings
from tests.unit.deploy.manifests import (
    COMPOSE,
    DEPLOY,
    FLEET,
    PHOENIX,
    ROOT,
    document,
    documents,
    images,
    services,
)

STACK = services(COMPOSE, PHOENIX)
"""With Phoenix, and without a fleet, which has another configuration of Prometheus."""
OF_FLEET = services(COMPOSE, FLEET)
ALL = services(COMPOSE, PHOENIX, FLEET)
PROMETHEUS = DEPLOY / "compose" / "prometheus.yml"
PROMETHEUS_OF_FLEET = DEPLOY / "compose" / "prometheus.fleet.yml"
VOLUMES = {name for path in (COMPOSE, PHOENIX, FLEET) for name in document(path)["volumes"]}
NO_HTTP = {"redis"}
PARTS = ("worker", "estimator", "standby")
DATASOURCES = DEPLOY / "grafana" / "provisioning" / "datasources" / "ragmonitor.yml"
PROVIDERS = DEPLOY / "grafana" / "provisioning" / "dashboards" / "ragmonitor.yml"
WITHOUT_SHELL = {"otelcol", "tempo"}
"""Their images hold one binary: nothing in them can ask whether they are well."""
OURS = "ragmonitor-demo"


def mounts(service: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return source, target and mode of a service's volumes."""
    found = []
    for text in service.get("volumes", ()):
        source, target, *mode = text.split(":")
        found.append((source, target, mode[0] if mode else "rw"))
    return found


def published() -> dict[str, set[str]]:
    """Return the ports within the containers that are published, by service."""
    return {
        name: {text.rsplit(":", 1)[1] for text in service.get("ports", ())}
        for name, service in ALL.items()
    }


def test_the_stack_is_complete():
    """All that a page needs from the answer to the pager."""
    assert set(services(COMPOSE)) == {
        "demo",
        "otelcol",
        "tempo",
        "prometheus",
        "alertmanager",
        "alerts",
        "grafana",
    }
    assert set(STACK) - set(services(COMPOSE)) == {"phoenix"}
    assert set(OF_FLEET) - set(services(COMPOSE)) == {"redis", *PARTS}


@pytest.mark.parametrize("name", ALL)
def test_ports_are_published_on_loopback_only(name: str):
    """Nothing here asks who you are."""
    for port in ALL[name].get("ports", ()):
        assert re.fullmatch(r"127\.0\.0\.1:\d+:\d+", port)


def test_no_two_services_want_one_port():
    """Of this machine."""
    ports = [port.split(":")[1] for service in ALL.values() for port in service.get("ports", ())]
    assert len(ports) == len(set(ports))


def test_images_are_pinned():
    """By a version, the same wherever an image is named; ours is built here."""
    for name, places in images().items():
        tags = {tag for _, tag in places}
        assert len(tags) == 1, places
        (tag,) = tags
        assert tag == "local" if name == OURS else re.search(r"\d+\.\d+\.\d+", tag), name


@pytest.mark.parametrize("name", sorted(set(ALL) - WITHOUT_SHELL - NO_HTTP))
def test_every_service_says_whether_it_is_well(name: str):
    """Within its container, on the port that it listens on."""
    check = " ".join(ALL[name]["healthcheck"]["test"])
    (port,) = re.findall(r"http://127\.0\.0\.1:(\d+)/", check)
    assert port in published()[name] | set(ALL[name].get("expose", ()))


@pytest.mark.parametrize("name", sorted(WITHOUT_SHELL))
def test_what_cannot_say_so_is_scraped(name: str):
    """Then `up` says it, and nobody waits for a health that never comes."""
    assert "healthcheck" not in ALL[name]
    (stack,) = [one for one in document(PROMETHEUS)["scrape_configs"] if one["job_name"] == "stack"]
    targets = stack["static_configs"][0]["targets"]
    assert [target for target in targets if target.startswith(f"{name}:")]
    for service in ALL.values():
        waiting = service.get("depends_on", {})
        assert waiting.get(name, {}).get("condition") != "service_healthy"


@pytest.mark.parametrize("name", ALL)
def test_resources_are_limited_and_rights_dropped(name: str):
    """A stack to look at must not take the machine with it."""
    service = ALL[name]
    assert service["mem_limit"]
    assert service["cpus"]
    assert service["pids_limit"]
    assert service["cap_drop"] == ["ALL"]
    assert "no-new-privileges:true" in service["security_opt"]


@pytest.mark.parametrize("name", ALL)
def test_files_are_mounted_to_be_read(name: str):
    """Each exists; only named volumes are written to."""
    for source, _, mode in mounts(ALL[name]):
        if source.startswith("."):
            assert (DEPLOY / source).exists()
            assert mode == "ro"
        else:
            assert mode == "rw"
            assert source in VOLUMES


@pytest.mark.parametrize("name", sorted(OF_FLEET))
def test_a_read_only_container_has_room_for_what_it_writes(name: str):
    """A volume, or a folder in memory."""
    service = ALL[name]
    assert service["read_only"] is True
    if name != "otelcol":  # keeps nothing
        assert service.get("tmpfs") or [m for *_, m in mounts(service) if m == "rw"]


def test_variables_of_ragmonitor_are_settings():
    """A misspelt one would be refused at the start."""
    for service in ALL.values():
        for variable in service.get("environment", {}):
            if variable.startswith(PREFIX):
                assert variable in VARIABLES


def test_metrics_are_served_to_the_network_of_the_stack():
    """And by the port that Prometheus asks."""
    demo = ALL["demo"]
    assert demo["environment"]["RAGMONITOR_SERVER__HOST"] == "0.0.0.0"
    port = ServerSettings.model_fields["port"].default
    (job,) = [one for one in document(PROMETHEUS)["scrape_configs"] if one["job_name"] != "stack"]
    assert job["static_configs"][0]["targets"] == [f"demo:{port}"]
    assert str(port) in published()["demo"]


@pytest.mark.parametrize("path", [PROMETHEUS, PROMETHEUS_OF_FLEET], ids=lambda path: path.name)
def test_prometheus_asks_and_alerts_services_of_the_stack(path: Path):
    """By their names, on ports that they listen on."""
    content = document(path)
    configs = [
        *(one for job in content["scrape_configs"] for one in job["static_configs"]),
        *(one for am in content["alerting"]["alertmanagers"] for one in am["static_configs"]),
    ]
    for target in [target for one in configs for target in one["targets"]]:
        host, port = target.split(":")
        name = "prometheus" if host == "localhost" else host
        assert port in published()[name] | set(ALL[name].get("expose", ()))


def test_every_process_of_a_fleet_is_scraped():
    """Workers by a name with an address for each; nothing else differs from the stack's file."""
    content, plain = document(PROMETHEUS_OF_FLEET), document(PROMETHEUS)
    (job, stack), (plain_job, plain_stack) = content["scrape_configs"], plain["scrape_configs"]
    port = ServerSettings.model_fields["port"].default
    asked = {target.split(":")[0] for target in job["static_configs"][0]["targets"]}
    (found,) = job["dns_sd_configs"]
    assert (found["type"], found["port"]) == ("A", port)
    assert asked | set(found["names"]) == {"demo", *PARTS}
    assert job["job_name"] == plain_job["job_name"]
    assert (stack, content["alerting"]) == (plain_stack, plain["alerting"])
    assert (content["global"], content["rule_files"]) == (plain["global"], plain["rule_files"])
    mounted = {target: source for source, target, _ in mounts(OF_FLEET["prometheus"])}
    path = DEPLOY / mounted["/etc/prometheus/prometheus.yml"]
    assert path.resolve() == PROMETHEUS_OF_FLEET


def test_a_fleet_has_one_stream_and_the_same_settings():
    """Of the demo's service; a page only on the ports of those who estimate."""
    first, *others = (OF_FLEET[name]["environment"] for name in PARTS)
    for other in others:
        assert first.items() <= other.items()
    assert first["RAGMONITOR_SERVICE"] == SERVICE
    assert OF_FLEET["demo"]["environment"]["RAGMONITOR_STREAM"] == first["RAGMONITOR_STREAM"]
    host, port = first["RAGMONITOR_STREAM"].removeprefix("redis://").removesuffix("/0").split(":")
    assert port in OF_FLEET[host]["expose"]
    assert OF_FLEET["worker"]["scale"] == 2
    assert "ports" not in OF_FLEET["worker"] | OF_FLEET["redis"]


def test_redis_keeps_what_it_takes():
    """On a volume, and refuses instead of forgetting; with room to rewrite its file."""
    words = OF_FLEET["redis"]["command"][1:]
    told = dict(zip(words[::2], words[1::2], strict=True))
    assert told["--appendonly"] == "yes"
    assert told["--maxmemory-policy"] == "noeviction"
    assert ("redis-data", "/data", "rw") in mounts(OF_FLEET["redis"])
    limit = int(OF_FLEET["redis"]["mem_limit"].removesuffix("m"))
    assert limit > 2 * int(told["--maxmemory"].removesuffix("mb"))


def test_the_rules_are_those_that_are_tested():
    """Mounted where the configuration looks for them, not copied."""
    found = {target: source for source, target, _ in mounts(ALL["prometheus"])}
    assert found["/etc/prometheus/rules"] == "./prometheus/rules"
    plain = document(DEPLOY / "prometheus" / "prometheus.yml")
    assert document(PROMETHEUS)["rule_files"] == plain["rule_files"] == ["rules/*.yml"]


def test_exemplars_are_kept():
    """Prometheus throws them away unless told to keep them."""
    assert "--enable-feature=exemplar-storage" in ALL["prometheus"]["command"]


def test_alertmanager_gossips_with_nobody():
    """Its default listens on every interface."""
    assert "--cluster.listen-address=" in ALL["alertmanager"]["command"]


def test_grafana_finds_its_dashboards_and_sources():
    """Where the provisioning files say they are."""
    found = {target: source for source, target, _ in mounts(ALL["grafana"])}
    assert found["/etc/grafana/provisioning"] == "./grafana/provisioning"
    (provider,) = document(PROVIDERS)["providers"]
    dashboards = found[provider["options"]["path"]]
    home = Path(ALL["grafana"]["environment"]["GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH"])
    assert str(home.parent) == provider["options"]["path"]
    assert (DEPLOY / dashboards / home.name).is_file()


def test_grafanas_sources_are_services_of_the_stack():
    """With the interval at which Prometheus scrapes, which $__rate_interval follows from."""
    for source in document(DATASOURCES)["datasources"]:
        host, port = source["url"].removeprefix("http://").split(":")
        assert port in published()[host]
        if source["type"] == "prometheus":
            interval = document(PROMETHEUS)["global"]["scrape_interval"]
            assert source["jsonData"]["timeInterval"] == interval


def test_who_looks_at_grafana_changes_nothing():
    """No account, no password that everybody knows."""
    environment = ALL["grafana"]["environment"]
    assert environment["GF_AUTH_ANONYMOUS_ORG_ROLE"] == "Viewer"
    assert environment["GF_AUTH_BASIC_ENABLED"] == "false"
    assert environment["GF_SECURITY_DISABLE_INITIAL_ADMIN_CREATION"] == "true"


def test_links_in_alerts_open_the_grafana_of_the_stack():
    """The rules are written with its address."""
    url = ALL["grafana"]["environment"]["GF_SERVER_ROOT_URL"]
    (rules,) = (DEPLOY / "prometheus" / "rules").glob("*.yml")
    links = re.findall(r"http://[^/\s]+", rules.read_text(encoding="utf-8"))
    assert links
    assert set(links) == {url}


def test_with_phoenix_the_collector_sends_there_too():
    """The first file and the second over it, and scores by REST."""
    files = [text.removeprefix("--config=/etc/otelcol/") for text in ALL["otelcol"]["command"]]
    assert files == ["collector.yaml", "phoenix.yaml"]
    assert all((DEPLOY / "otelcol" / name).is_file() for name in files)
    url = ALL["demo"]["environment"]["RAGMONITOR_EXPORTERS"].removeprefix("phoenix:")
    endpoint = document(DEPLOY / "otelcol" / "phoenix.yaml")["exporters"]["otlp_http/phoenix"]
    assert url == endpoint["endpoint"]
    assert "demo-state:/var/lib/ragmonitor" in ALL["demo"]["volumes"]


def test_phoenix_is_the_one_that_is_tested():
    """The package's version in the tests that start one."""
    constraints = (ROOT / "tests" / "support" / "phoenix-constraints.txt").read_text("utf-8")
    (version,) = re.findall(r"(?m)^arize-phoenix==(\S+)$", constraints)
    assert images()["arizephoenix/phoenix"][0][1] == f"version-{version}"


@pytest.mark.parametrize("path", [COMPOSE, PHOENIX, FLEET], ids=lambda path: path.name)
def test_the_files_have_no_name_at_the_top(path: Path):
    """docker-compose 1.29 refuses it, and wants no version either for what is used here."""
    assert not {"name", "version"} & set(document(path))


def test_the_dockerfile_copies_what_exists():
    """From the project's root, and nothing that its ignore file keeps out."""
    text = (DEPLOY / "docker" / "Dockerfile").read_text(encoding="utf-8")
    ignored = (DEPLOY / "docker" / "Dockerfile.dockerignore").read_text(encoding="utf-8")
    let_in = {line[1:] for line in ignored.splitlines() if line.startswith("!")}
    copied: set[str] = set()
    for line in re.findall(r"(?m)^COPY (?!--from)(.+)$", text):
        *sources, _ = line.split()
        copied |= set(sources)
    assert all((ROOT / source).exists() for source in copied)
    assert copied == let_in


def test_the_image_runs_as_nobody_in_particular():
    """And ends as by Ctrl-C, with what it holds sent."""
    text = (DEPLOY / "docker" / "Dockerfile").read_text(encoding="utf-8")
    assert re.search(r"(?m)^USER 10001:10001$", text)
    assert re.search(r"(?m)^STOPSIGNAL SIGINT$", text)
    bases = re.findall(r"(?m)^FROM (\S+)", text)
    assert all(re.fullmatch(r"python:3\.\d+-slim-\w+", base) for base in bases)
    state = services(COMPOSE)["demo"]["environment"]["RAGMONITOR_STATE"]
    assert f"install -d -o 10001 -g 10001 {state}" in text


def test_every_file_is_yaml_without_a_key_twice():
    """The later one would win, unseen."""

    class Strict(yaml.SafeLoader):
        def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
            keys = [key.value for key, _ in node.value if key.tag != "tag:yaml.org,2002:merge"]
            assert len(keys) == len(set(keys)), (node.start_mark, keys)
            return super().construct_mapping(node, deep)

    paths = [*DEPLOY.glob("*.yml")]
    for folder in ("compose", "otelcol", "tempo", "kubernetes"):
        paths += [*(DEPLOY / folder).rglob("*.y*ml")]
    assert len(paths) > 15
    for path in paths:
        assert documents(path)
        assert list(yaml.load_all(path.read_text(encoding="utf-8"), Loader=Strict))
