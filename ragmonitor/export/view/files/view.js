// Asks for the state every few seconds, and shows it: the verdict first, the rest in tabs.

import { follow, sentence, showAnswers } from "./answers.js";
import { draw } from "./chart.js";
import { ask, bound, byId, clock, count, dollars, element, isDifference, isRate, moment, number, percent, range, renew, say, span, table, tag, zone } from "./dom.js";
import { incident } from "./incident.js";
import { called, language, list, speak, t } from "./words.js";

const EVERY_MS = 3000, HIDDEN_MS = 15000;
const FIRST = ["hallucination", "faithfulness", "answer_relevancy", "refusal"];
const RISING_FROM = 1 / 600;
const DAY_S = 86400;
let state = null, trouble = "", chosen = "hallucination", waiting = null;

const estimate = (signal, judge, window) => state.numbers.find((n) => n.signal === signal && n.judge === judge && n.window === window);
const judgeOf = (signal) => [state.judge, state.builtin, "none"].find((judge) => estimate(signal, judge, "1h")) ?? state.judge ?? state.builtin;
const alarmOf = (signal, judge) => state.alarms.find((a) => a.signal === signal && a.judge === judge);
const openIncident = () => state.incidents.find((each) => each.closed_s === null);
const paragraph = (...children) => element("p", {}, children);
const link = (kind, name, text = name) => element("a", { href: `#${kind}=${encodeURIComponent(name)}` }, text);

// --- the first screen ----------------------------------------------------------------------------

/** The scored answers since a rise began: "22 of 40 scored answers are bad since 23:08; 3% before". */
function spanned({ signal, span: since }) {
  const known = { since: moment(since.since_s), scored: count(since.scored), bad: count(since.bad ?? 0), mean: number(since.mean, signal) };
  const text = t(since.bad === null ? "spanMean" : "spanRate", known);
  return since.before === null ? text : text + t("spanBefore", { value: number(since.before, signal) });
}

function causes() {
  const { cause } = state;
  const { kind, name } = openIncident()?.cause ?? {};
  const texts = [
    ["document", "slice", "version", "event"].includes(kind) && t("namedCause", { kind: called("named", kind), name }),
    cause?.cause === "judge" && t("causeJudge", cause),
    cause?.cause === "application" && t("causeApplication", { ...cause, kept: cause.reread - cause.flipped }),
  ].filter(Boolean);
  return texts.length ? texts.join(" ") : t("causeOpen");
}

/** One of the worst answers: its marked sentence, and the way to the whole answer. */
function worstAnswer({ id, question, answer, diagnosis }) {
  const marked = answer?.filter((piece) => piece.parts) ?? [];
  const worst = marked.find((piece) => piece.verdict === "contradicted") ?? marked[0];
  return element("li", {},
    link("answer", id, question || id),
    worst ? paragraph(sentence(worst)) : element("p", { class: "quiet" }, diagnosis ? called("diagnosis", diagnosis) : ""));
}

function alarmNodes([first, ...others]) {
  const found = openIncident();
  return [
    element("h2", {}, t("alarm", { signal: called("signal", first.signal) })),
    paragraph(first.span ? t("spanLimit", { span: spanned(first), bound: bound(first) }) : t("raisedAt", { time: moment(first.since_s), bound: bound(first) })),
    paragraph(causes()),
    others.length ? paragraph(t("alsoAlarm", { signals: list(others.map((a) => called("signal", a.signal))) })) : null,
    state.worst.length ? [element("h3", {}, t("worst")), element("ol", { class: "worst" }, state.worst.map(worstAnswer))] : null,
    found ? paragraph(element("a", { class: "button", href: `#incident=${encodeURIComponent(found.id)}` }, t("toIncident"))) : null,
  ];
}

