"""What is wrong with a dashboard, by looking at it.

The rules are those of Grafana's dashboard-linter that mean something for an application (its
`docs/rules`), on the syntax tree of each query rather than by regular expressions, and some of our
own: no overlap on the grid, names that the code exports, legends.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from typing import Any

import promql_parser as promql

from ragmonitor.metrics import TABLE
from tests.support.dashboards import LABEL, VARIABLE

COLUMNS = 24
UNITS = frozenset(
    (
        *("none", "short", "percentunit", "s", "opm", "reqpm", "currencyUSD"),
        *("dateTimeAsLocalNoDateIfToday", "suffix: d", "suffix: ×"),
    )
)
SPANS = {"$__rate_interval": "1111s", "$window": "2222s", "$__range": "3333s"}
"""What the variables of time are replaced by to be parsed, and recognised after."""
RATE_SPAN_S = 1111
NAMED_SPANS_S = frozenset((3600, 86_400, 2222, 3333, RATE_SPAN_S))
"""Of `increase`: an hour or a day, as the panel says; the window; the chosen range."""
SUFFIXES = {
    "counter": ("_total",),
    "gauge": ("",),
    "histogram": ("_bucket", "_sum", "_count"),
    "info": ("_info",),
    "summary": ("_sum", "_count"),
}
COUNTERS = ("_total", "_bucket", "_sum", "_count")
EXPORTED = frozenset(
    metric.name + suffix
    for metric in TABLE.values()
    if metric.section
    for suffix in SUFFIXES[metric.kind]
)


def faults(dashboard: Mapping[str, Any]) -> list[str]:
    """Return what is wrong; empty: nothing."""
    panels = [panel for panel in dashboard["panels"] if panel["type"] != "row"]
    found = [*_frame(dashboard), *_grid(dashboard["panels"])]
    for panel in panels:
        found += [f"{panel['title']!r}: {fault}" for fault in _panel(panel)]
    for annotation in dashboard["annotations"]["list"]:
        found += [f"{annotation['name']!r}: {f}" for f in query_faults(annotation["expr"])]
    return found


def _frame(dashboard: Mapping[str, Any]) -> Iterator[str]:
    variables = dashboard["templating"]["list"]
    sources = [variable for variable in variables if variable["type"] == "datasource"]
    if [source["name"] for source in sources] != ["datasource"]:
        yield "there is one variable `datasource`"
    if dashboard.get("editable"):
        yield "editable, although it is provisioned"
    names = {variable["name"] for variable in variables}
    used = {
        name
        for panel in dashboard["panels"]
        for text in [panel["title"], *(t["expr"] for t in panel.get("targets", ()))]
        for match in VARIABLE.findall(text)
        for name in match
        if name and not name.startswith("__")
    }
    yield from (f"no variable ${name}" for name in sorted(used - names))
    for variable in variables:
        if variable["type"] == "query" and variable.get("refresh") != 2:
            yield f"${variable['name']} is not asked again when the time range changes"
        if not variable.get("label") or not variable.get("description"):
            yield f"${variable['name']} has no label or description"


def _grid(panels: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    ids = [panel["id"] for panel in panels]
    if len(set(ids)) != len(ids):
        yield "two panels have one id"
    for panel in panels:
        at = panel["gridPos"]
        if at["x"] < 0 or at["x"] + at["w"] > COLUMNS or at["w"] < 1 or at["h"] < 1:
            yield f"{panel['title']!r}: outside of the grid"
    for one, other in combinations(panels, 2):
        a, b = one["gridPos"], other["gridPos"]
        beside = a["x"] + a["w"] <= b["x"] or b["x"] + b["w"] <= a["x"]
        above = a["y"] + a["h"] <= b["y"] or b["y"] + b["h"] <= a["y"]
        if not beside and not above:
            yield f"{one['title']!r} overlaps {other['title']!r}"


def _panel(panel: Mapping[str, Any]) -> Iterator[str]:
    if not panel.get("title") or not panel.get("description", "").endswith((".", "。")):
        yield "no title, or no description that is a sentence"
    if (panel.get("datasource") or {}).get("uid") != "${datasource}":
        yield "its data source is not the variable"
    defaults = panel["fieldConfig"]["defaults"]
    if defaults.get("unit") not in UNITS:
        yield f"unit {defaults.get('unit')!r}"
    yield from _thresholds(defaults.get("thresholds", {}).get("steps", ()))
    targets = panel.get("targets", ())
    if not targets:
        yield "no query"
    references = [target["refId"] for target in targets]
    if len(set(references)) != len(references):
        yield "two queries have one reference"
    for target in targets:
        if (target.get("datasource") or {}).get("uid") != "${datasource}":
            yield f"{target['refId']}: its data source is not the variable"
        legend = target.get("legendFormat", "")
        if not legend or legend == "__auto":
            yield f"{target['refId']}: no legend"
        if target.get("exemplar") and "_bucket" not in target["expr"]:
            yield f"{target['refId']}: exemplars of what is no histogram"
        found = query_faults(target["expr"])
        yield from (f"{target['refId']}: {fault}" for fault in found)
        if not found:
            kept = _labels_kept(_parsed(target["expr"]))
            lost = set(LABEL.findall(legend)) - kept
            if lost:
                yield f"{target['refId']}: the legend names {sorted(lost)}, which are added up"
    yield from _fills(panel)
    if panel["type"] == "table":
        yield from _table(panel)


def _thresholds(steps: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if steps and steps[0].get("value") is not None:
        yield "the first threshold has a value"
    if any(a["value"] >= b["value"] for a, b in pairwise(steps[1:])):
        yield "thresholds that do not rise"


def _fills(panel: Mapping[str, Any]) -> Iterator[str]:
    legends = {target["legendFormat"] for target in panel["targets"]}
    for override in panel["fieldConfig"].get("overrides", ()):
        for its in override["properties"]:
            if its["id"] == "custom.fillBelowTo" and its["value"] not in legends:
                yield f"fills down to {its['value']!r}, which is not there"


def _table(panel: Mapping[str, Any]) -> Iterator[str]:
    organized = [t["options"] for t in panel.get("transformations", ()) if t["id"] == "organize"]
    if not organized:
        yield "columns are not named"
        return
    titles = organized[0]["renameByName"]
    references = [target["refId"] for target in panel["targets"]]
    values = {f"Value #{r}" for r in references} if len(references) > 1 else {"Value"}
    shown = set().union(*(_labels_kept(_parsed(t["expr"])) for t in panel["targets"])) | values
    if set(titles) != shown:
        yield f"columns {sorted(set(titles) ^ shown)} are unnamed, or do not exist"
    overridden = {o["matcher"]["options"] for o in panel["fieldConfig"].get("overrides", ())}
    yield from (f"no column {n!r}" for n in sorted(overridden - set(titles.values())))


# --- queries ------------------------------------------------------------------------------------


def query_faults(expr: str) -> list[str]:
    """Return what is wrong with one query."""
    try:
        tree = _parsed(expr)
    except ValueError as error:
        return [f"not PromQL: {error}"]
    return list(_walk(tree, function="", span_s=None, added_up=False))


def _parsed(expr: str) -> Any:
    for variable, span in SPANS.items():
        expr = expr.replace(f"[{variable}]", f"[{span}]")
    return promql.parse(expr)


def _walk(node: Any, *, function: str, span_s: int | None, added_up: bool) -> Iterator[str]:
    if isinstance(node, promql.MatrixSelector):
        seconds = round(node.range.total_seconds())
        selector = node.vector_selector
        yield from _walk(selector, function=function, span_s=seconds, added_up=added_up)
    elif isinstance(node, promql.VectorSelector):
        yield from _selector(node, function=function, span_s=span_s, added_up=added_up)
    elif isinstance(node, promql.Call):
        name = node.func.name
        if name == "histogram_quantile" and "le" not in _labels_kept(node.args[1]):
            yield "histogram_quantile without `le`"
        inner = name if name in ("rate", "increase", "irate", "delta", "deriv") else function
        for argument in node.args:
            yield from _walk(argument, function=inner, span_s=None, added_up=added_up)
    elif isinstance(node, promql.AggregateExpr):
        sums = added_up or str(node.op) == "sum"
        if node.modifier is None and str(node.op) not in ("sum", "min", "max", "count"):
            yield f"{node.op} over everything"
        yield from _walk(node.expr, function=function, span_s=None, added_up=sums)
    elif isinstance(node, promql.BinaryExpr):
        # A counter as it stands, where it was not there before: what it was born with.
        is_birth = str(node.op) == "unless" and _is_call(node.rhs, "present_over_time")
        function = "born" if is_birth else function
        for side in (node.lhs, node.rhs):
            yield from _walk(side, function=function, span_s=None, added_up=added_up)
    elif isinstance(node, (promql.ParenExpr, promql.UnaryExpr)):
        yield from _walk(node.expr, function=function, span_s=None, added_up=added_up)


def _is_call(node: Any, name: str) -> bool:
    return isinstance(node, promql.Call) and node.func.name == name


def _selector(selector: Any, *, function: str, span_s: int | None, added_up: bool) -> Iterator[str]:
    name = selector.name
    if name not in EXPORTED:
        yield f"{name}: nothing exports it"
    matchers = {matcher.name: matcher.value for matcher in selector.matchers.matchers}
    if matchers.get("service") != "$service":
        yield f"{name}: of which service?"
    counter = name.endswith(COUNTERS)
    if function == "irate":
        yield f"{name}: irate misses what is between its two points"
    if counter and function not in ("rate", "increase", "irate", "born"):
        yield f"{name}: a counter as it stands"
    if counter and not added_up:
        yield f"{name}: a counter that is not added up over processes"
    if not counter and function:
        yield f"{name}: {function} of what is no counter"
    if function == "rate" and span_s != RATE_SPAN_S:
        yield f"{name}: rate over another span than $__rate_interval"
    if function == "increase" and span_s not in NAMED_SPANS_S:
        yield f"{name}: increase over {span_s} s"


def _labels_kept(node: Any) -> set[str]:
    """Return the labels that the series of an expression have for sure."""
    if isinstance(node, promql.AggregateExpr):
        grouping = node.modifier
        return set(re.findall(r"\w+", str(grouping.labels))) if grouping else set()
    if isinstance(node, promql.Call):
        inner = [_labels_kept(argument) for argument in node.args]
        added = {node.args[1].val} if node.func.name == "label_replace" else set()
        without = {"le"} if node.func.name == "histogram_quantile" else set()
        return set().union(*inner) - without | added
    if isinstance(node, promql.BinaryExpr):
        left, right = _labels_kept(node.lhs), _labels_kept(node.rhs)
        if str(node.op) == "or":
            return left  # what comes from the right side only fills in
        return left | right if "group" in str(node.modifier).lower() else left or right
    if isinstance(node, (promql.ParenExpr, promql.UnaryExpr)):
        return _labels_kept(node.expr)
    return set()
