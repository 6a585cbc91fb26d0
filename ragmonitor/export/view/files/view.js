// Asks for the state every few seconds, and shows it: the verdict first, the rest in tabs.

import { drawFilters, follow, isMarked, sentence, showAnswers } from "./answers.js";
import { draw } from "./chart.js";
import { ask, bound, byId, clock, count, dollars, element, isDifference, isRate, moment, number, percent, range, renew, say, span, table, tag, zone } from "./dom.js";
import { showIncident } from "./incident.js";
import { called, language, list, speak, t } from "./words.js";

const EVERY_MS = 3000, HIDDEN_MS = 15000;
const FIRST = ["hallucination", "faithfulness", "answer_relevancy", "refusal"];
const RISING_FROM = 1 / 600;

const DAY_S = 86400;
const chosen = { signal: "hallucination" };
let state = null, seenAt = null, trouble = "", incident = "";

const estimate = (signal, judge, window) => state.numbers.find((n) => n.signal === signal && n.judge === judge && n.window === window);
const judgeOf = (signal) => [state.judge, state.builtin, "none"].find((judge) => estimate(signal, judge, "1h")) ?? state.judge ?? state.builtin;
const alarmOf = (signal, judge) => state.alarms.find((a) => a.signal === signal && a.judge === judge);
const isBeyond = (found, alarm) => Boolean(alarm && alarm.objective !== null && (alarm.higher_is_better ? found.upper < alarm.objective : found.lower > alarm.objective));
const openIncident = () => state.incidents.find((each) => each.closed_s === null);

// --- the first screen ----------------------------------------------------------------------------

/** The scored answers since a rise began: "22 of 40 scored answers are bad since 23:08; 3% before". */
function spanned({ signal, span: since }) {
  const known = { since: moment(since.since_s), scored: count(since.scored), bad: count(since.bad ?? 0), mean: number(since.mean, signal) };
  const text = t(since.bad === null ? "spanMean" : "spanRate", known);
  return since.before === null ? text : text + t("spanBefore", { value: number(since.before, signal) });
}

function causes() {
  const { cause } = state;
  const named = openIncident()?.cause;
  const texts = [];
  if (named && Object.hasOwn({ document: 1, slice: 1, version: 1, event: 1 }, named.kind)) texts.push(t("namedCause", { kind: called("named", named.kind), name: named.name }));
  if (cause && cause.cause === "judge") texts.push(t("causeJudge", cause));
  if (cause && cause.cause === "application") texts.push(t("causeApplication", { ...cause, kept: cause.reread - cause.flipped }));
  return texts.length ? texts : [t("causeOpen")];
}

/** One of the worst answers: its marked sentence, and the way to the whole answer. */
function worstAnswer(answer) {
  const marked = (answer.answer ?? []).filter((piece) => piece.parts && isMarked(piece));
  const worst = marked.find((piece) => piece.verdict === "contradicted") ?? marked[0];
  return element("li", {},
    element("a", { href: `#answer=${encodeURIComponent(answer.id)}` }, answer.question || answer.id),
    worst ? element("p", {}, sentence(worst)) : element("p", { class: "quiet" }, answer.diagnosis ? called("diagnosis", answer.diagnosis) : ""));
}

function alarmNodes(active) {
  const [first, ...others] = active;
  const found = openIncident();
  return [
    element("h2", {}, t("alarm", { signal: called("signal", first.signal) })),
    element("p", {}, first.span ? t("spanLimit", { span: spanned(first), bound: bound(first) }) : t("raisedAt", { time: moment(first.since_s), bound: bound(first) })),
    element("p", {}, causes().join(" ")),
    others.length ? element("p", {}, t("alsoAlarm", { signals: list(others.map((a) => called("signal", a.signal))) })) : null,
    state.worst.length ? element("h3", {}, t("worst")) : null,
    state.worst.length ? element("ol", { class: "worst" }, ...state.worst.map(worstAnswer)) : null,
    found ? element("p", {}, element("a", { class: "button", href: `#incident=${encodeURIComponent(found.id)}` }, t("toIncident"))) : null,
  ];
}

