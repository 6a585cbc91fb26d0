// One chart as SVG: a mean over time with its interval, and a limit.

import { clock, isRate, shape } from "./dom.js";

const STEPS_S = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600];
const LEFT = 46, RIGHT = 10, TOP = 12, BOTTOM = 22;

const path = (points) => `M${points.map(([x, y]) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`;

/** The stretches without a gap, each as the places of its values. */
function stretches(values) {
  const found = [[]];
  values.forEach((value, n) => (value === null ? found.push([]) : found.at(-1).push(n)));
  return found.filter((each) => each.length);
}

/**
 * Draw a chart into a box.
 *
 * `chart` holds times, mean, lower, upper and signal; `limit` is {value, text} or null; `marks` are
 * [{at_s, text}].
 */
export function draw(box, { chart, from, to, limit, marks, label, nothing }) {
  const width = box.clientWidth, height = box.clientHeight;
  if (!width) return;
  const { times, mean, lower, upper, signal } = chart;
  // The first intervals, of few answers, may be wider than the chart.
  const known = (values) => values.filter((each) => each !== null);
  const high = 1.2 * Math.max(0.05, limit?.value ?? 0, known(upper).at(-1) ?? 0, ...known(mean));
  const most = isRate(signal) ? [0.1, 0.2, 0.4, 0.6, 0.8].find((each) => high <= each) ?? 1 : 1;
  const x = (time) => LEFT + ((time - from) / Math.max(1, to - from)) * (width - LEFT - RIGHT);
  const y = (value) => height - BOTTOM - (Math.min(value, most) / most) * (height - TOP - BOTTOM);
  const points = (values, places) => places.map((n) => [x(times[n]), y(values[n])]);
  const across = (name, at) => shape("line", { class: name, x1: LEFT, x2: width - RIGHT, y1: at, y2: at });
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const at = y(share * most);
    const text = isRate(signal) ? `${Number((100 * share * most).toFixed(1))}%` : (share * most).toFixed(2);
    svg.append(across("grid", at), shape("text", { x: LEFT - 7, y: at + 4, "text-anchor": "end" }, text));
  }
  const step = STEPS_S.find((each) => (to - from) / each <= Math.max(2, width / 95)) ?? 21600;
  const offset = new Date(to * 1000).getTimezoneOffset() * 60;
  for (let time = Math.ceil((from - offset) / step) * step + offset; time <= to; time += step) {
    if (x(time) < LEFT + 12 || x(time) > width - 20) continue;
    svg.append(shape("text", { x: x(time), y: height - 5, "text-anchor": "middle" }, clock(time)));
  }
  for (const { at_s: at, text } of marks.filter((each) => each.at_s >= from && each.at_s <= to)) {
    svg.append(shape("line", { class: "mark", x1: x(at), x2: x(at), y1: TOP, y2: height - BOTTOM }, shape("title", {}, text)));
  }
  const bands = stretches(upper).map((places) => `${path([...points(upper, places), ...points(lower, places).reverse()])}Z`);
  const curves = stretches(mean).map((places) => points(mean, places));
  svg.append(
    shape("path", { class: "band", d: bands.join("") }),
    shape("path", { class: "curve", d: curves.map(path).join("") }));
  const last = curves.at(-1)?.at(-1);
  if (last) svg.append(shape("circle", { class: "point", cx: last[0], cy: last[1], r: 3 }));
  else svg.append(shape("text", { x: (width + LEFT) / 2, y: height / 2, "text-anchor": "middle" }, nothing));
  if (limit) {
    const at = y(limit.value);
    svg.append(across("limit", at), shape("text", { class: "limit-text", x: LEFT + 6, y: at < TOP + 16 ? at + 15 : at - 6 }, limit.text));
  }
  box.replaceChildren(svg);
}
