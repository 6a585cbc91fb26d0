// Asks for what is new every few seconds, and shows it. Texts are only ever set as text.

import { Answers } from "./answers.js";
import { ask } from "./asking.js";
import { Chart, interval, meter, spark } from "./charts.js";
import { Documents } from "./documents.js";
import { Focus, focused, viewOf } from "./focus.js";
import { Goldens } from "./goldens.js";
import { called, language, list, speak, t } from "./words.js";
import { boundary, clock, days, element, isDifference, isShare, moment, number, percent, renew, say, span, tell, zone } from "./writing.js";

const EVERY_MS = 3000, HIDDEN_MS = 15000;
const RANGES = { "20m": 1200, "2h": 7200, "24h": 86400 };
const FIRST = ["hallucination", "faithfulness", "answer_relevancy", "refusal"];
const byId = (id) => document.getElementById(id);

const store = { state: null, rings: {}, answers: new Map(), cursor: "", lastOk: null, lost: null, verdict: "" };
const chosen = { signal: "hallucination", range: null };

const count = (n) => Math.round(n).toLocaleString(language());

export function bound({ objective, higher_is_better: higherIsBetter, signal }) {
  if (isDifference(signal)) return t("atMostBelow", { value: (1 - 2 * objective).toFixed(2) });
  return t(higherIsBetter ? "atLeast" : "atMost", { value: boundary(objective, signal, higherIsBetter) });
}

const amount = (value, unit) => (unit === "usd" ? `$${value < 0.1 && value > 0 ? value.toFixed(4) : value.toFixed(2)}` : `${count(value)} ${called("unit", unit)}`);

// --- what is known -------------------------------------------------------------------------------

const primary = () => store.state.judge ?? store.state.builtin;
const estimate = (signal, judge, window) => store.state.numbers.find((n) => n.signal === signal && n.judge === judge && n.window === window);
const whose = (signal) => (store.state.numbers.find((n) => n.signal === signal && n.judge === primary()) ? primary() : store.state.numbers.find((n) => n.signal === signal)?.judge ?? primary());
const alarmOf = (signal, judge) => store.state.alarms.find((a) => a.signal === signal && a.judge === judge);
const gauge = (name, labels = {}) => store.state.gauges.find((r) => r.name === name && Object.entries(labels).every(([k, v]) => r.labels[k] === v));
const shareOf = (alarm) => alarm.evidence_days / (store.state.threshold_days ?? 30);
const isOver = (found, alarm) => Boolean(found && alarm && alarm.objective !== null && (alarm.higher_is_better ? found.upper < alarm.objective : found.lower > alarm.objective));

/** How the last alarm of a signal ended; null: none ended of late, or it is active. */
function ended(signal, judge) {
  if (alarmOf(signal, judge)?.active) return null;
  const last = store.state.events.findLast((e) => e.signal === signal && e.judge === judge);
  return last && !last.raised && store.state.now_s - last.at_s < 86400 ? last : null;
}

function signals() {
  const judges = [primary(), store.state.builtin];
  const names = new Set(store.state.numbers.filter((n) => judges.includes(n.judge) || n.basis === "none").map((n) => n.signal));
  const order = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : isShare(name) ? 60 : 30);
  return [...names].sort((a, b) => order(a) - order(b) || a.localeCompare(b));
}

function basisTag(found) {
  if (found.basis === "judged") return element("span", { class: "tag judged" }, t("judgedBy", { judge: found.judge }));
  if (found.basis === "none") return element("span", { class: "tag" }, t("noJudge"));
  return element("span", { class: "tag builtin" }, t("builtinOnly"));
}

function howMany(found) {
  const key = { judged: "nJudged", builtin: "nJudged", none: "nAll" }[found.basis];
  return t(key, { n: count(found.judged) });
}

// --- sections ------------------------------------------------------------------------------------