function showVerdict() {
  const { alarms, mute } = state;
  const weight = (a) => (a.signal === "hallucination" ? 0 : a.kind === "quality" ? 1 : 2);
  const active = alarms.filter((a) => a.active).sort((a, b) => weight(a) - weight(b) || a.since_s - b.since_s);
  const rising = alarms.filter((a) => a.objective !== null && a.evidence > RISING_FROM);
  const learning = alarms.filter((a) => a.objective === null);
  let kind = "good", text = t("fine", { all: alarms.length });
  if (active.length) kind = "bad";
  else if (rising.length) [kind, text] = ["warn", t("rising", { signals: list(rising.map((a) => called("signal", a.signal))) })];
  else if (!alarms.length) [kind, text] = ["", t(state.received ? "nothingWatched" : "waiting")];
  else if (learning.length) [kind, text] = ["", t("learning", { n: learning.length, all: alarms.length })];
  byId("verdict").className = `verdict ${kind}`;
  renew(byId("verdict"), active.length ? alarmNodes(active) : [element("h2", {}, text)]);
  renew(byId("mute"), mute ? [
    element("h2", {}, t("mute", { judge: state.judge, time: moment(mute.since_s), cause: called("cause", mute.cause) })),
    paragraph(mute.detail),
  ] : []);
  document.title = `${active.length ? "● " : ""}${state.service} · ragmonitor`;
}

function card(signal) {
  const judge = judgeOf(signal), found = estimate(signal, judge, "1h"), alarm = alarmOf(signal, judge);
  const choose = () => { chosen = signal; poll(); };
  const quiet = (text) => element("span", { class: "quiet" }, text);
  const framed = (value, ...notes) => element(
    "button", { type: "button", class: "card panel", "data-signal": signal, "aria-pressed": chosen === signal, onclick: choose },
    element("b", {}, called("signal", signal)), value, notes);
  if (!found) return framed(element("span", { class: "value" }, "–"), quiet(t("few")));
  const objective = alarm?.objective ?? null;
  const isOver = objective !== null && (alarm.higher_is_better ? found.upper < objective : found.lower > objective);
  const whose = judge === "none" ? t("answerCount", { n: count(found.effective_n) }) : t("scoredCount", { n: count(found.scored), judge: called("judge", judge) });
  // Where the number and the alarm disagree it is said why.
  let why = "";
  if (isOver && !alarm.active) why = t("overNoAlarm");
  if (!isOver && alarm?.active && alarm.span) why = t("holdsEarlier");
  return framed(
    element("span", { class: `value${isOver ? " over" : ""}` }, number(found.mean, signal)),
    quiet([range(found), t("lastHour"), whose].join(" · ")),
    quiet(objective === null ? "" : t("limit", { bound: bound(alarm) })),
    element("span", { class: "why quiet" }, why));
}

function signals() {
  const known = [...new Set(state.numbers.map((n) => n.signal))];
  const order = (name) => (FIRST.includes(name) ? FIRST.indexOf(name) : isRate(name) ? 60 : 30);
  return known.sort((a, b) => order(a) - order(b) || a.localeCompare(b));
}

/** What came in, who scored it and what that cost, in one line. */
function facts() {
  const { per_second: perSecond, rate, asked, missing } = state.sampling;
  const received = t("received", { n: count(state.received) });
  const speed = perSecond === null ? "" : t("speed", { rate: Number(perSecond.toPrecision(2)) });
  if (!state.judge) return [received, speed, t("onlyBuiltin")];
  const isShort = rate !== null && rate < 0.995 * (asked ?? 1);
  const sample = rate === null ? "" : t("samples", { rate: percent(rate) });
  return [
    received,
    isShort ? "" : speed,
    t("scoredCount", { n: count(state.judged), judge: state.judge }),
    isShort ? t("bears", { rate: percent(rate), speed, asked: percent(asked ?? 1) }) : sample,
    missing ? t("missing", { share: percent(missing) }) : "",
    t("spent", { usd: dollars(state.spent_usd) }),
    ...state.budget.map(({ unit, per, limit }) => t("budget", { limit: unit === "usd" ? dollars(limit) : `${count(limit)} ${called("unit", unit)}`, per: called("per", per) })),
  ];
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
  say(byId("withheld"), state.content === "all" ? "" : t("withheld", { content: state.content }));
  renew(byId("cards"), signals().slice(0, 4).map(card));
  say(byId("facts"), facts().filter(Boolean).join(" · "));
  showChart();
}

