// Small charts as SVG. Nothing here is markup from a string: names and texts cannot become elements.

const SVG = "http://www.w3.org/2000/svg";
const STEPS_S = [10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 14400, 21600];
const LEFT = 46, RIGHT = 10, TOP = 12, BOTTOM = 22;

export function shape(name, attributes = {}, ...children) {
  const node = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) node.setAttribute(key, value);
  node.append(...children);
  return node;
}

const round = (x) => Math.round(x * 10) / 10;

function path(points) {
  let told = "", pen = false;
  for (const [x, y] of points) {
    if (y === null) { pen = false; continue; }
    told += `${pen ? "L" : "M"}${round(x)} ${round(y)}`;
    pen = true;
  }
  return told;
}

function bands(upper, lower) {
  const found = [];
  let begin = null;
  for (let n = 0; n <= upper.length; n++) {
    const here = n < upper.length && upper[n][1] !== null && lower[n][1] !== null;
    if (here && begin === null) begin = n;
    if (!here && begin !== null) {
      const there = upper.slice(begin, n), back = lower.slice(begin, n).reverse();
      found.push(path([...there, ...back]) + "Z");
      begin = null;
    }
  }
  return found.join("");
}

/** A line over time with its interval, a line that must not be crossed, and a cursor to read it. */
export class Chart {
  constructor(box, read) {
    this.box = box;
    this.read = read;
    this.data = null;
    this.at = null;
    new ResizeObserver(() => this.draw()).observe(box);
    box.addEventListener("pointermove", (event) => this.point(event));
    box.addEventListener("pointerleave", () => this.move(null));
    box.addEventListener("blur", () => this.move(null));
    box.addEventListener("keydown", (event) => {
      const last = (this.data?.times.length ?? 0) - 1;
      const to = { ArrowLeft: (this.at ?? last + 1) - 1, ArrowRight: (this.at ?? last) + 1, Home: 0, End: last }[event.key];
      if (to === undefined || last < 0) return;
      event.preventDefault();
      this.move(Math.max(0, Math.min(last, to)));
    });
  }

  show(data) {
    this.data = data;
    this.draw();
  }

  point(event) {
    if (!this.data?.times.length) return;
    const { left, width } = this.box.getBoundingClientRect();
    const { from, to, times } = this.data;
    const time = from + ((event.clientX - left - LEFT) / (width - LEFT - RIGHT)) * (to - from);
    let best = 0;
    times.forEach((each, n) => { if (Math.abs(each - time) < Math.abs(times[best] - time)) best = n; });
    this.move(best);
  }

  move(at) {
    this.at = at;
    this.draw();
  }

