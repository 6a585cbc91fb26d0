"""Makes rows, panels, variables and boards as Grafana's JSON (schema 41, Grafana 11.6 and later).

What is left out is as Grafana has it by default.

A text is a `Words` until the board is written: `in_language` puts the text of one language there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

Json = dict[str, Any]

SERVICE = 'service=~"$service"'
JUDGED = f'{SERVICE}, judge="$judge"'
WINDOWED = f'{JUDGED}, window="$window"'
"""The selectors that nearly every query begins with."""

RED = "semi-dark-red"
ORANGE = "semi-dark-orange"
GREEN = "semi-dark-green"
BLUE = "semi-dark-blue"
PURPLE = "semi-dark-purple"

SOURCE = {"type": "prometheus", "uid": "${datasource}"}
COLUMNS = 24
"""The width of Grafana's grid."""


class Words(NamedTuple):
    """The same text in both languages."""

    en: str
    zh: str


Text = Words | str
"""A plain string is the same in both languages: a label's value, a symbol."""
Query = tuple[str, Text]
"""What Prometheus is asked, and the legend of its series."""


def in_language(made: Any, language: str) -> Any:
    """Return a board, or a part of one, with its texts in one language."""
    if isinstance(made, Words):
        return made.zh if language == "zh" else made.en
    if isinstance(made, dict):
        return {key: in_language(value, language) for key, value in made.items()}
    if isinstance(made, list):
        return [in_language(each, language) for each in made]
    return made


def uid_of(name: str) -> Words:
    """Return the stable id of a board, to which alerts link."""
    return Words(f"ragmonitor-{name}", f"ragmonitor-{name}-zh")


# --- panels ---------------------------------------------------------------------------------------


def panel(
    kind: str,
    title: Words,
    description: str,
    chinese: str,
    *queries: Query,
    width: int = 12,
    height: int = 8,
    thresholds: Sequence[tuple[float | None, str]] = (),
    target: Json,
    overrides: Sequence[Json] = (),
    defaults: Json,
    **others: Any,
) -> Json:
    """Return a panel that has no place on the grid yet.

    Args:
        kind: Grafana's name of it.
        title: The question that it answers.
        description: What it shows, and what to do about it.
        chinese: The same in Chinese.
        queries: What Prometheus is asked.
        width: Of 24 columns.
        height: In rows of the grid.
        thresholds: From which value on, which colour; the first has None.
        target: What every query has beside its expression.
        overrides: What the series of one query have, or one column.
        defaults: What the values of all series have: unit, minimum, decimals.
        others: What else the panel has, by Grafana's names.
    """
    if thresholds:
        steps = [{"value": value, "color": color} for value, color in thresholds]
        defaults = {**defaults, "thresholds": {"mode": "absolute", "steps": steps}}
    asked = {"datasource": SOURCE, "editorMode": "code", **target}
    return {
        "type": kind,
        "title": title,
        "description": Words(description, chinese),
        "datasource": SOURCE,
        "gridPos": {"w": width, "h": height},
        "targets": [
            {"refId": letter, "expr": expr, "legendFormat": legend, **asked}
            for letter, (expr, legend) in zip("ABCDEFGH", queries, strict=False)
        ],
        "fieldConfig": {"defaults": defaults, "overrides": list(overrides)},
        **others,
    }


def override(query: str, **properties: Any) -> Json:
    """Return what the series of the query of one letter have.

    Args:
        query: The letter.
        properties: By Grafana's names, with `_` for a dot.
    """
    listed = [{"id": key.replace("_", "."), "value": value} for key, value in properties.items()]
    return {"matcher": {"id": "byFrameRefID", "options": query}, "properties": listed}


def lines(
    *texts_and_queries: Any,
    unit: str = "percentunit",
    empty: Words | None = None,
    custom: Json | None = None,
    exemplars: bool = False,
    least: float = 0,
    **others: Any,
) -> Json:
    """Return a panel of lines over time.

    Args:
        texts_and_queries: As of `panel`.
        unit: Of the values.
        empty: Shown where nothing was found, for what not every service has.
        custom: What Grafana calls custom options.
        exemplars: Ask for exemplars, too: each opens a trace. Of a histogram's buckets only.
        least: Where the axis begins.
        others: As of `panel`.
    """
    # A gap of up to ten minutes is a scrape or two; a longer one is shown as what it is.
    drawn = {"showPoints": "never", "spanNulls": 600_000, **(custom or {})}
    defaults = {"unit": unit, "min": least, "custom": drawn}
    return panel(
        "timeseries",
        *texts_and_queries,
        target={"range": True, "exemplar": exemplars},
        defaults=defaults | ({} if empty is None else {"noValue": empty}),
        options={"tooltip": {"mode": "multi", "sort": "desc"}},
        **others,
    )


def stacked(*texts_and_queries: Any, **others: Any) -> Json:
    """Return a panel of areas that lie on each other."""
    custom = {"fillOpacity": 60, "stacking": {"mode": "normal", "group": "A"}}
    return lines(*texts_and_queries, custom=custom, **others)