function showVerdict() {
  const { alarms } = state;
  const weight = (a) => (a.signal === "hallucination" ? 0 : a.kind === "quality" ? 1 : 2);
  const active = alarms.filter((a) => a.active).sort((a, b) => weight(a) - weight(b) || a.since_s - b.since_s);
  const rising = alarms.filter((a) => a.objective !== null && a.evidence > RISING_FROM);
  const learning = alarms.filter((a) => a.objective === null);
  const box = byId("verdict");
  let kind = "good", text = t("fine", { all: alarms.length });
  if (active.length) kind = "bad";
  else if (rising.length) [kind, text] = ["warn", t("rising", { signals: list(rising.map((a) => called("signal", a.signal))) })];
  else if (!alarms.length) [kind, text] = ["", t(state.received ? "nothingWatched" : "waiting")];
  else if (learning.length) [kind, text] = ["", t("learning", { n: learning.length, all: alarms.length })];
  box.className = `verdict ${kind}`;
  renew(box, active.length ? alarmNodes(active) : [element("h2", {}, text)]);
  document.title = `${active.length ? "● " : ""}${state.service} · ragmonitor`;
}

function showMute() {
  const { mute } = state;
  byId("mute").hidden = !mute;
  if (!mute) return;
  const text = t("mute", { judge: state.judge, time: moment(mute.since_s), cause: called("cause", mute.cause) });
  renew(byId("mute"), [element("h2", {}, text), element("p", {}, mute.detail)]);
}

/** Why a number is beyond its limit without an alarm, or within it during one; empty: it agrees. */
function remark(found, alarm) {
  if (!alarm) return "";
  const isOver = isBeyond(found, alarm);
  if (alarm.active) return isOver || !alarm.span ? "" : t("holdsEarlier");
  return isOver ? t("overNoAlarm") : "";
}

function card(signal) {
  const judge = judgeOf(signal), found = estimate(signal, judge, "1h"), alarm = alarmOf(signal, judge);
  const choose = () => { chosen.signal = signal; poll(); };
  const node = element("button", { type: "button", class: "card panel", "data-signal": signal, "aria-pressed": String(chosen.signal === signal), onclick: choose }, element("b", {}, called("signal", signal)));
  if (!found) {
    node.append(element("span", { class: "value" }, "–"), element("span", { class: "quiet" }, t("few")));
    return node;
  }
  const isOver = isBeyond(found, alarm);
  const whose = judge === "none" ? t("answerCount", { n: count(found.effective_n) }) : t("scoredCount", { n: count(found.scored), judge: called("judge", judge) });
  node.append(
    element("span", { class: `value${isOver ? " over" : ""}` }, number(found.mean, signal)),
    element("span", { class: "quiet" }, [range(found, signal), t("lastHour"), whose].join(" · ")),
    element("span", { class: "quiet" }, (alarm?.objective ?? null) === null ? "" : t("limit", { bound: bound(alarm) })),
    element("span", { class: "why" }, remark(found, alarm)));
  return node;
}

function signals() {
  const known = [...new Set(state.numbers.map((n) => n.signal))];
  const order = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : isRate(name) ? 60 : 30);
  return known.sort((a, b) => order(a) - order(b) || a.localeCompare(b));
}

/** What came in, who scored it and what that cost, in one line. */
function facts() {
  const { per_second: speed, rate, asked, missing } = state.sampling;
  const texts = [t("received", { n: count(state.received) })];
  const perSecond = speed === null ? "" : t("speed", { rate: Number(speed.toPrecision(2)) });
  if (!state.judge) return [...texts, perSecond, t("onlyBuiltin")];
  const isShort = rate !== null && rate < 0.995 * (asked ?? 1);
  texts.push(isShort ? "" : perSecond, t("judgedCount", { n: count(state.judged), judge: state.judge }));
  if (rate !== null) texts.push(isShort ? t("bears", { rate: percent(rate), speed: perSecond, asked: percent(asked ?? 1) }) : t("samples", { rate: percent(rate) }));
  if (missing) texts.push(t("missing", { share: percent(missing) }));
  texts.push(t("spent", { usd: dollars(state.spent_usd) }));
  for (const { unit, per, limit } of state.budget) texts.push(t("budget", { limit: unit === "usd" ? dollars(limit) : `${count(limit)} ${called("unit", unit)}`, per: called("per", per) }));
  return texts;
}

