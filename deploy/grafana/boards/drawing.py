"""From our records to Grafana's dashboard JSON (schema 41, Grafana 11.6 and later)."""

from __future__ import annotations

import json
from typing import Any, Final

from boards.panels import (
    ANNOTATIONS,
    Annotation,
    Board,
    Column,
    Language,
    Look,
    Panel,
    Query,
    Row,
    State,
    Variable,
    Words,
    said,
)

Json = dict[str, Any]
SOURCE: Final = {"type": "prometheus", "uid": "${datasource}"}
INVESTIGATE_UID: Final = "ragmonitor-investigate"
TYPES: Final = {"lines": "timeseries", "stacked": "timeseries"}
"""Grafana's name of a kind of panels, where it is another one."""


def uid(board: Board | str, language: Language) -> str:
    """Return the stable id of a dashboard in a language."""
    name = board if isinstance(board, str) else board.uid
    return name if language == "en" else f"{name}-{language}"


def drawn(board: Board, language: Language) -> str:
    """Return a dashboard's JSON in a language, ending in a newline."""
    other: Language = "zh" if language == "en" else "en"
    tags = ["ragmonitor", language]
    both = {"includeVars": True, "keepTime": True}
    made = {
        "uid": uid(board, language),
        "title": board.title.said(language),
        "description": board.description.said(language),
        "tags": tags,
        "schemaVersion": 41,
        "timezone": "browser",
        "editable": False,
        "graphTooltip": 1,  # one cursor for all panels
        "time": {"from": board.since, "to": "now"},
        "refresh": "30s",
        "templating": {"list": [_variable(each, language) for each in board.variables]},
        "annotations": {"list": [_annotation(each, language) for each in ANNOTATIONS]},
        "links": [
            {"title": "ragmonitor", "type": "dashboards", "tags": tags, **both},
            {
                "title": "中文" if other == "zh" else "English",
                "type": "link",
                "icon": "external link",
                "url": f"/d/{uid(board, other)}",
                **both,
            },
        ],
        "panels": [
            _row(content, number, language)
            if isinstance(content, Row)
            else _panel(content, number, language)
            for number, content in enumerate(board.contents, start=1)
        ],
    }
    # Sorted, so that one change of the source is one change of the file.
    return json.dumps(made, indent=1, sort_keys=True, ensure_ascii=False) + "\n"


def _annotation(annotation: Annotation, language: Language) -> Json:
    return {
        "name": annotation.name.said(language),
        "datasource": SOURCE,
        "enable": True,
        "iconColor": annotation.color,
        "expr": annotation.expr,
        "step": "60s",
        "titleFormat": annotation.title.said(language),
        "textFormat": "",
        "useValueForTime": annotation.is_time,
    }


def _variable(variable: Variable, language: Language) -> Json:
    made: Json = {
        "name": variable.name,
        "label": variable.label.said(language),
        "description": variable.description.said(language),
        "type": variable.kind,
        "query": variable.query,
    }
    if variable.kind == "custom":
        options = [{"text": each, "value": each} for each in variable.query.split(",")]
        made |= {"options": options, "current": options[0]}
    if variable.kind == "query":
        by_name = 0 if variable.in_order_found else 1
        made |= {"datasource": SOURCE, "refresh": 2, "sort": by_name, "regex": variable.regex}
    if variable.many:
        everything = "全部" if language == "zh" else "All"
        made |= {
            "multi": True,
            "includeAll": True,
            "allValue": ".+",
            "current": {"text": [everything], "value": ["$__all"]},
        }
    return made


def _row(row: Row, number: int, language: Language) -> Json:
    made = {
        "type": "row",
        "id": number,
        "title": said(row.title, language),
        "collapsed": False,
        "gridPos": {"x": 0, "y": row.y, "w": 24, "h": 1},
        "panels": [],
    }
    return made | ({"repeat": row.repeat} if row.repeat else {})


def _panel(panel: Panel, number: int, language: Language) -> Json:
    x, y, w, h = panel.at
    defaults: Json = {"unit": panel.unit}
    limits = {"min": panel.low, "max": panel.high, "decimals": panel.decimals}
    defaults |= {name: value for name, value in limits.items() if value is not None}
    if panel.thresholds:
        steps = [{"value": value, "color": color} for value, color in panel.thresholds]
        defaults["thresholds"] = {"mode": "absolute", "steps": steps}
    if panel.if_empty is not None:
        defaults["noValue"] = panel.if_empty.said(language)
    made: Json = {
        "type": TYPES.get(panel.kind, panel.kind),
        "id": number,
        "title": panel.title.said(language),
        "description": panel.description.said(language),
        "datasource": SOURCE,
        "gridPos": {"x": x, "y": y, "w": w, "h": h},
        "targets": [_target(q, i, panel, language) for i, q in enumerate(panel.queries)],
        "fieldConfig": {"defaults": defaults, "overrides": []},
    }
    if panel.repeat:
        made |= {"repeat": panel.repeat, "repeatDirection": "h", "maxPerRow": 4}
    if panel.leads_on:
        title = Words("Investigate", "排查").said(language)
        url = f"/d/{uid(INVESTIGATE_UID, language)}?${{__all_variables}}&${{__url_time_range}}"
        made["links"] = [{"title": title, "url": url}]
    _KINDS[panel.kind](panel, made, language)
    return made


