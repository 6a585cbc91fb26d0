// Draws one dashboard with Grafana's own UI components. It is not Grafana: the panels' plugins are
// not published, so what they do with their options is done here, for the few that are used; state
// timelines, heatmaps and tables are drawn by this file. `window.BOARD` is what draw.py asked.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { css, Global } from '@emotion/react';
import {
  createTheme,
  dateTime,
  FieldType,
  getDisplayProcessor,
  ThemeContext,
  toDataFrame,
} from '@grafana/data';
import { BigValue, BigValueColorMode, BigValueGraphMode, BigValueTextMode, PanelChrome, TimeSeries } from '@grafana/ui';

const board = (window as any).BOARD;
const theme = createTheme({ colors: { mode: board.mode } });
const CELL = 30;
const GAP = 8;
const COLUMN = (board.width - GAP) / 24;

type Series = { refId: string; name: string; metric: Record<string, string>; values: Array<[number, number | null]> };

function configOf(panel: any, refId: string, name: string) {
  const { defaults, overrides } = panel.fieldConfig;
  const config: any = structuredClone({ ...defaults, custom: defaults.custom ?? {} });
  for (const { matcher, properties } of overrides ?? []) {
    const fits =
      (matcher.id === 'byFrameRefID' && matcher.options === refId) ||
      (matcher.id === 'byName' && matcher.options === name);
    if (!fits) {
      continue;
    }
    for (const { id, value } of properties) {
      if (id.startsWith('custom.')) {
        config.custom[id.slice(7)] = value;
      } else {
        config[id] = value;
      }
    }
  }
  return config;
}

function framesOf(panel: any, series: Series[]) {
  const frames = series.map((one, index) => {
    const frame = toDataFrame({
      refId: one.refId,
      name: one.name,
      fields: [
        { name: 'Time', type: FieldType.time, values: one.values.map(([at]) => at), config: {} },
        {
          name: 'Value',
          type: FieldType.number,
          values: one.values.map(([, value]) => value),
          labels: one.metric,
          config: { ...configOf(panel, one.refId, one.name), displayNameFromDS: one.name },
        },
      ],
    });
    frame.fields[1].state = { seriesIndex: index, displayName: one.name };
    return frame;
  });
  for (const frame of frames) {
    for (const field of frame.fields) {
      field.display = getDisplayProcessor({ field, theme, timeZone: 'utc' });
    }
  }
  return frames;
}

const timeRange = {
  from: dateTime(board.from),
  to: dateTime(board.to),
  raw: { from: dateTime(board.from), to: dateTime(board.to) },
};

function Lines({ panel, series, width, height }: any) {
  return (
    <TimeSeries
      frames={framesOf(panel, series)}
      timeRange={timeRange}
      timeZone="utc"
      width={width}
      height={height}
      legend={{ calcs: [], showLegend: true, ...panel.options.legend }}
    />
  );
}

function Stat({ panel, series, width, height }: any) {
  const frames = framesOf(panel, series);
  const each = height / Math.max(1, frames.length);
  return (
    <>
      {frames.map((frame, index) => {
        const field = frame.fields[1];
        const shown = field.display!(field.values[field.values.length - 1]);
        return (
          <BigValue
            key={index}
            theme={theme}
            width={width}
            height={each}
            count={frames.length}
            value={{ ...shown, title: frame.name }}
            colorMode={BigValueColorMode.Value}
            graphMode={BigValueGraphMode.None}
            textMode={BigValueTextMode.ValueAndName}
          />
        );
      })}
    </>
  );
}

function Axis({ left, width, top }: any) {
  const hours = [0, 1, 2, 3, 4].map((n) => board.from + ((board.to - board.from) * n) / 4);
  return (
    <>
      {hours.map((at, n) => (
        <text
          key={n}
          x={left + ((width - left) * n) / 4}
          y={top}
          textAnchor={n === 0 ? 'start' : n === 4 ? 'end' : 'middle'}
        >
          {new Date(at).toISOString().slice(11, 16)}
        </text>
      ))}
    </>
  );
}