function showHead() {
  const { state } = store;
  say(byId("service"), state.service);
  document.title = `${state.alarms.some((a) => a.active) ? "● " : ""}${state.service} · ragmonitor`;
  const about = { version: state.version, service: state.service_version, time: span(state.now_s - state.started_s) };
  say(byId("about"), t(state.service_version ? "aboutVersion" : "about", about));
  say(byId("legend"), state.judge ? t("legend", { judge: state.judge }) : t("legendBuiltin", { builtin: state.builtin }));
  const withheld = byId("withheld");
  withheld.hidden = state.content === "all";
  say(withheld, state.content === "all" ? "" : t("withheld", { content: state.content }));
  say(byId("foot"), `${t("foot")} ${t("zone", { zone: zone() })}`);
}

function showLive() {
  const node = byId("live");
  node.classList.toggle("lost", store.lost !== null);
  const time = store.lastOk === null ? "–" : clock(store.lastOk);
  say(node, store.lost === "locked" ? t("locked") : store.lost ? t("lost", { time }) : store.lastOk === null ? t("waiting") : t("live", { time }));
  // A screen reader says each change of this: no time or rate of every few seconds stands in it.
  say(byId("spoken"), store.lost ? node.textContent : store.verdict);
}

function told(cause) {
  const counts = { flipped: cause.flipped, reread: cause.reread };
  if (cause.cause === "judge") return t("causeJudge", counts);
  if (cause.cause === "application") return t("causeApplication", counts);
  return cause.expected_judge === null ? t("causeTooFew") : t("causeUnknown", { ...counts, waiting: cause.waiting });
}

function showVerdict() {
  const { alarms } = store.state;
  const active = alarms.filter((a) => a.active).sort((a, b) => (b.signal === "hallucination") - (a.signal === "hallucination") || (b.kind === "quality") - (a.kind === "quality") || a.since_s - b.since_s);
  const rising = alarms.filter((a) => !a.active && a.objective !== null && shareOf(a) > 1 / 600);
  const learning = alarms.filter((a) => a.objective === null);
  const names = (some) => list(some.map((a) => called("signal", a.signal)));
  let kind = "good", text = t("verdictFine", { all: alarms.length }), spoken;
  if (active.length) {
    kind = "bad";
    const [first, ...others] = active;
    const found = estimate(first.signal, first.judge, "1h");
    const time = moment(first.since_s);
    // Evidence weighs each answer since the change; the last hour may not show it yet.
    text = first.span
      ? t("verdictActiveSpan", { signal: called("signal", first.signal), span: spanned(first), bound: bound(first), time })
      : found && isOver(found, first)
      ? t("verdictActiveWith", { signal: called("signal", first.signal), value: number(found.mean, first.signal), lower: number(found.lower, first.signal), upper: number(found.upper, first.signal), bound: bound(first), time })
      : t("verdictActive", { signals: called("signal", first.signal), time });
    if (others.length) text += ` ${t("verdictAlso", { signals: names(others) })}`;
    if (store.state.cause) text += ` ${told(store.state.cause)}`;
    spoken = t("verdictActive", { signals: names(active), time });
  } else if (rising.length) {
    kind = "warn";
    text = t("verdictRising", { signals: names(rising) });
  } else if (!alarms.length) {
    kind = "";
    text = t("verdictNone");
  } else if (learning.length) {
    kind = "";
    text = t("verdictLearning", { n: learning.length, armed: alarms.length - learning.length });
  }
  byId("verdict").className = `verdict ${kind}`;
  say(byId("verdict"), text);
  store.verdict = spoken ?? text;
}

function scale(signal, found, limit) {
  if (!isShare(signal)) return 1;
  const most = Math.max(found.upper, limit ?? 0, 0.05) * 1.15;
  return [0.1, 0.2, 0.3, 0.5, 0.75].find((each) => most <= each) ?? 1;
}

