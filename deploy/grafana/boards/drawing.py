"""From our records to Grafana's dashboard JSON, by way of its Foundation SDK (schema 11.6)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any, Final, TypeVar

from grafana_foundation_sdk.builders import (
    common,
    dashboard,
    heatmap,
    stat,
    statetimeline,
    table,
    timeseries,
)
from grafana_foundation_sdk.builders import prometheus as prometheus_builders
from grafana_foundation_sdk.cog.builder import Builder
from grafana_foundation_sdk.cog.encoder import JSONEncoder
from grafana_foundation_sdk.models import common as shapes
from grafana_foundation_sdk.models import dashboard as models
from grafana_foundation_sdk.models import heatmap as heatmap_models
from grafana_foundation_sdk.models import prometheus

from boards.panels import (
    ANNOTATIONS,
    Annotation,
    Board,
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

SOURCE: Final = models.DataSourceRef(type_val="prometheus", uid="${datasource}")
INVESTIGATE_UID: Final = "ragmonitor-investigate"
PALETTE: Final = "palette-classic"


class PrometheusAnnotation(models.AnnotationQuery):
    """An annotation with the fields of Prometheus' data source, which the SDK does not model."""

    def __init__(self, annotation: Annotation, language: Language) -> None:
        super().__init__(
            name=annotation.name.said(language),
            datasource=SOURCE,
            enable=True,
            hide=False,
            icon_color=annotation.color,
            expr=annotation.expr,
        )
        self.title = annotation.title.said(language)
        self.is_time = annotation.is_time

    def to_json(self) -> dict[str, object]:
        """Return what Grafana stores."""
        return {
            **super().to_json(),
            "step": "60s",
            "titleFormat": self.title,
            "textFormat": "",
            "useValueForTime": self.is_time,
        }


Found = TypeVar("Found")


class Built(Builder[Found]):
    """What the SDK calls a builder, of something that is built already."""

    def __init__(self, built: Found) -> None:
        self._built = built

    def build(self) -> Found:
        """Return it."""
        return self._built


def uid(board: Board | str, language: Language) -> str:
    """Return the stable id of a dashboard in a language."""
    name = board if isinstance(board, str) else board.uid
    return name if language == "en" else f"{name}-{language}"


def drawn(board: Board, language: Language) -> str:
    """Return a dashboard's JSON in a language, ending in a newline."""
    other: Language = "zh" if language == "en" else "en"
    built = (
        dashboard.Dashboard(board.title.said(language))
        .uid(uid(board, language))
        .description(board.description.said(language))
        .tags(["ragmonitor", language])
        .timezone("browser")
        .readonly()
        .tooltip(models.DashboardCursorSync.CROSSHAIR)
        .time(board.since, "now")
        .refresh("30s")
        .variables([Built(_variable(variable, language)) for variable in board.variables])
        .annotations([Built(PrometheusAnnotation(a, language)) for a in ANNOTATIONS])
        .links(
            [
                dashboard.DashboardLink("ragmonitor")
                .type(models.DashboardLinkType.DASHBOARDS)
                .tags(["ragmonitor", language])
                .include_vars(True)
                .keep_time(True),
                dashboard.DashboardLink("中文" if other == "zh" else "English")
                .type(models.DashboardLinkType.LINK)
                .icon("external link")
                .url(f"/d/{uid(board, other)}")
                .include_vars(True)
                .keep_time(True),
            ]
        )
        .build()
    )
    # Appended by hand: the builder's own layout moves what does not fit its idea of a grid.
    built.panels = [
        _row(content, number, language)
        if isinstance(content, Row)
        else _panel(content, number, language)
        for number, content in enumerate(board.contents, start=1)
    ]
    # Sorted, so that one change of the source is one change of the file.
    text = json.dumps(built, cls=JSONEncoder, indent=1, sort_keys=True, ensure_ascii=False)
    return text + "\n"


def _variable(variable: Variable, language: Language) -> models.VariableModel:
    name, label = variable.name, variable.label.said(language)
    about = variable.description.said(language)
    if variable.kind == "datasource":
        return (
            dashboard.DatasourceVariable(name)
            .label(label)
            .description(about)
            .type(variable.query)
            .build()
        )
    if variable.kind == "custom":
        values = variable.query.split(",")
        return (
            dashboard.CustomVariable(name)
            .label(label)
            .description(about)
            .values(variable.query)
            .current(models.VariableOption(selected=True, text=values[0], value=values[0]))
            .options(
                [
                    models.VariableOption(selected=value == values[0], text=value, value=value)
                    for value in values
                ]
            )
            .build()
        )
    query = (
        dashboard.QueryVariable(name)
        .label(label)
        .description(about)
        .datasource(SOURCE)
        .query(variable.query)
        .refresh(models.VariableRefresh.ON_TIME_RANGE_CHANGED)
        .sort(
            models.VariableSort.DISABLED
            if variable.in_order_found
            else models.VariableSort.ALPHABETICAL_ASC
        )
    )
    if variable.regex:
        query = query.regex(variable.regex)
    if variable.many:
        everything = "全部" if language == "zh" else "All"
        query = (
            query.multi(True)
            .include_all(True)
            .all_value(".+")
            .current(models.VariableOption(selected=True, text=[everything], value=["$__all"]))
        )
    return query.build()


