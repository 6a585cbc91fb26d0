"""Dashboards as Grafana would ask them: variables resolved, repeated rows and panels repeated."""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "deploy" / "grafana" / "dashboards"
PATHS = tuple(sorted(FOLDER.glob("*.json")))
LABEL = re.compile(r"\{\{\s*([a-zA-Z_]\w*)\s*\}\}")
VARIABLE = re.compile(r"\$(\w+)|\$\{(\w+)(?::[^}]*)?\}")


def read(path: Path) -> dict[str, Any]:
    """Return a dashboard."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


class Source:
    """What Grafana's Prometheus data source asks, over a span of time."""

    def __init__(self, url: str, *, start_s: int, end_s: int) -> None:
        self._url = url
        self.start_s = start_s
        self.end_s = end_s

    def instant(self, expr: str) -> list[dict[str, Any]]:
        """Return the series at the end of the span."""
        found: list[dict[str, Any]] = self._get("query", query=expr, time=str(self.end_s))["result"]
        return found

    def over_time(self, expr: str, *, step_s: int) -> list[dict[str, Any]]:
        """Return the series with a value for each step."""
        found: list[dict[str, Any]] = self._get(
            "query_range",
            query=expr,
            start=str(self.start_s),
            end=str(self.end_s),
            step=str(step_s),
        )["result"]
        return found

    def exemplars(self, expr: str) -> list[dict[str, Any]]:
        """Return the exemplars of the series that an expression reads, as a panel asks for them."""
        series = self._get(
            "query_exemplars", query=expr, start=str(self.start_s), end=str(self.end_s)
        )
        return [exemplar for one in series for exemplar in one["exemplars"]]

    def label_values(self, selector: str, label: str) -> list[str]:
        """Return the values of a label, sorted."""
        span = {"start": str(self.start_s), "end": str(self.end_s)}
        series = self._get("series", **{"match[]": selector}, **span)
        return sorted({one[label] for one in series if label in one})

    def _get(self, path: str, **parameters: str) -> Any:
        url = f"{self._url}/api/v1/{path}?{urllib.parse.urlencode(parameters)}"
        try:
            with urllib.request.urlopen(url, timeout=60) as reply:
                return json.load(reply)["data"]
        except urllib.error.HTTPError as error:
            said = json.load(error).get("error", "")
            raise AssertionError(f"{said}: {parameters}") from error


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One query of a panel, with everything filled in."""

    panel: dict[str, Any]
    """As it is drawn: its title, too, with variables filled in."""
    reference: str
    expr: str
    written: str
    """The query as it stands in the dashboard."""
    legend: str
    instant: bool
    exemplars: bool
    scope: tuple[tuple[str, str], ...]
    """The repeated variables' values."""

    @property
    def where(self) -> str:
        """For people."""
        return f"{self.panel['title']} {self.reference} {dict(self.scope)}: {self.expr}"


def variables(dashboard: Mapping[str, Any], source: Source) -> dict[str, list[str]]:
    """Return the values of each variable, in Grafana's order; of one that names others, resolved.

    Raises:
        AssertionError: A variable has no value.
    """
    found: dict[str, list[str]] = {}
    for variable in dashboard["templating"]["list"]:
        name, query = variable["name"], variable.get("query", "")
        if variable["type"] == "datasource":
            found[name] = ["prometheus"]
        elif variable["type"] == "custom":
            found[name] = query.split(",")
        else:
            found[name] = _values(_filled(query, chosen(dashboard, found)), variable, source)
        assert found[name], f"{dashboard['uid']}: no value for ${name}: {query}"
    return found


def _values(query: str, variable: Mapping[str, Any], source: Source) -> list[str]:
    values = re.fullmatch(r"label_values\((.+),\s*(\w+)\)", query)
    if values:
        return source.label_values(values[1], values[2])
    result = re.fullmatch(r"query_result\((.+)\)", query)
    assert result, query
    pattern = re.compile(variable["regex"].strip("/"))
    # As Grafana writes a series before it applies the expression.
    written = [
        "{" + ",".join(f'{k}="{v}"' for k, v in one["metric"].items()) + f"}} {one['value'][1]} 0"
        for one in source.instant(result[1])
    ]
    matched = [pattern.search(line) for line in written]
    return [match[1] for match in matched if match]


def chosen(dashboard: Mapping[str, Any], values: Mapping[str, Sequence[str]]) -> dict[str, str]:
    """Return what each variable stands for when a dashboard is opened: all, or the first value."""
    said = {}
    for variable in dashboard["templating"]["list"]:
        if variable["name"] in values:
            all_of_them = variable.get("allValue") if variable.get("includeAll") else None
            said[variable["name"]] = all_of_them or values[variable["name"]][0]
    return said


def intervals(source: Source, *, scrape_s: int, step_s: int) -> dict[str, str]:
    """Return Grafana's own variables; Source: its documentation of `$__rate_interval`."""
    return {
        "__rate_interval": f"{max(step_s + scrape_s, 4 * scrape_s)}s",
        "__interval": f"{step_s}s",
        "__range": f"{source.end_s - source.start_s}s",
    }


def panels(
    dashboard: Mapping[str, Any], values: Mapping[str, Sequence[str]]
) -> Iterator[tuple[dict[str, Any], dict[str, str]]]:
    """Return every panel as often as it is drawn, with the variables that hold in it.

    Rows are among them. A panel below a repeated row is drawn once for each of the row's values.
    """
    usual = chosen(dashboard, values)
    below: list[dict[str, Any]] = []
    row: dict[str, Any] | None = None
    for panel in [*dashboard["panels"], None]:
        if panel is not None and panel["type"] != "row":
            below.append(panel)
            continue
        repeated = (row or {}).get("repeat")
        for value in values[repeated] if repeated else [""]:
            scope = {**usual, repeated: value} if repeated else usual
            if row is not None:
                yield row, scope
            for one in below:
                own = one.get("repeat")
                for each in values[own] if own else [""]:
                    yield one, ({**scope, own: each} if own else scope)
        row, below = panel, []


def questions(
    dashboard: Mapping[str, Any], values: Mapping[str, Sequence[str]], builtin: Mapping[str, str]
) -> Iterator[Question]:
    """Return every query of every panel, for each value that it is repeated for."""
    usual = chosen(dashboard, values)
    for panel, scope in panels(dashboard, values):
        for target in panel.get("targets", ()):
            known = {**builtin, **scope}
            yield Question(
                panel={**panel, "title": _filled(panel["title"], known)},
                reference=target["refId"],
                expr=_filled(target["expr"], known),
                written=target["expr"],
                legend=target["legendFormat"],
                instant=bool(target.get("instant")),
                exemplars=bool(target.get("exemplar")),
                scope=tuple((k, v) for k, v in scope.items() if usual.get(k) != v),
            )


def annotations(
    dashboard: Mapping[str, Any], values: Mapping[str, Sequence[str]]
) -> Iterator[tuple[dict[str, Any], str]]:
    """Return every annotation with its expression."""
    usual = chosen(dashboard, values)
    for annotation in dashboard["annotations"]["list"]:
        yield annotation, _filled(annotation["expr"], usual)


def _filled(text: str, known: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        return known[match[1] or match[2]]

    return VARIABLE.sub(value, text)