function card(signal) {
  const judge = whose(signal);
  const hour = estimate(signal, judge, "1h"), day = estimate(signal, judge, "24h");
  const alarm = alarmOf(signal, judge);
  const found = hour ?? { basis: store.state.judge ? "judged" : "builtin", judge };
  const node = element("article", { class: "card panel", "data-signal": signal }, element("h3", {}, called("signal", signal)), element("div", {}, basisTag(found)));
  const over = isOver(hour, alarm);
  node.append(element("p", { class: `value${over ? " over" : ""}` }, hour ? number(hour.mean, signal) : "–"));
  if (hour) {
    const range = t("interval", { lower: number(hour.lower, signal), upper: number(hour.upper, signal) });
    const limit = alarm?.objective ?? null;
    node.append(interval(hour, { most: scale(signal, hour, limit), limit, over, label: range }));
    node.append(element("p", { class: "range" }, `${range} · ${howMany(hour)}${limit === null ? "" : ` · ${t("limit", { bound: bound(alarm) })}`}`));
  } else node.append(element("p", { class: "range" }, t("few")));
  if (over && !alarm.active) {
    const end = ended(signal, judge);
    node.append(element("p", { class: "range why" }, end ? t("stillRed", { time: moment(end.at_s) }) : t("redNoAlarm")));
  }
  node.append(element("p", { class: "day" }, day ? t("day", { value: number(day.mean, signal), lower: number(day.lower, signal), upper: number(day.upper, signal), n: howMany(day) }) : t("noDay")));
  return node;
}

function fact(value, what, more, drawn = null) {
  return element("div", { class: "fact panel" }, element("b", {}, value), element("span", {}, what), element("span", {}, more), drawn);
}

function showNow() {
  const { state } = store;
  const shown = FIRST.filter((signal) => state.numbers.some((n) => n.signal === signal));
  const others = signals().filter((signal) => !FIRST.includes(signal) && !isShare(signal));
  renew(byId("cards"), [...shown, ...others].slice(0, 4).map(card).concat(shown.length ? [] : [element("p", { class: "empty" }, t("waiting"))]));
  const arrivals = gauge("ragmonitor_arrivals_per_second");
  const facts = [fact(count(state.received), t("factSeen"), arrivals ? t("factSeenMore", { rate: arrivals.value.toPrecision(2) }) : t("factSeenPlain"))];
  if (state.judge) {
    const missing = gauge("ragmonitor_judge_missing_ratio", { judge: state.judge });
    const read = missing ? t("factMissing", { share: `${(100 * missing.value).toFixed(1)}%` }) : t("judgedBy", { judge: state.judge });
    facts.push(fact(count(state.judged), t("factJudged"), read));
    const rate = gauge("ragmonitor_judge_sampling_rate", { judge: state.judge });
    facts.push(fact(rate ? `${(100 * rate.value).toFixed(rate.value < 0.1 ? 1 : 0)}%` : "–", t("factShare"), t("factCommon")));
    const limits = state.gauges.filter((r) => r.name === "ragmonitor_budget_limit");
    for (const limit of limits) {
      const { unit, per } = limit.labels;
      const level = Math.max(0, gauge("ragmonitor_budget_level", { unit, per })?.value ?? 0);
      const spent = state.spent[per]?.[unit] ?? 0;
      const told = t("factBudget", { limit: amount(limit.value, unit), per: called("per", per) });
      facts.push(fact(amount(spent, unit), told, t("factAtOnce", { level: amount(level, unit) }), meter(spent / limit.value, spent > 0.9 * limit.value ? "bad" : "", told)));
    }
    if (!limits.length) facts.push(fact("–", t("budget"), t("factNoBudget")));
  } else facts.push(fact("–", t("factJudged"), t("factJudgedNone")));
  const judge = state.judge ?? state.builtin;
  const agree = (end) => gauge(`ragmonitor_feedback_agreement${end}`, { judge })?.value;
  if (agree("") !== undefined) {
    const both = state.gauges.filter((r) => r.name === "ragmonitor_feedback_answers" && r.labels.judge === judge);
    const n = both.reduce((sum, r) => sum + r.value, 0);
    const whole = (share) => `${(100 * share).toFixed(0)}%`;
    facts.push(fact(whole(agree("")), t("factPeople"), t("factPeopleMore", { lower: whole(agree("_lower")), upper: whole(agree("_upper")), n: count(n) })));
  }
  const cost = ["1h", "24h"].map((window) => costOf(window)).find(Boolean);
  if (cost) facts.push(fact(dollars(cost.mean), t("factGoodAnswer"), `${t("interval", { lower: dollars(cost.lower), upper: dollars(cost.upper) })} · ${t("h", { n: Number.parseInt(cost.window, 10) })}`));
  renew(byId("facts"), facts);
}