def _row(row: Row, number: int, language: Language) -> models.RowPanel:
    return models.RowPanel(
        id_val=number,
        title=said(row.title, language),
        grid_pos=models.GridPos(x=0, y=row.y, w=24, h=1),
        repeat=row.repeat or None,
    )


def _panel(panel: Panel, number: int, language: Language) -> models.Panel:
    builder = _KINDS[panel.kind](panel, language)
    x, y, w, h = panel.at
    builder = (
        builder.id(number)
        .title(panel.title.said(language))
        .description(panel.description.said(language))
        .datasource(SOURCE)
        .grid_pos(models.GridPos(x=x, y=y, w=w, h=h))
        .unit(panel.unit)
        .targets([_target(q, i, panel, language) for i, q in enumerate(panel.queries)])
    )
    if panel.low is not None:
        builder = builder.min(panel.low)
    if panel.high is not None:
        builder = builder.max(panel.high)
    if panel.decimals is not None:
        builder = builder.decimals(panel.decimals)
    if panel.thresholds:
        steps = [models.Threshold(value=value, color=color) for value, color in panel.thresholds]
        builder = builder.thresholds(
            dashboard.ThresholdsConfig().mode(models.ThresholdsMode.ABSOLUTE).steps(steps)
        )
    if panel.states:
        builder = builder.mappings([_mapping(panel.states, language)])
    if panel.if_empty is not None:
        builder = builder.no_value(panel.if_empty.said(language))
    if panel.repeat:
        builder = builder.repeat(panel.repeat).repeat_direction("h").max_per_row(4)
    if panel.leads_on:
        title = Words("Investigate", "排查").said(language)
        url = f"/d/{uid(INVESTIGATE_UID, language)}?${{__all_variables}}&${{__url_time_range}}"
        builder = builder.links([dashboard.DashboardLink(title).url(url)])
    built: models.Panel = builder.build()
    return built


def _target(query: Query, index: int, panel: Panel, language: Language) -> Any:
    target = (
        prometheus_builders.Dataquery()
        .expr(query.expr)
        .legend_format(said(query.legend, language))
        .ref_id(_reference(index))
        .datasource(SOURCE)
        .editor_mode(prometheus.QueryEditorMode.CODE)
        .exemplar(query.exemplars)
    )
    if panel.kind == "table":
        return target.instant().format(prometheus.PromQueryFormat.TABLE)
    if panel.kind == "stat":
        return target.instant()
    if panel.kind == "heatmap":
        return target.range().format(prometheus.PromQueryFormat.HEATMAP)
    return target.range()


def _reference(index: int) -> str:
    return "ABCDEFGHIJ"[index]


# --- kinds of panels ----------------------------------------------------------------------------


def _lines(panel: Panel, language: Language) -> timeseries.Panel:
    many = (
        panel.at[2] >= 12
        and len(panel.queries) < 3
        and "{{" in said(panel.queries[0].legend, language)
    )
    builder = (
        timeseries.Panel()
        .draw_style(shapes.GraphDrawStyle.LINE)
        .line_width(1)
        .fill_opacity(0)
        .show_points(shapes.VisibilityMode.NEVER)
        # A gap of up to ten minutes is a scrape or two; a longer one is shown as what it is.
        .span_nulls(600_000)
        .axis_border_show(False)
        .color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId(PALETTE)))
        .legend(_legend(at_the_right=many))
        .tooltip(
            common.VizTooltipOptions()
            .mode(shapes.TooltipDisplayMode.MULTI)
            .sort(shapes.SortOrder.DESCENDING)
        )
    )
    if panel.logarithmic:
        builder = builder.scale_distribution(
            common.ScaleDistributionConfig().type(shapes.ScaleDistribution.LOG).log(10)
        )
    if panel.lines_at_thresholds:
        builder = builder.thresholds_style(
            common.GraphThresholdsStyleConfig().mode(shapes.GraphThresholdsStyleMode.DASHED)
        )
    for index, query in enumerate(panel.queries):
        properties = _differences(query.look, language)
        if properties:
            builder = builder.override_by_query(_reference(index), properties)
    return builder


def _stacked(panel: Panel, language: Language) -> timeseries.Panel:
    return (
        _lines(panel, language)
        .fill_opacity(60)
        .line_width(1)
        .stacking(common.StackingConfig().mode(shapes.StackingMode.NORMAL).group("A"))
    )


def _stat(panel: Panel, language: Language) -> stat.Panel:
    del language
    builder = (
        stat.Panel()
        .graph_mode(shapes.BigValueGraphMode.NONE)
        .color_mode(shapes.BigValueColorMode.VALUE)
        .justify_mode(shapes.BigValueJustifyMode.AUTO)
        .text_mode(shapes.BigValueTextMode.VALUE_AND_NAME)
        .orientation(shapes.VizOrientation.HORIZONTAL)
        .reduce_options(common.ReduceDataOptions().calcs(["lastNotNull"]))
    )
    if not panel.thresholds:
        # Without an objective of one's own no value is good or bad: no colour that says so.
        builder = builder.color_scheme(
            dashboard.FieldColor().mode(models.FieldColorModeId.FIXED).fixed_color("text")
        )
    return builder