function showChart() {
  const { chart } = state;
  const alarm = alarmOf(chart.signal, chart.judge);
  const marks = state.marks.map((each) => ({ at_s: each.at_s, text: `${moment(each.at_s)} ${called("mark", each.kind)} ${each.name}` }));
  if (alarm?.active && alarm.span) marks.push({ at_s: alarm.span.since_s, text: spanned(alarm) });
  const title = t("chartTitle", { signal: called("signal", chart.signal) });
  say(byId("chart-title"), title);
  const isLimited = alarm && alarm.objective !== null && !isDifference(chart.signal);
  draw(byId("chart"), {
    chart, marks, label: title, nothing: t("nothingYet"),
    from: Math.max(state.now_s - DAY_S, Math.min(state.started_s, state.now_s - 60)), to: state.now_s,
    limit: isLimited ? { value: alarm.objective, text: t("limit", { bound: bound(alarm) }) } : null,
  });
}

function showOverview() {
  showVerdict();
  showMute();
  say(byId("withheld"), state.content === "all" ? "" : t("withheld", { content: state.content }));
  renew(byId("cards"), []);
  byId("cards").replaceChildren(...signals().slice(0, 4).map(card));
  say(byId("facts"), facts().filter(Boolean).join(" · "));
  showChart();
}

// --- the other tabs ------------------------------------------------------------------------------

function stateOf(alarm) {
  if (alarm.active) return tag(t("stateActive", { time: moment(alarm.since_s) }), "bad");
  if (alarm.objective === null) return t("stateLearning", { share: percent(alarm.learned) });
  if (alarm.rising_since_s && alarm.evidence > RISING_FROM) return tag(t("stateRising", { time: moment(alarm.rising_since_s) }), "warn");
  return t("stateFine");
}

function showAlarms() {
  say(byId("threshold"), state.threshold_days ? t("threshold", { days: Number(state.threshold_days.toFixed(1)) }) : "");
  const sorted = state.alarms.toSorted((a, b) => b.active - a.active || b.evidence - a.evidence);
  renew(byId("alarm-table"), [table([
    [t("signal"), (a) => called("signal", a.signal)],
    [t("judgeName"), (a) => called("judge", a.judge)],
    [t("state"), stateOf],
    [t("limitTitle"), (a) => (a.objective === null ? "–" : bound(a))],
    [t("evidence"), (a) => (a.objective === null ? "–" : t("ofThreshold", { value: percent(a.evidence) }))],
  ], sorted)]);
  const none = () => [element("li", { class: "quiet" }, t("none"))];
  renew(byId("incidents"), state.incidents.length ? state.incidents.map((each) => element("li", {},
    element("time", {}, moment(each.opened_s)), " ", tag(t(each.closed_s === null ? "open" : "closed"), each.closed_s === null ? "bad" : "good"), " ",
    element("a", { href: `#incident=${encodeURIComponent(each.id)}` }, each[language()]))) : none());
}

const withRange = (found) => (found ? `${number(found.mean, found.signal)} (${range(found, found.signal)})` : "–");

function showEvaluations() {
  const judges = [...new Set([state.judge, state.builtin])].filter(Boolean);
  const columns = judges.map((judge) => [t("byJudge", { judge: called("judge", judge) }), (signal) => withRange(estimate(signal, judge, "24h"))]);
  if (state.numbers.some((n) => n.judge === "none")) columns.push([t("byNobody"), (signal) => withRange(estimate(signal, "none", "24h"))]);
  renew(byId("evaluation-table"), [table([[t("evaluation"), (signal) => called("signal", signal)], ...columns], signals())]);
}

const view = async (name) => (state.views.includes(name) ? ask(`${name}.json`) : null);

async function showWhere() {
  const [slices, documents] = [await view("slices"), await view("documents")];
  renew(byId("slice-table"), slices ? [table([
    [t("slice"), (s) => element("a", { href: `#slice=${encodeURIComponent(s.name)}` }, s.name)],
    [t("rate"), (s) => withRange(s.rate && { ...s.rate, signal: "hallucination" })],
    [t("share"), (s) => percent(s.share)],
  ], slices.listed)] : []);
  renew(byId("document-table"), documents ? [table([
    [t("document"), (d) => element("a", { href: `#document=${encodeURIComponent(d.document)}` }, d.document)],
    [t("contradicted"), (d) => count(d.contradicted)],
    [t("restsOn"), (d) => count(d.rests_on)],
    [t("retrieved"), (d) => count(d.retrieved)],
  ], documents.listed.slice(0, 20))] : []);
}