const dollars = (value) => `$${Number(value.toPrecision(3))}`;

// What all answers cost, by good answer; null: prices or verdicts are missing.
function costOf(window) {
  const [mean, lower, upper] = ["", "_lower", "_upper"].map((end) => gauge(`ragmonitor_cost_per_good_answer_usd${end}`, { window, model: "" })?.value);
  return upper === undefined ? null : { window, mean, lower, upper };
}

function range() {
  if (chosen.range) return chosen.range;
  const age = store.state.now_s - store.state.started_s;
  return age < 1200 ? "20m" : age < 7200 ? "2h" : "24h";
}

function view() {
  const name = range();
  const { now_s: to, started_s: started } = store.state;
  const from = Math.max(to - RANGES[name], Math.min(started, to - 60));
  const ring = store.rings[name];
  const first = ring ? Math.max(0, ring.times.findIndex((time) => time >= from - ring.every_s)) : 0;
  const column = (signal, judge, part) => (ring?.series[signal]?.[judge]?.[part] ?? []).slice(first);
  return { from, to, times: ring ? ring.times.slice(first) : [], column };
}

let charts = null;

function showCharts() {
  const { state } = store;
  charts ??= { estimate: new Chart(byId("estimate"), byId("estimate-read")), evidence: new Chart(byId("evidence"), byId("evidence-read")) };
  const names = signals();
  const options = [...new Set([...names, ...state.alarms.map((a) => a.signal)])];
  const select = byId("signal");
  const known = [...select.options].map((o) => `${o.value}=${o.text}`).join();
  if (known !== options.map((name) => `${name}=${called("signal", name)}`).join()) {
    select.replaceChildren(...options.map((name) => element("option", { value: name }, called("signal", name))));
  }
  if (options.length && !options.includes(chosen.signal)) chosen.signal = options[0];
  select.value = chosen.signal;
  for (const button of byId("ranges").children) button.setAttribute("aria-pressed", String(button.value === range()));
  const signal = chosen.signal, seen = view();
  const alarm = state.alarms.find((a) => a.signal === signal);
  const judge = alarm?.judge ?? whose(signal);
  const [mean, lower, upper] = ["mean", "lower", "upper"].map((part) => seen.column(signal, judge, part));
  // Its own values are not drawn: there is only the evidence of them.
  const limit = isDifference(signal) ? null : alarm?.objective ?? null;
  const high = Math.max(0.05, limit ?? 0, ...upper.filter((v) => v !== null));
  const most = isShare(signal) ? [0.1, 0.2, 0.4, 0.6, 0.8].find((each) => high * 1.05 <= each) ?? 1 : 1;
  const title = t("estimateTitle", { signal: called("signal", signal) });
  const format = (value) => (isShare(signal) ? `${Math.round(100 * value * 10) / 10}%` : value.toFixed(2));
  const marks = state.marks.map((each) => ({ at_s: each.at_s, text: `${clock(each.at_s, true)} ${t(each.kind)}: ${each.name}` }));
  const rises = new Set([alarm, ...state.events.filter((e) => e.signal === signal && e.raised)].map((e) => e?.span?.since_s).filter(Boolean));
  for (const at_s of rises) marks.push({ at_s, kind: "rise", text: `${clock(at_s, true)} ${t("rise", { signal: called("signal", signal) })}` });
  const common = { from: seen.from, to: seen.to, times: seen.times, clock, marks, nothing: t("nothingYet") };
  say(byId("estimate-title"), `${title} · ${judge === "none" ? t("noJudge") : judge === state.builtin ? t("builtinOnly") : t("judgedBy", { judge })}`);
  charts.estimate.show({
    ...common, mean, lower, upper, least: 0, most, ticks: [0, 0.25, 0.5, 0.75, 1].map((s) => s * most), format, limit,
    limitText: alarm && limit !== null ? t("limit", { bound: bound(alarm) }) : "", label: title,
    tell: (n) => (mean[n] === null || mean[n] === undefined ? "" : t("readEstimate", { time: clock(seen.times[n]), value: number(mean[n], signal), lower: number(lower[n], signal), upper: number(upper[n], signal) })),
  });
  const threshold = state.threshold_days ?? 30;
  const evidence = seen.column(signal, judge, "evidence").map((v) => (v === null ? null : v / threshold));
  const peak = Math.max(10, ...evidence.filter((v) => v !== null));
  const top = 10 ** Math.min(9, Math.ceil(Math.log10(peak)));
  const powers = Array.from({ length: Math.round(Math.log10(top)) + 5 }, (_, n) => 10 ** (n - 4));
  say(byId("evidence-title"), t("evidenceTitle"));
  charts.evidence.show({
    ...common, mean: evidence, least: 1e-4, most: top, log: true, limit: 1, limitText: t("thresholdLine"), label: t("evidenceTitle"),
    ticks: powers.length > 7 ? powers.filter((_, n) => n % 2 === 0) : powers, format: percent,
    nothing: alarm ? t("nothingYet") : t("noAlarm"),
    tell: (n) => (evidence[n] === null || evidence[n] === undefined ? "" : t("readEvidence", { time: clock(seen.times[n]), value: percent(evidence[n]) })),
  });
}