def _target(query: Query, index: int, panel: Panel, language: Language) -> Json:
    made = {
        "refId": _reference(index),
        "datasource": SOURCE,
        "editorMode": "code",
        "expr": query.expr,
        "legendFormat": said(query.legend, language),
        "exemplar": query.exemplars,
    }
    if panel.kind in ("table", "stat"):
        made |= {"instant": True, "range": False}
    else:
        made["range"] = True
    return made | ({"format": panel.kind} if panel.kind in ("table", "heatmap") else {})


def _reference(index: int) -> str:
    return "ABCDEFGHIJ"[index]


# --- kinds of panels ----------------------------------------------------------------------------


def _lines(panel: Panel, made: Json, language: Language) -> None:
    custom: Json = {
        "drawStyle": "line",
        "lineWidth": 1,
        "fillOpacity": 0,
        "showPoints": "never",
        # A gap of up to ten minutes is a scrape or two; a longer one is shown as what it is.
        "spanNulls": 600_000,
    }
    if panel.kind == "stacked":
        custom |= {"fillOpacity": 60, "stacking": {"mode": "normal", "group": "A"}}
    if panel.logarithmic:
        custom["scaleDistribution"] = {"type": "log", "log": 10}
    if panel.lines_at_thresholds:
        custom["thresholdsStyle"] = {"mode": "dashed"}
    made["fieldConfig"]["defaults"] |= {"color": {"mode": "palette-classic"}, "custom": custom}
    # Many series with long names: below the graph they would leave it no room.
    many = (
        panel.at[2] >= 12
        and len(panel.queries) < 3
        and "{{" in said(panel.queries[0].legend, language)
    )
    made["options"] = {
        "legend": {
            "showLegend": True,
            "calcs": [],
            "displayMode": "table" if many else "list",
            "placement": "right" if many else "bottom",
        },
        "tooltip": {"mode": "multi", "sort": "desc"},
    }
    for index, query in enumerate(panel.queries):
        _override(made, "byFrameRefID", _reference(index), _differences(query.look, language))


def _differences(look: Look, language: Language) -> Json:
    found: Json = {}
    if look.color:
        found["color"] = {"mode": "fixed", "fixedColor": look.color}
    if look.dashed:
        found["custom.lineStyle"] = {"fill": "dash", "dash": [6, 4]}
    if look.width is not None:
        found["custom.lineWidth"] = look.width
    if look.fill_below_to:
        found["custom.fillBelowTo"] = said(look.fill_below_to, language)
        found["custom.fillOpacity"] = 18
    if not look.in_legend:
        found["custom.hideFrom"] = {"legend": True, "tooltip": False, "viz": False}
    return found


def _stat(panel: Panel, made: Json, language: Language) -> None:
    del panel, language
    made["options"] = {
        "graphMode": "none",
        "colorMode": "value",
        "textMode": "value_and_name",
        "orientation": "horizontal",
        "reduceOptions": {"calcs": ["lastNotNull"]},
    }


def _heatmap(panel: Panel, made: Json, language: Language) -> None:
    del language
    made["options"] = {
        "calculate": False,
        "cellGap": 1,
        "color": {
            "mode": "scheme",
            "scheme": "Oranges",
            "scale": "exponential",
            "exponent": 0.5,
            "steps": 64,
        },
        "rowsFrame": {"layout": "auto"},
        "yAxis": {"unit": panel.unit},
        "filterValues": {"le": 1e-9},
        "exemplars": {"color": "rgba(255,0,255,0.7)"},
        "legend": {"show": True},
        "tooltip": {"mode": "single", "yHistogram": True},
    }


def _table(panel: Panel, made: Json, language: Language) -> None:
    titles = {column.name: column.title.said(language) for column in panel.columns}
    organized = {
        "excludeByName": {"Time": True},
        "indexByName": {name: index for index, name in enumerate(titles)},
        "renameByName": titles,
    }
    merged = [{"id": "merge", "options": {}}] if len(panel.queries) > 1 else []
    made["transformations"] = [*merged, {"id": "organize", "options": organized}]
    made["options"] = {"showHeader": True, "cellHeight": "sm"}
    if panel.sorted_by is not None:
        sorted_by = {"displayName": panel.sorted_by.said(language), "desc": True}
        made["options"]["sortBy"] = [sorted_by]
    for column in panel.columns:
        _override(made, "byName", column.title.said(language), _cells(column, language))


def _cells(column: Column, language: Language) -> Json:
    found: Json = {}
    if column.unit:
        found["unit"] = column.unit
    if column.decimals is not None:
        found["decimals"] = column.decimals
    if column.states:
        found["mappings"] = [_mapping(column.states, language)]
        found["custom.cellOptions"] = {"type": "color-text"}
    if column.link:
        title = column.title.said(language)
        found["links"] = [{"title": title, "url": column.link, "targetBlank": True}]
    return found


def _mapping(states: tuple[State, ...], language: Language) -> Json:
    options = {
        str(state.value): {"text": state.text.said(language), "color": state.color, "index": index}
        for index, state in enumerate(states)
    }
    return {"type": "value", "options": options}


def _override(made: Json, matcher: str, name: str, values: Json) -> None:
    """Set properties of the fields of one query, or of one column."""
    if values:
        properties = [{"id": key, "value": value} for key, value in values.items()]
        override = {"matcher": {"id": matcher, "options": name}, "properties": properties}
        made["fieldConfig"]["overrides"].append(override)


_KINDS: Final = {
    "lines": _lines,
    "stacked": _lines,
    "stat": _stat,
    "heatmap": _heatmap,
    "table": _table,
}