  draw() {
    const { data, box } = this;
    const width = box.clientWidth, height = box.clientHeight;
    if (!data || !width) return;
    const x = (time) => LEFT + ((time - data.from) / Math.max(1, data.to - data.from)) * (width - LEFT - RIGHT);
    const scaled = data.log ? (v) => Math.log10(Math.max(v, data.least)) : (v) => v;
    const low = scaled(data.least), high = scaled(data.most);
    const y = (value) => (value === null || value === undefined ? null : height - BOTTOM - ((Math.min(high, Math.max(low, scaled(value))) - low) / (high - low)) * (height - TOP - BOTTOM));
    const line = (values) => data.times.map((time, n) => [x(time), y(values[n])]);
    const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": data.label });
    for (const tick of data.ticks) {
      const at = round(y(tick));
      svg.append(shape("line", { class: "grid", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
      svg.append(shape("text", { x: LEFT - 7, y: at + 4, "text-anchor": "end" }, data.format(tick)));
    }
    const step = STEPS_S.find((each) => (data.to - data.from) / each <= Math.max(2, width / 95)) ?? 21600;
    const offset = new Date(data.to * 1000).getTimezoneOffset() * 60;
    for (let time = Math.ceil((data.from - offset) / step) * step + offset; time <= data.to; time += step) {
      const at = x(time);
      if (at < LEFT + 12 || at > width - 20) continue;
      svg.append(shape("text", { x: round(at), y: height - 5, "text-anchor": "middle" }, data.clock(time, step < 60)));
    }
    for (const mark of data.marks ?? []) {
      if (mark.at_s < data.from || mark.at_s > data.to) continue;
      const line = shape("line", { class: `mark ${mark.kind ?? ""}`, x1: round(x(mark.at_s)), x2: round(x(mark.at_s)), y1: TOP, y2: height - BOTTOM });
      const title = shape("title", {});
      title.textContent = mark.text;
      line.append(title);
      svg.append(line);
    }
    if (data.lower) svg.append(shape("path", { class: "band", d: bands(line(data.upper), line(data.lower)) }));
    const curve = line(data.mean);
    svg.append(shape("path", { class: "curve", d: path(curve) }));
    const last = curve.filter(([, at]) => at !== null).at(-1);
    if (last) svg.append(shape("circle", { class: "point", cx: round(last[0]), cy: round(last[1]), r: 3 }));
    if (data.limit !== null && data.limit !== undefined) {
      const at = round(y(data.limit));
      svg.append(shape("line", { class: "limit", x1: LEFT, x2: width - RIGHT, y1: at, y2: at }));
      svg.append(shape("text", { class: "limit-text", x: LEFT + 6, y: at < TOP + 16 ? at + 15 : at - 6 }, data.limitText));
    }
    if (!last) svg.append(shape("text", { x: (width + LEFT) / 2, y: height / 2, "text-anchor": "middle" }, data.nothing));
    const at = this.at === null ? null : Math.min(this.at, data.times.length - 1);
    if (at !== null && at >= 0) {
      const here = round(x(data.times[at]));
      svg.append(shape("line", { class: "cursor", x1: here, x2: here, y1: TOP, y2: height - BOTTOM }));
    }
    const told = at !== null && at >= 0 ? data.tell(at) : "";
    if (this.read.textContent !== told) this.read.textContent = told;
    box.replaceChildren(svg);
  }
}

/** The interval of one number on a scale, its mean, and its limit. */
export function interval({ mean, lower, upper }, { most, limit, over, label }) {
  const x = (value) => round(Math.max(0, Math.min(1, value / most)) * 100);
  const svg = shape("svg", { class: "interval", viewBox: "0 0 100 14", preserveAspectRatio: "none", role: "img", "aria-label": label });
  const more = over ? " over" : "";
  svg.append(shape("rect", { class: "track", x: 0, y: 5, width: 100, height: 4 }));
  svg.append(shape("rect", { class: `span${more}`, x: x(lower), y: 4, width: Math.max(0.8, x(upper) - x(lower)), height: 6 }));
  svg.append(shape("rect", { class: `mean${more}`, x: Math.max(0, Math.min(98.8, x(mean) - 0.6)), y: 2, width: 1.2, height: 10 }));
  if (limit !== null && limit <= most) svg.append(shape("line", { class: "mark-line", x1: x(limit), x2: x(limit), y1: 0, y2: 14, "vector-effect": "non-scaling-stroke" }));
  return svg;
}

/** How much of something there is. */
export function meter(share, kind, label) {
  const svg = shape("svg", { class: "meter", viewBox: "0 0 100 6", preserveAspectRatio: "none", role: "img", "aria-label": label });
  svg.append(shape("rect", { class: "track", width: 100, height: 6 }));
  svg.append(shape("rect", { class: `fill ${kind}`, width: round(100 * Math.max(0, Math.min(1, share))), height: 6 }));
  return svg;
}

/** A line as wide as a word. */
export function spark(times, mean, lower, upper, { from, to, least, most, label }) {
  const x = (time) => ((time - from) / Math.max(1, to - from)) * 150;
  const y = (value) => (value === null ? null : 28 - ((Math.max(least, Math.min(most, value)) - least) / (most - least)) * 26);
  const line = (values) => times.map((time, n) => [x(time), y(values[n])]);
  const svg = shape("svg", { class: "spark", viewBox: "0 0 150 30", role: "img", "aria-label": label });
  svg.append(shape("path", { class: "band", d: bands(line(upper), line(lower)) }));
  svg.append(shape("path", { class: "curve", d: path(line(mean)) }));
  return svg;
}