function cell(found, kind, label) {
  if (!found) return element("td", { class: `${kind} none`, "data-label": label }, "–");
  return element("td", { class: kind, "data-label": label }, number(found.mean, found.signal), element("small", {}, `${t("interval", { lower: number(found.lower, found.signal), upper: number(found.upper, found.signal) })} · ${howMany(found)}`));
}

function showTable() {
  const { state } = store;
  const windows = ["1h", "24h"];
  const columns = [];
  const label = (key, window) => t(key, { window: window === "1h" ? "1 h" : "24 h" }).replace(/1 h$|24 h$/, (w) => (w === "1 h" ? t("h", { n: 1 }) : t("h", { n: 24 })));
  if (state.judge) for (const window of windows) columns.push({ judge: state.judge, window, kind: "", label: label("colJudged", window) });
  for (const window of windows) columns.push({ judge: state.builtin, window, kind: "builtin", label: label("colBuiltin", window) });
  const trend = t("colTrend", { range: { "20m": t("min", { n: 20 }), "2h": t("h", { n: 2 }), "24h": t("h", { n: 24 }) }[range()] });
  const head = element("tr", {}, element("th", { scope: "col" }, t("colSignal")), ...columns.map((c) => element("th", { scope: "col" }, c.label)), element("th", { scope: "col" }, trend));
  renew(byId("numbers").tHead, [head]);
  const seen = view();
  const rows = signals().map((signal) => {
    const judge = whose(signal), free = judge === "none";
    const [mean, lower, upper] = ["mean", "lower", "upper"].map((part) => seen.column(signal, judge, part));
    const unfounded = signal === "empty_retrieval" && state.answered_without_chunks ? element("small", {}, t("unfoundedHour", { n: count(state.answered_without_chunks) })) : null;
    const row = element("tr", {}, element("th", { scope: "row" }, called("signal", signal), unfounded));
    columns.forEach((column, n) => {
      const plain = free ? n < 2 && estimate(signal, "none", windows[n]) : estimate(signal, column.judge, column.window);
      row.append(cell(plain || null, free ? "" : column.kind, free ? label("colWhole", windows[n] ?? "1h") : column.label));
    });
    const some = mean.some((v) => v !== null);
    const top = Math.max(0.05, ...upper.filter((v) => v !== null)), bottom = Math.min(1, ...lower.filter((v) => v !== null));
    row.append(element("td", { class: "trend" }, some ? spark(seen.times, mean, lower, upper, { from: seen.from, to: seen.to, least: isShare(signal) ? 0 : Math.max(0, bottom - 0.05), most: Math.min(1, top + 0.05), label: `${called("signal", signal)}, ${trend}` }) : ""));
    return row;
  });
  renew(byId("numbers").tBodies[0], rows);
  const groups = state.groups.filter((g) => g.window === "1h");
  byId("groups-box").hidden = !groups.length;
  renew(byId("groups").tHead, [element("tr", {}, ...["colDimension", "colGroup"].map((key) => element("th", { scope: "col" }, t(key))), element("th", { scope: "col" }, called("signal", "hallucination")))]);
  renew(byId("groups").tBodies[0], groups.sort((a, b) => b.mean - a.mean).map((g) => element("tr", {}, element("td", { "data-label": t("colDimension") }, g.dimension), element("th", { scope: "row" }, viewOf("slice", `${g.dimension}=${g.group}`, g.group)), cell(g, g.basis === "builtin" ? "builtin" : "", called("signal", "hallucination")))));
}