async function showGoldens() {
  const goldens = await view("goldens");
  if (!goldens) return;
  const score = (value) => (value === null ? "–" : number(value));
  renew(byId("golden-table"), [table([
    [t("question"), (g) => g.question || g.id],
    [t("outcome"), (g) => t(`golden_${g.outcome || "unasked"}`)],
    [t("newest"), (g) => score(g.answer_correctness)],
    [t("expected"), (g) => score(g.expected)],
  ], goldens.worst)]);
}

const TABS = {
  overview: showOverview, alarms: showAlarms, evaluations: showEvaluations, where: showWhere, goldens: showGoldens,
  incident: () => showIncident(incident),
};

// --- the address, and news -----------------------------------------------------------------------

const decoded = (text) => { try { return decodeURIComponent(text); } catch { return text; } };

/** The tab that the address names, and what of it: `#answer=ID` is on the overview. */
function place() {
  const [name, value = ""] = location.hash.slice(1).split(/=(.*)/s);
  const [words, wish] = value.split("&lang=");
  return { name, value: decoded(words), wish, tab: Object.hasOwn(TABS, name) ? name : "overview" };
}

async function show() {
  const { tab } = place();
  for (const each of document.querySelectorAll(".tab")) each.hidden = each.id !== tab;
  for (const link of byId("tabs").children) link.setAttribute("aria-current", link.hash === `#${tab}` ? "page" : "false");
  byId("live").classList.toggle("lost", Boolean(trouble));
  const time = seenAt === null ? "–" : clock(seenAt, true);
  say(byId("live"), trouble ? t(trouble, { time }) : seenAt === null ? t("waiting") : t("live", { time }));
  if (!state) return;
  say(byId("service"), state.service);
  const about = { version: state.version, service: state.service_version, time: span(state.now_s - state.started_s) };
  say(byId("about"), t(state.service_version ? "aboutVersion" : "about", about));
  say(byId("foot"), t("foot", { zone: zone() }));
  const views = { where: state.views.includes("slices") || state.views.includes("documents"), goldens: state.views.includes("goldens") };
  for (const [name, isThere] of Object.entries(views)) byId("tabs").querySelector(`[href="#${name}"]`).hidden = !isThere;
  await TABS[tab]();
}

let waiting = null;

async function poll() {
  clearTimeout(waiting);
  try {
    state = await ask(`state.json?${new URLSearchParams(chosen)}`);
    [seenAt, trouble] = [state.now_s, ""];
    await show();
    // A list that changes under the reader's eyes is of no use: it is renewed at its top only.
    if (place().tab === "overview" && byId("answers").getBoundingClientRect().top > 0) await showAnswers(state);
  } catch (error) {
    if (error instanceof TypeError && state === null) reportError(error);
    trouble = ["401", "403"].includes(error.message) ? "locked" : "lost";
    show();
  }
  waiting = setTimeout(poll, document.hidden ? HIDDEN_MS : EVERY_MS);
}

/** Show what the address names, and bring it into view. */
async function go() {
  const { name, value, wish } = place();
  if (wish) speak(wish);
  if (name === "incident") incident = value;
  if (["answer", "find", "slice", "document"].includes(name)) follow(name, value);
  translate();
  await poll();
  if (["answer", "find", "slice", "document", "answers"].includes(name)) {
    if (state) await showAnswers(state);
    byId("answers").scrollIntoView();
  } else scrollTo(0, 0);
}

function translate() {
  document.documentElement.lang = language();
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of document.querySelectorAll("[data-label]:is(nav, [role])")) node.setAttribute("aria-label", t(node.dataset.label));
  for (const button of byId("languages").children) button.setAttribute("aria-pressed", String(button.value === language()));
  drawFilters();
}

/** The language that was chosen here before; where storage is switched off, the browser's. */
function remembered() {
  try { return localStorage.getItem("ragmonitor.language"); } catch { return null; }
}

byId("languages").addEventListener("click", async (event) => {
  speak(event.target.value);
  try { localStorage.setItem("ragmonitor.language", language()); } catch { /* not remembered */ }
  translate();
  await show();
  if (state) await showAnswers(state);
});
byId("filters").addEventListener("submit", (event) => event.preventDefault());
addEventListener("hashchange", go);
addEventListener("resize", () => state && place().tab === "overview" && showChart());
document.addEventListener("visibilitychange", () => { if (!document.hidden) poll(); });
speak(remembered() ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"));
go();