function States({ panel, series, width, height }: any) {
  const map = panel.fieldConfig.defaults.mappings[0].options;
  const left = Math.min(width * 0.45, 260);
  const bottom = 40;
  const each = (height - bottom) / Math.max(1, series.length);
  const x = (at: number) => left + ((width - left) * (at - board.from)) / (board.to - board.from);
  return (
    <svg width={width} height={height}>
      {series.map((one: Series, row: number) => (
        <g key={row}>
          <text x={left - 6} y={row * each + each * 0.65} textAnchor="end">
            {one.name}
          </text>
          {one.values.slice(1).map(([at, value], n) => (
            <rect
              key={n}
              x={x(one.values[n][0])}
              width={x(at) - x(one.values[n][0]) + 0.5}
              y={row * each + each * 0.1}
              height={each * 0.8}
              fill={theme.visualization.getColorByName(map[String(value)]?.color ?? 'text')}
              opacity={0.7}
            />
          ))}
        </g>
      ))}
      <Axis left={left} width={width} top={height - bottom + 14} />
      {Object.values(map).map((state: any, n) => (
        <g key={n} transform={`translate(${8 + n * 140}, ${height - 8})`}>
          <rect width={12} height={4} y={-6} fill={theme.visualization.getColorByName(state.color)} />
          <text x={18}>{state.text}</text>
        </g>
      ))}
    </svg>
  );
}

function Heatmap({ panel, series, width, height }: any) {
  const number = (le: string) => (le === '+Inf' ? Infinity : Number(le));
  const rows = [...series].sort((a: Series, b: Series) => number(a.metric.le) - number(b.metric.le));
  const left = 44;
  const bottom = 20;
  const each = (height - bottom) / Math.max(1, rows.length);
  const cells = rows.map((row: Series, n: number) => {
    const below = new Map<number, number | null>(n > 0 ? rows[n - 1].values : []);
    return row.values.map(([at, value]) => [at, Math.max(0, (value ?? 0) - (below.get(at) ?? 0))] as [number, number]);
  });
  const most = Math.max(1e-9, ...cells.flat().map(([, value]) => value));
  const step = rows.length && rows[0].values.length > 1 ? rows[0].values[1][0] - rows[0].values[0][0] : 1;
  const scale = (width - left) / (board.to - board.from);
  return (
    <svg width={width} height={height}>
      {cells.map((row, n) => (
        <g key={n}>
          <text x={left - 6} y={height - bottom - n * each - each * 0.3} textAnchor="end">
            {rows[n].metric.le === '+Inf'
              ? '+Inf'
              : panel.fieldConfig.defaults.unit === 'percentunit'
                ? `${Math.round(Number(rows[n].metric.le) * 100)}%`
                : Number(rows[n].metric.le)}
          </text>
          {row
            .filter(([, value]) => value > 1e-9)
            .map(([at, value], m) => (
              <rect
                key={m}
                x={left + (at - board.from) * scale}
                width={Math.max(1, step * scale - 0.5)}
                y={height - bottom - (n + 1) * each}
                height={each - 0.5}
                fill={theme.visualization.getColorByName('orange')}
                opacity={0.08 + 0.92 * Math.sqrt(value / most)}
              />
            ))}
        </g>
      ))}
      <Axis left={left} width={width} top={height - 6} />
    </svg>
  );
}