// The scored answers since the rise, or of a cleared alarm the recovery, began.
function spanned(event) {
  const { since_s, scored, bad, mean, before } = event.span;
  const known = { since: moment(since_s), scored, bad, mean: number(mean, event.signal) };
  const said = t(bad === null ? "spanMean" : "spanRate", known);
  return before === null ? said : `${said}${t("spanBefore", { value: number(before, event.signal) })}`;
}

function stateOf(alarm) {
  if (alarm.objective === null) return t("stateLearning", { share: `${Math.floor(100 * alarm.learned)}%` });
  if (alarm.active) {
    const raised = { time: moment(alarm.since_s), ago: span(store.state.now_s - alarm.since_s), bound: bound(alarm) };
    return alarm.span ? t("stateActiveSpan", { ...raised, span: spanned(alarm) }) : t("stateActive", raised);
  }
  const end = ended(alarm.signal, alarm.judge);
  if (end) {
    const told = t("stateEnded", { time: moment(end.at_s), raised: moment(end.since_s), bound: bound(alarm) });
    return isOver(estimate(alarm.signal, alarm.judge, "1h"), alarm) ? `${told} ${t("stateEndedRed", { until: moment(end.at_s + 3600) })}` : told;
  }
  if (alarm.rising_since_s && shareOf(alarm) > 1 / 600) return t("stateRising", { time: moment(alarm.rising_since_s), bound: bound(alarm) });
  return t("stateFine", { bound: bound(alarm) });
}

