// Elements of the page, and numbers and times as people write them. Texts are only ever set as text.

import { language, t } from "./words.js";

export const byId = (id) => document.getElementById(id);

const REPLY_WITHIN_MS = 10000;

/** The JSON or the text at an address below the page. */
export async function ask(path, kind = "json") {
  const reply = await fetch(path, { signal: AbortSignal.timeout(REPLY_WITHIN_MS) });
  if (!reply.ok) throw new Error(reply.status);
  return reply[kind]();
}

const maker = (space) => (name, options = {}, ...children) => {
  const node = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(options)) {
    if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else if (value !== null && value !== undefined) node.setAttribute(key, value);
  }
  node.append(...children.flat(Infinity).filter(Boolean));
  return node;
};
export const element = maker("http://www.w3.org/1999/xhtml");
export const shape = maker("http://www.w3.org/2000/svg");

export function say(node, text) {
  node.hidden = !text;
  if (node.textContent !== text) node.textContent = text;
}

/** Put children in place of others, unless they say the same. */
export function renew(node, children) {
  const next = element(node.localName, {}, children);
  if (next.innerHTML !== node.innerHTML) node.replaceChildren(...next.childNodes);
}

/** A table of columns, each [title, from an entry to its cell]. */
export function table(id, columns, entries) {
  const row = (entry) => columns.map(([title, cell], n) => (
    n ? element("td", { "data-label": title }, cell(entry)) : element("th", { scope: "row" }, cell(entry))
  ));
  return element("div", { class: "panel", id }, element("table", { class: "stacks" },
    element("thead", {}, element("tr", {}, columns.map(([title]) => element("th", { scope: "col" }, title)))),
    element("tbody", {}, entries.map((entry) => element("tr", {}, row(entry))))));
}

export const tag = (text, kind = "") => element("span", { class: `tag ${kind}` }, text);

// --- times ---------------------------------------------------------------------------------------

const written = (seconds, options) => new Intl.DateTimeFormat(language(), options).format(seconds * 1000);

export const clock = (seconds, more = {}) => written(seconds, { hour: "2-digit", minute: "2-digit", hourCycle: "h23", ...more });

/** The zone that times are shown in, as "UTC+1". */
export function zone() {
  const hours = -new Date().getTimezoneOffset() / 60;
  return hours ? `UTC${hours > 0 ? "+" : ""}${hours}` : "UTC";
}

/** A time, with its date if that is not today's. */
export function moment(seconds) {
  const isToday = new Date(seconds * 1000).toDateString() === new Date().toDateString();
  return isToday ? clock(seconds) : `${written(seconds, { month: "short", day: "numeric" })} ${clock(seconds)}`;
}

export function span(seconds) {
  if (seconds < 90) return t("s", { n: Math.round(seconds) });
  if (seconds < 5400) return t("min", { n: Math.round(seconds / 60) });
  if (seconds < 129600) return t("h", { n: Math.round(seconds / 3600) });
  return t("d", { n: Math.round(seconds / 86400) });
}

// --- numbers -------------------------------------------------------------------------------------

const RATES = ["hallucination", "minor_hallucination", "refusal", "empty_retrieval", "weak_retrieval", "wrong_refusal", "anchors", "golden_availability"];
const DIFFERENCES = ["golden_answer_correctness", "golden_context_recall", "golden_refusal_correctness"];

/** Whether a signal is a share of the answers, which is written in percent. */
export const isRate = (signal) => RATES.includes(signal.split("{")[0]);

/** Whether a signal's scale of 0 to 1 holds differences of -1 to 1: to a question's own history. */
export const isDifference = (signal) => DIFFERENCES.includes(signal);

export const count = (n) => Math.round(n).toLocaleString(language());

/** A share in percent, with few digits; a tiny one is not written out. */
export const percent = (share) => (share > 0 && share < 1e-4 ? "< 0.01%" : `${Number((100 * share).toPrecision(share < 0.1 ? 2 : 3))}%`);

/** A mean; what is below 1 is not written as 1. */
export function number(value, signal = "") {
  if (isDifference(signal)) return `${value > 0.5 ? "+" : ""}${(2 * value - 1).toFixed(2)}`;
  const [shown, whole, end] = isRate(signal) ? [100 * value, 100, "%"] : [value, 1, ""];
  const decimals = isRate(signal) ? Number(shown > 0 && shown < 10) : 2;
  const text = shown.toFixed(decimals);
  const isRoundedUp = Number(text) === whole && shown < whole;
  return (isRoundedUp ? String(whole - 10 ** -(decimals + 1)) : text) + end;
}

/** The limit of an alarm, never rounded to more than it permits. */
export function bound({ objective, higher_is_better: isLeast, signal }) {
  if (isDifference(signal)) return t("atMostBelow", { value: (1 - 2 * objective).toFixed(2) });
  const unit = isRate(signal) ? 1e3 : 1e2;
  const rounded = (isLeast ? Math.floor(objective * unit + 1e-6) : Math.ceil(objective * unit - 1e-6)) / unit;
  return t(isLeast ? "atLeast" : "atMost", { value: isRate(signal) ? percent(rounded) : rounded.toFixed(2) });
}

export const range = ({ lower, upper, signal }) => t("interval", { lower: number(lower, signal), upper: number(upper, signal) });

export const dollars = (value) => `$${value > 0 && value < 0.1 ? Number(value.toPrecision(2)) : value.toFixed(2)}`;