// --- the other tabs ------------------------------------------------------------------------------

const heading = (word) => element("h2", {}, t(word));

function stateOf(alarm) {
  if (alarm.active) return tag(t("stateActive", { time: moment(alarm.since_s) }), "bad");
  if (alarm.objective === null) return t("stateLearning", { share: percent(alarm.learned) });
  if (alarm.rising_since_s && alarm.evidence > RISING_FROM) return tag(t("stateRising", { time: moment(alarm.rising_since_s) }), "warn");
  return t("stateFine");
}

function incidentLine(each) {
  const about = each.closed_s === null ? tag(t("open"), "bad") : tag(t("closed"), "good");
  return element("li", {}, element("time", {}, moment(each.opened_s)), " ", about, " ", link("incident", each.id, each[language()]));
}

function alarms() {
  const days = state.threshold_days;
  const limited = (text) => (a) => (a.objective === null ? "–" : text(a));
  return [
    heading("alarms"),
    days ? element("p", { class: "quiet" }, t("threshold", { days: Number(days.toFixed(1)) })) : null,
    table("alarm-table", [
      [t("signal"), (a) => called("signal", a.signal)],
      [t("judgeName"), (a) => called("judge", a.judge)],
      [t("state"), stateOf],
      [t("limitTitle"), limited(bound)],
      [t("evidence"), limited((a) => t("ofThreshold", { value: percent(a.evidence) }))],
    ], state.alarms.toSorted((a, b) => b.active - a.active || b.evidence - a.evidence)),
    heading("incidents"),
    element("ol", { class: "events" }, state.incidents.length ? state.incidents.map(incidentLine) : element("li", { class: "quiet" }, t("none"))),
  ];
}

const withRange = (found) => (found ? `${number(found.mean, found.signal)} (${range(found)})` : "–");

function evaluations() {
  const column = (title, judge) => [title, (signal) => withRange(estimate(signal, judge, "24h"))];
  const judges = [...new Set([state.judge, state.builtin])].filter(Boolean);
  const columns = judges.map((judge) => column(t("byJudge", { judge: called("judge", judge) }), judge));
  if (state.numbers.some((n) => n.judge === "none")) columns.push(column(t("byNobody"), "none"));
  return [heading("evaluations"), table("evaluation-table", [[t("evaluation"), (signal) => called("signal", signal)], ...columns], signals())];
}

const view = async (name) => (state.views.includes(name) ? ask(`${name}.json`) : null);

async function where() {
  const [slices, documents] = [await view("slices"), await view("documents")];
  return [
    slices && table("slice-table", [
      [t("slice"), (s) => link("slice", s.name)],
      [t("rate"), (s) => withRange(s.rate && { ...s.rate, signal: "hallucination" })],
      [t("share"), (s) => percent(s.share)],
    ], slices.listed),
    documents && table("document-table", [
      [t("document"), (d) => link("document", d.document)],
      [t("contradicted"), (d) => count(d.contradicted)],
      [t("restsOn"), (d) => count(d.rests_on)],
      [t("retrieved"), (d) => count(d.retrieved)],
    ], documents.listed.slice(0, 20)),
  ];
}

async function goldens() {
  const score = (value) => (value === null ? "–" : number(value));
  return [heading("goldens"), table("golden-table", [
    [t("question"), (g) => g.question || g.id],
    [t("outcome"), (g) => t(`golden_${g.outcome || "unasked"}`)],
    [t("newest"), (g) => score(g.answer_correctness)],
    [t("expected"), (g) => score(g.expected)],
  ], (await view("goldens"))?.worst ?? [])];
}