def stat(
    *texts_and_query: Any, unit: str, defaults: Json | None = None, height: int = 4, **others: Any
) -> Json:
    """Return a panel of one value for each series.

    Args:
        texts_and_query: As of `panel`.
        unit: Of the values.
        defaults: What else the values have, by Grafana's names.
        height: In rows of the grid.
        others: As of `panel`.
    """
    return panel(
        "stat",
        *texts_and_query,
        target={"instant": True, "range": False},
        defaults={"unit": unit, "decimals": 0, **(defaults or {})},
        options={"graphMode": "none", "textMode": "value_and_name", "orientation": "horizontal"},
        height=height,
        **others,
    )


def heatmap(*texts_and_query: Any, unit: str, **others: Any) -> Json:
    """Return a panel of a histogram over time, with its exemplars."""
    return panel(
        "heatmap",
        *texts_and_query,
        target={"range": True, "exemplar": True, "format": "heatmap"},
        defaults={"unit": unit},
        options={"yAxis": {"unit": unit}, "tooltip": {"mode": "single", "yHistogram": True}},
        **others,
    )


def for_each(variable: str) -> Json:
    """Return what a panel has that is drawn for each value of a variable, over the whole width."""
    return {"width": COLUMNS, "repeat": variable, "repeatDirection": "h", "maxPerRow": 4}


# --- boards ---------------------------------------------------------------------------------------


def row(title: Text, *panels: Json, repeat: str = "") -> list[Json]:
    """Return a heading and its panels; with `repeat`, all are drawn for each value of it."""
    heading: Json = {
        "type": "row",
        "title": title,
        "collapsed": False,
        "gridPos": {"w": COLUMNS, "h": 1},
        "panels": [],
    }
    return [heading | ({"repeat": repeat} if repeat else {}), *panels]


def placed(panels: Sequence[Json]) -> list[Json]:
    """Return panels with numbers and places: side by side, then below each other."""
    x = y = height = 0
    found = []
    for number, each in enumerate(panels, start=1):
        size = each["gridPos"]
        if x + size["w"] > COLUMNS:
            x, y, height = 0, y + height, 0
        found.append({**each, "id": number, "gridPos": {"x": x, "y": y, **size}})
        x, height = x + size["w"], max(height, size["h"])
    return found


def query_variable(
    name: str, label: Words, query: str, *, regex: str = "", many: bool = False
) -> Json:
    """Return what the reader may choose of what Prometheus knows.

    Args:
        name: As queries write it.
        label: As the reader sees it.
        query: Its values; with a pattern they keep their order.
        regex: What of a series is the value; empty: the values are labels.
        many: Several values at once, or all of them; all of them to begin with.
    """
    made: Json = {
        "name": name,
        "label": label,
        "type": "query",
        "query": query,
        "datasource": SOURCE,
        "refresh": 2,
        "regex": regex,
        "sort": 0 if regex else 1,
    }
    if many:
        current = {"text": [Words("All", "全部")], "value": ["$__all"]}
        made |= {"multi": True, "includeAll": True, "allValue": ".+", "current": current}
    return made


def annotation(name: Words, expr: str, title: Words, color: str, *, is_time: bool = False) -> Json:
    """Return moments that are marked in every panel.

    Args:
        name: Of the kind of moments.
        expr: Series that are there at these moments.
        title: Of a moment; may name labels: `{{version}}`.
        color: Of the mark.
        is_time: The values are the moments themselves, in milliseconds since 1970.
    """
    return {
        "name": name,
        "datasource": SOURCE,
        "enable": True,
        "iconColor": color,
        "expr": expr,
        "step": "60s",
        "titleFormat": title,
        "useValueForTime": is_time,
    }


def board(
    name: str,
    title: Words,
    description: str,
    chinese: str,
    *rows: list[Json],
    since: str,
    variables: Sequence[Json],
    annotations: Sequence[Json],
) -> Json:
    """Return a board.

    Args:
        name: Of which its id is made.
        title: Its title.
        description: What it is for.
        chinese: The same in Chinese.
        rows: Headings with their panels.
        since: Where the time range begins, as Grafana writes it: `now-24h`.
        variables: What the reader may choose.
        annotations: What is marked in every panel.
    """
    tags = ["ragmonitor", Words("en", "zh")]
    both = {"includeVars": True, "keepTime": True}
    to_others = {"title": "ragmonitor", "type": "dashboards", "tags": tags, **both}
    uid = uid_of(name)
    to_language = {
        "title": Words("中文", "English"),
        "type": "link",
        "icon": "external link",
        "url": Words(f"/d/{uid.zh}", f"/d/{uid.en}"),
        **both,
    }
    return {
        "uid": uid,
        "title": title,
        "description": Words(description, chinese),
        "tags": tags,
        "schemaVersion": 41,
        "timezone": "browser",
        "editable": False,
        "graphTooltip": 1,  # one cursor for all panels
        "time": {"from": since, "to": "now"},
        "refresh": "30s",
        "templating": {"list": list(variables)},
        "annotations": {"list": list(annotations)},
        "links": [to_others, to_language],
        "panels": placed([each for row in rows for each in row]),
    }