function Table({ panel, series }: any) {
  const organize = panel.transformations.find((t: any) => t.id === 'organize').options;
  const names = Object.keys(organize.renameByName).sort((a, b) => organize.indexByName[a] - organize.indexByName[b]);
  const many = panel.targets.length > 1;
  const rows = new Map<string, Record<string, any>>();
  for (const one of series as Series[]) {
    const key = JSON.stringify(Object.entries(one.metric).sort());
    const row = rows.get(key) ?? { ...one.metric };
    row[many ? `Value #${one.refId}` : 'Value'] = one.values[0][1];
    rows.set(key, row);
  }
  const shown = (name: string, value: any) => {
    if (value === undefined || typeof value === 'string') {
      return { text: value ?? '', color: undefined };
    }
    const config = { ...configOf(panel, '', organize.renameByName[name]) };
    const field: any = { name, type: FieldType.number, values: [value], config };
    const display = getDisplayProcessor({ field, theme, timeZone: 'utc' })(value);
    const color = config.mappings?.length ? display.color : undefined;
    return { text: `${display.prefix ?? ''}${display.text}${display.suffix ?? ''}`, color };
  };
  const by = panel.options.sortBy?.[0]?.displayName;
  const sorting = names.find((name) => organize.renameByName[name] === by);
  const sorted = [...rows.values()].sort((a, b) => (sorting ? (b[sorting] ?? 0) - (a[sorting] ?? 0) : 0));
  return (
    <table>
      <thead>
        <tr>
          {names.map((name) => (
            <th key={name}>{organize.renameByName[name]}</th>
          ))}
        </tr>
      </thead>
      <tbody>
        {sorted.map((row, n) => (
          <tr key={n}>
            {names.map((name) => {
              const { text, color } = shown(name, row[name]);
              return (
                <td key={name} style={{ color }}>
                  {text}
                </td>
              );
            })}
          </tr>
        ))}
      </tbody>
    </table>
  );
}

const KINDS: Record<string, any> = {
  timeseries: Lines,
  stat: Stat,
  'state-timeline': States,
  heatmap: Heatmap,
  table: Table,
};

function Panel({ panel, series, at }: any) {
  const style: React.CSSProperties = {
    position: 'absolute',
    left: GAP + at.x * COLUMN,
    top: at.y * (CELL + GAP),
    width: at.w * COLUMN - GAP,
    height: at.h * (CELL + GAP) - GAP,
    overflow: 'hidden',
  };
  if (panel.type === 'row') {
    return (
      <div style={{ ...style, fontSize: 16, fontWeight: 500, paddingTop: 4 }}>{`⌄ ${panel.title}`}</div>
    );
  }
  const Kind = KINDS[panel.type];
  return (
    <div style={style}>
      <PanelChrome title={panel.title} width={style.width as number} height={style.height as number}>
        {(width: number, height: number) => <Kind panel={panel} series={series} width={width} height={height} />}
      </PanelChrome>
    </div>
  );
}

const text = theme.colors.text;
const page = css`
  * {
    box-sizing: border-box;
  }
  button {
    color: inherit;
    font: inherit;
    font-size: 12px;
  }
  body {
    margin: 0;
    background: ${theme.colors.background.canvas};
    color: ${text.primary};
    font: 13px Inter, 'DejaVu Sans', 'Noto Sans CJK SC', 'WenQuanYi Zen Hei', sans-serif;
  }
  svg text {
    fill: ${text.secondary};
    font-size: 11px;
  }
  table {
    width: 100%;
    border-collapse: collapse;
    font-size: 12px;
  }
  th,
  td {
    text-align: left;
    padding: 3px 6px;
    border-bottom: 1px solid ${theme.colors.border.weak};
    white-space: nowrap;
  }
  h1 {
    font-size: 18px;
    font-weight: 500;
    margin: 0;
    padding: 12px 8px;
  }
  h1 small {
    color: ${text.secondary};
    font-size: 12px;
    margin-left: 12px;
  }
`;

createRoot(document.getElementById('board')!).render(
  <ThemeContext.Provider value={theme}>
    <Global styles={page} />
    <h1>
      {board.title}
      <small>{board.note}</small>
    </h1>
    <div style={{ position: 'relative' }}>
      {board.panels.map((drawn: any, n: number) => (
        <Panel key={n} {...drawn} />
      ))}
    </div>
  </ThemeContext.Provider>
);
