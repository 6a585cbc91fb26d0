// One chart as SVG: a mean over time with its interval, and a limit.

import { clock, isRate } from "./dom.js";

const SVG = "http://www.w3.org/2000/svg";
const STEPS_S = [60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600];
const LEFT = 46, RIGHT = 10, TOP = 12, BOTTOM = 22;

function shape(name, attributes = {}, text = "") {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(text);
  return node;
}

/** A path through points, with a gap where a value is missing. */
function path(points) {
  let drawn = "", isDown = false;
  for (const [x, y] of points) {
    if (y !== null) drawn += `${isDown ? "L" : "M"}${x.toFixed(1)} ${y.toFixed(1)}`;
    isDown = y !== null;
  }
  return drawn;
}

/** The area between two lines, in parts where values are missing. */
function area(upper, lower) {
  const parts = [];
  let part = [];
  upper.forEach((point, n) => {
    if (point[1] === null) parts.push(part = []);
    else part.push([point, lower[n]]);
  });
  return [part, ...parts].filter((each) => each.length)
    .map((each) => `${path([...each.map(([up]) => up), ...each.map(([, down]) => down).reverse()])}Z`).join("");
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
  const y = (value) => (value === null ? null : height - BOTTOM - (Math.min(value, most) / most) * (height - TOP - BOTTOM));
  const line = (values) => times.map((time, n) => [x(time), y(values[n])]);
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": label });
  for (const share of [0, 0.25, 0.5, 0.75, 1]) {
    const at = y(share * most);
    svg.append(shape("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
    const text = isRate(signal) ? `${Number((100 * share * most).toFixed(1))}%` : (share * most).toFixed(2);
    svg.append(shape("text", { x: LEFT - 7, y: at + 4, "text-anchor": "end" }, text));
  }
  const step = STEPS_S.find((each) => (to - from) / each <= Math.max(2, width / 95)) ?? 21600;
  const offset = new Date(to * 1000).getTimezoneOffset() * 60;
  for (let time = Math.ceil((from - offset) / step) * step + offset; time <= to; time += step) {
    if (x(time) < LEFT + 12 || x(time) > width - 20) continue;
    svg.append(shape("text", { x: x(time), y: height - 5, "text-anchor": "middle" }, clock(time)));
  }
  for (const mark of marks.filter((each) => each.at_s >= from && each.at_s <= to)) {
    const drawn = shape("line", { class: "mark", x1: x(mark.at_s), x2: x(mark.at_s), y1: TOP, y2: height - BOTTOM });
    drawn.append(shape("title", {}, mark.text));
    svg.append(drawn);
  }
  svg.append(shape("path", { class: "band", d: area(line(upper), line(lower)) }));
  svg.append(shape("path", { class: "curve", d: path(line(mean)) }));
  const last = line(mean).findLast(([, at]) => at !== null);
  if (last) svg.append(shape("circle", { class: "point", cx: last[0], cy: last[1], r: 3 }));
  else svg.append(shape("text", { x: (width + LEFT) / 2, y: height / 2, "text-anchor": "middle" }, nothing));
  if (limit) {
    const at = y(limit.value);
    svg.append(shape("line", { class: "limit", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
    svg.append(shape("text", { class: "limit-text", x: LEFT + 6, y: at < TOP + 16 ? at + 15 : at - 6 }, limit.text));
  }
  box.replaceChildren(svg);
}