function showAlarms() {
  const { state } = store;
  const threshold = state.threshold_days ?? 30;
  const learning = state.alarms.filter((a) => a.objective === null).length;
  say(byId("line"), `${t("armed", { armed: state.alarms.length - learning, n: learning })} ${t("threshold", { days: Number(threshold.toFixed(1)) })}`);
  const weight = (a) => (a.active ? 0 : 10) + { quality: 0, slice: 1, input: 2, judge: 3 }[a.kind];
  // There may be many slices: those that are calm are counted only.
  const isCalm = (a) => a.kind === "slice" && !a.active && shareOf(a) <= 1 / 600;
  const calm = state.alarms.filter(isCalm).length;
  say(byId("calm-slices"), calm ? t("calmSlices", { n: calm }) : "");
  const sorted = state.alarms.filter((a) => !isCalm(a)).sort((a, b) => weight(a) - weight(b));
  renew(byId("alarms"), sorted.map((alarm) => {
    // From 0.01% of the threshold to all of it, each power of ten as wide as the next.
    const share = alarm.objective === null ? alarm.learned : 1 + Math.log10(Math.max(shareOf(alarm), 1e-4)) / 4;
    const told = alarm.objective === null ? `${Math.floor(100 * alarm.learned)}%` : t("evidence", { value: percent(shareOf(alarm)) });
    const help = alarm.objective === null ? "" : t("evidenceHelp", { value: days(alarm.evidence_days), days: Number(threshold.toFixed(1)) });
    const kind = alarm.active ? "bad" : alarm.objective === null ? "quiet" : shareOf(alarm) > 1 / 30 ? "warn" : "";
    return element("li", { class: `alarm panel${alarm.active ? " active" : ""}`, "data-signal": alarm.signal },
      element("div", {}, element("p", {}, element("b", {}, called("signal", alarm.signal)), element("span", { class: "tag" }, called("kind", alarm.kind))), element("p", {}, stateOf(alarm))),
      element("div", { title: help }, element("small", {}, told), meter(share, kind, told)));
  }));
  byId("incidents-box").hidden = !state.incidents.length;
  renew(byId("incidents"), state.incidents.map((each) => element("li", { "data-id": each.id }, element("time", {}, moment(each.opened_s)), element("span", { class: `tag ${each.closed_s === null ? "bad" : "good"}` }, t(each.closed_s === null ? "incidentOpen" : "incidentClosed")), " ", element("a", { href: `incidents/${encodeURIComponent(each.id)}?lang=${language()}` }, each[language()]))));
  byId("events-box").hidden = !state.events.length;
  renew(byId("events"), [...state.events].reverse().map((event) => {
    const found = event.estimate;
    const told = event.span
      ? t("eventSpan", { span: spanned(event), bound: bound(event) })
      : found
      ? t("eventEstimate", { value: number(found.mean, event.signal), lower: number(found.lower, event.signal), upper: number(found.upper, event.signal), bound: bound(event) })
      : t("eventBound", { bound: bound(event) });
    return element("li", {}, element("time", {}, moment(event.at_s)), element("b", {}, `${called("signal", event.signal)} `), element("span", { class: `tag ${event.raised ? "bad" : "good"}` }, t(event.raised ? "eventRaised" : "eventCleared")), ` ${told}`, event.detail ? element("span", { class: "quiet" }, ` ${event.detail}`) : null);
  }));
}

const answers = new Answers(store);
const documents = new Documents(store);
const goldens = new Goldens(store);
const focus = new Focus(store, documents, stateOf);

function show() {
  if (store.state) showVerdict();
  showLive();
  if (!store.state) return;
  for (const part of [showHead, showNow, showCharts, showTable, showAlarms, () => goldens.show(), () => documents.show(), () => focus.show(), () => answers.show()]) {
    // What cannot be drawn takes nothing else along; the browser's console says what it was.
    try { part(); } catch (error) { reportError(error); }
  }
  bring();
}

// --- the part that the address names -----------------------------------------------------------------

/** The part's name, until it is drawn and in view, or the reader has gone elsewhere; empty: none is wanted. */
let wanted = location.hash;

function named(hash) {
  if (focused()) return byId("focus");
  const [name, value = ""] = decoded(hash.slice(1)).split(/=(.*)/s);
  if (name === "incident") return [...byId("incidents").children].find((each) => each.dataset.id === value);
  return answers.target() ?? byId(name);
}

function decoded(text) {
  try { return decodeURIComponent(text); } catch { return text; }
}

/** Bring into view what the address names, once: it is drawn after the browser has looked for it. */
function bring() {
  const node = wanted && store.state ? named(wanted) : null;
  if (!node?.getClientRects().length) return;
  node.scrollIntoView();
  wanted = "";
}

function follow(hash) {
  wanted = hash;
  bring();
}

addEventListener("hashchange", () => follow(location.hash));
document.addEventListener("click", (event) => {
  // To where one is already leads no change of the address.
  const link = event.target.closest("a[href^='#']");
  if (link?.hash === location.hash) follow(link.hash);
});
for (const kind of ["wheel", "touchmove", "keydown"]) addEventListener(kind, () => { wanted = ""; }, { passive: true });