def _states(panel: Panel, language: Language) -> statetimeline.Panel:
    del panel, language
    return (
        statetimeline.Panel()
        .show_value(shapes.VisibilityMode.NEVER)
        .merge_values(True)
        .row_height(0.8)
        .fill_opacity(70)
        .line_width(0)
        .color_scheme(dashboard.FieldColor().mode(models.FieldColorModeId.THRESHOLDS))
        .legend(_legend())
    )


def _heatmap(panel: Panel, language: Language) -> heatmap.Panel:
    del language
    return (
        heatmap.Panel()
        .calculate(False)
        .cell_gap(1)
        .color(
            heatmap.HeatmapColorOptions()
            .mode(heatmap_models.HeatmapColorMode.SCHEME)
            .scheme("Oranges")
            .scale(heatmap_models.HeatmapColorScale.EXPONENTIAL)
            .exponent(0.5)
            .steps(64)
        )
        .rows_frame(heatmap.RowsHeatmapOptions().layout(shapes.HeatmapCellLayout.AUTO))
        .y_axis(heatmap.YAxisConfig().unit(panel.unit))
        .filter_values(heatmap.FilterValueRange().le(1e-9))
        .exemplars_color("rgba(255,0,255,0.7)")
        .show_legend()
        .show_y_histogram()
        .mode(shapes.TooltipDisplayMode.SINGLE)
    )


def _table(panel: Panel, language: Language) -> table.Panel:
    titles = {column.name: column.title.said(language) for column in panel.columns}
    builder = (
        table.Panel()
        .show_header(True)
        .cell_height(shapes.TableCellHeight.SM)
        .filterable(False)
        .transformations(
            [
                *(
                    [models.DataTransformerConfig(id_val="merge", options={})]
                    if len(panel.queries) > 1
                    else []
                ),
                models.DataTransformerConfig(
                    id_val="organize",
                    options={
                        "excludeByName": {"Time": True},
                        "indexByName": {name: index for index, name in enumerate(titles)},
                        "renameByName": titles,
                    },
                ),
            ]
        )
    )
    if panel.sorted_by is not None:
        builder = builder.sort_by(
            [common.TableSortByFieldState().display_name(panel.sorted_by.said(language)).desc(True)]
        )
    for column in panel.columns:
        properties = []
        if column.unit:
            properties.append(models.DynamicConfigValue(id_val="unit", value=column.unit))
        if column.decimals is not None:
            properties.append(models.DynamicConfigValue(id_val="decimals", value=column.decimals))
        if column.states:
            mapping = _mapping(column.states, language)
            properties += [
                models.DynamicConfigValue(id_val="mappings", value=[mapping]),
                models.DynamicConfigValue(
                    id_val="custom.cellOptions", value={"type": "color-text"}
                ),
            ]
        if column.link:
            title = column.title.said(language)
            links = [{"title": title, "url": column.link, "targetBlank": True}]
            properties.append(models.DynamicConfigValue(id_val="links", value=links))
        if properties:
            builder = builder.override_by_name(column.title.said(language), properties)
    return builder


_KINDS: Final[dict[str, Any]] = {
    "lines": _lines,
    "stacked": _stacked,
    "stat": _stat,
    "states": _states,
    "heatmap": _heatmap,
    "table": _table,
}


def _legend(*, at_the_right: bool = False) -> common.VizLegendOptions:
    legend = common.VizLegendOptions().show_legend(True).calcs([])
    if at_the_right:
        # Many series with long names: below the graph they would leave it no room.
        return legend.display_mode(shapes.LegendDisplayMode.TABLE).placement(
            shapes.LegendPlacement.RIGHT
        )
    return legend.display_mode(shapes.LegendDisplayMode.LIST).placement(
        shapes.LegendPlacement.BOTTOM
    )


def _mapping(states: Sequence[State], language: Language) -> models.ValueMap:
    return models.ValueMap(
        options={
            str(state.value): models.ValueMappingResult(
                text=state.text.said(language), color=state.color, index=index
            )
            for index, state in enumerate(states)
        }
    )


def _differences(look: Look, language: Language) -> list[models.DynamicConfigValue]:
    found: list[tuple[str, Any]] = []
    if look.color:
        found.append(("color", {"mode": "fixed", "fixedColor": look.color}))
    if look.dashed:
        found.append(("custom.lineStyle", {"fill": "dash", "dash": [6, 4]}))
    if look.width is not None:
        found.append(("custom.lineWidth", look.width))
    if look.fill_below_to:
        found.append(("custom.fillBelowTo", said(look.fill_below_to, language)))
        found.append(("custom.fillOpacity", 18))
    if not look.in_legend:
        hidden = {"legend": True, "tooltip": False, "viz": False}
        found.append(("custom.hideFrom", hidden))
    return [models.DynamicConfigValue(id_val=name, value=value) for name, value in found]