/** What is drawn into each tab; the overview has its places in the page. */
const TABS = { alarms, evaluations, where, goldens, incident };

// --- the address, and news -----------------------------------------------------------------------

/** The tab that the address names, and what of it: `#answer=ID` is on the overview. */
function place() {
  const words = new URLSearchParams(location.hash.slice(1).replaceAll("+", "%2B"));
  const [[name, value] = ["", ""]] = words;
  return { name, value, wish: words.get("lang"), tab: Object.hasOwn(TABS, name) ? name : "overview" };
}

async function show() {
  const { tab, value } = place();
  for (const each of document.querySelectorAll(".tab")) each.hidden = each.id !== tab;
  for (const each of byId("tabs").children) each.setAttribute("aria-current", each.hash === `#${tab}` ? "page" : "false");
  byId("live").className = `live quiet ${trouble ? "bad" : "good"}`;
  const time = state ? clock(state.now_s, { second: "2-digit" }) : "–";
  say(byId("live"), t(trouble || (state ? "live" : "waiting"), { time }));
  if (!state) return;
  say(byId("service"), state.service);
  const about = { version: state.version, service: state.service_version, time: span(state.now_s - state.started_s) };
  say(byId("about"), t(state.service_version ? "aboutVersion" : "about", about));
  say(byId("foot"), t("foot", { zone: zone() }));
  const views = { where: ["slices", "documents"], goldens: ["goldens"] };
  for (const [name, needed] of Object.entries(views)) byId("tabs").querySelector(`[href="#${name}"]`).hidden = !needed.some((each) => state.views.includes(each));
  if (tab === "overview") showOverview();
  else renew(byId(tab), await TABS[tab](value));
}

/** Ask, and show; the answers too where they are what is wanted. */
async function poll(wantsAnswers = false) {
  clearTimeout(waiting);
  try {
    state = await ask(`state.json?${new URLSearchParams({ signal: chosen })}`);
    trouble = "";
    await show();
    // A list that changes under the reader's eyes is of no use: it is renewed at its top only.
    const isAtTop = byId("answers").getBoundingClientRect().top > 0;
    if (place().tab === "overview" && (wantsAnswers || isAtTop)) await showAnswers();
  } catch (error) {
    trouble = ["401", "403"].includes(error.message) ? "locked" : "lost";
    show();
  }
  waiting = setTimeout(poll, document.hidden ? HIDDEN_MS : EVERY_MS);
}

/** Show what the address names, and bring it into view. */
async function go() {
  const { name, value, wish } = place();
  if (wish) speak(wish);
  const isOfAnswers = follow(name, value);
  translate();
  await poll(isOfAnswers);
  if (isOfAnswers) byId("answers").scrollIntoView();
  else scrollTo(0, 0);
}

function translate() {
  document.documentElement.lang = language();
  for (const node of document.querySelectorAll("[data-t]")) node.textContent = t(node.dataset.t);
  for (const node of document.querySelectorAll("[data-label]:is(nav, [role])")) node.setAttribute("aria-label", t(node.dataset.label));
  for (const button of byId("languages").children) button.setAttribute("aria-pressed", String(button.value === language()));
}

/** The language that was chosen here before; where storage is switched off, the browser's. */
function remembered() {
  try { return localStorage.getItem("ragmonitor.language"); } catch { return null; }
}

byId("languages").addEventListener("click", (event) => {
  speak(event.target.value);
  try { localStorage.setItem("ragmonitor.language", language()); } catch { /* not remembered */ }
  translate();
  poll(true);
});
addEventListener("hashchange", go);
addEventListener("resize", () => state && place().tab === "overview" && showChart());
document.addEventListener("visibilitychange", () => document.hidden || poll());
speak(remembered() ?? (navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en"));
go();