function translate() {
  document.documentElement.lang = language();
  for (const node of document.querySelectorAll("[data-t]")) say(node, t(node.dataset.t));
  for (const node of document.querySelectorAll('nav[data-label], [role="group"][data-label]')) node.setAttribute("aria-label", t(node.dataset.label));
  for (const each of ["en", "zh"]) byId(`lang-${each}`).setAttribute("aria-pressed", String(each === language()));
  byId("estimate").setAttribute("aria-label", t("hours"));
  byId("evidence").setAttribute("aria-label", t("evidenceTitle"));
  const names = { "20m": t("min", { n: 20 }), "2h": t("h", { n: 2 }), "24h": t("h", { n: 24 }) };
  for (const button of byId("ranges").children) say(button, names[button.value]);
  answers.translate();
  show();
}

// --- news ----------------------------------------------------------------------------------------

function takeHistory(history) {
  for (const [name, news] of Object.entries(history)) {
    const ring = (store.rings[name] ??= { every_s: news.every_s, last: 0, times: [], series: {} });
    const from = news.revisions.findIndex((revision) => revision > ring.last);
    if (from < 0) continue;
    const before = ring.times.length;
    ring.times.push(...news.times.slice(from));
    ring.last = news.revisions.at(-1);
    for (const [signal, judges] of Object.entries(news.series)) {
      for (const [judge, parts] of Object.entries(judges)) {
        const known = ((ring.series[signal] ??= {})[judge] ??= {});
        for (const [part, values] of Object.entries(parts)) (known[part] ??= Array(before).fill(null)).push(...values.slice(from));
      }
    }
    const extra = ring.times.length - news.points;
    for (const judges of Object.values(ring.series)) {
      for (const parts of Object.values(judges)) {
        for (const values of Object.values(parts)) {
          while (values.length < ring.times.length) values.push(null);
          if (extra > 0) values.splice(0, extra);
        }
      }
    }
    if (extra > 0) ring.times.splice(0, extra);
  }
}

function take(state) {
  tell(state.now_s);
  if (state.anew) {
    store.rings = {};
    store.answers.clear();
    answers.forget();
  }
  store.cursor = state.cursor;
  takeHistory(state.history);
  for (const answer of state.answers) store.answers.set(answer.number, answer);
  const kept = new Set(state.kept);
  for (const key of store.answers.keys()) if (!kept.has(key)) store.answers.delete(key);
  store.state = state;
  store.lastOk = state.now_s;
  store.lost = null;
}

let waiting = null, isAsking = false;

async function poll() {
  // A tab that is looked at again and again while replies are slow asks once.
  if (isAsking) return;
  isAsking = true;
  clearTimeout(waiting);
  try {
    for (let more = true; more;) {
      const reply = await ask(`state.json?since=${encodeURIComponent(store.cursor)}`);
      if (!reply.ok) throw new Error(reply.status === 401 || reply.status === 403 ? "locked" : "lost");
      take(await reply.json());
      ({ more } = store.state);
    }
    await documents.poll();
    await goldens.poll();
    await focus.poll();
  } catch (error) {
    store.lost = error.message === "locked" ? "locked" : "lost";
  }
  isAsking = false;
  waiting = setTimeout(poll, document.hidden ? HIDDEN_MS : EVERY_MS);
  show();
}

function remember(name) {
  try { localStorage.setItem("ragmonitor.language", name); } catch { /* storage is switched off: the browser's language stays */ }
}

function remembered() {
  try { return localStorage.getItem("ragmonitor.language"); } catch { return null; }
}

for (const each of ["en", "zh"]) {
  byId(`lang-${each}`).addEventListener("click", () => { speak(each); remember(each); translate(); });
}
byId("signal").addEventListener("change", (event) => { chosen.signal = event.target.value; showCharts(); });
byId("ranges").append(...Object.keys(RANGES).map((name) => element("button", { type: "button", value: name, onclick: () => { chosen.range = name; show(); } })));
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
speak(remembered() ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"));
translate();
poll();
