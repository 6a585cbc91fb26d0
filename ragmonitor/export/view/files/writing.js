// Elements of the page, and numbers and times as people write them.

import { language, t } from "./words.js";

/** The server's clock, in seconds since the epoch; null: not known yet. */
let now_s = null;

export function tell(seconds) {
  now_s = seconds;
}

export function element(name, options = {}, ...children) {
  const node = document.createElement(name);
  for (const [key, value] of Object.entries(options)) {
    if (value === null || value === undefined || value === false) continue;
    if (key === "class") node.className = value;
    else if (key.startsWith("on")) node.addEventListener(key.slice(2), value);
    else node.setAttribute(key, value === true ? "" : value);
  }
  node.append(...children.filter((child) => child !== null));
  return node;
}

export function say(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

/** Put children in place of those that are there, unless they say the same; the keyboard stays on the same link. */
export function renew(node, children) {
  const next = document.createElement(node.localName);
  next.append(...children);
  if (next.innerHTML === node.innerHTML) return;
  const held = node.contains(document.activeElement) ? document.activeElement.href : undefined;
  node.replaceChildren(...next.childNodes);
  if (held) [...node.querySelectorAll("a")].find((link) => link.href === held)?.focus({ preventScroll: true });
}

export function clock(seconds, exact = true) {
  const options = exact ? { hour: "2-digit", minute: "2-digit", second: "2-digit" } : { hour: "2-digit", minute: "2-digit" };
  return new Intl.DateTimeFormat(language(), { ...options, hourCycle: "h23" }).format(seconds * 1000);
}

/** The zone that times are shown in, as "UTC+1". */
export function zone() {
  const minutes = -new Date().getTimezoneOffset(), size = Math.abs(minutes);
  const rest = size % 60 ? `:${String(size % 60).padStart(2, "0")}` : "";
  return `UTC${size ? `${minutes < 0 ? "-" : "+"}${Math.floor(size / 60)}${rest}` : ""}`;
}

/** With its date, if that is not today's. */
export function moment(seconds) {
  const today = new Date((now_s ?? Date.now() / 1000) * 1000).toDateString();
  const day = new Date(seconds * 1000);
  const date = new Intl.DateTimeFormat(language(), { month: "short", day: "numeric" }).format(day);
  return day.toDateString() === today ? clock(seconds) : `${date} ${clock(seconds, false)}`;
}

export function span(seconds) {
  if (seconds < 90) return t("s", { n: Math.round(seconds) });
  if (seconds < 5400) return t("min", { n: Math.round(seconds / 60) });
  if (seconds < 129600) return t("h", { n: (seconds / 3600).toFixed(seconds < 36000 ? 1 : 0) });
  return t("d", { n: Math.round(seconds / 86400) });
}

export const isShare = (signal) => ["hallucination", "minor_hallucination", "refusal", "empty_retrieval", "weak_retrieval", "wrong_refusal", "anchors", "golden_availability", "golden_references"].includes(signal.split("{")[0]);

/** Whether a signal's scale of 0 to 1 holds differences of -1 to 1: to a question's own history. */
export const isDifference = (signal) => ["golden_answer_correctness", "golden_context_recall", "golden_refusal_correctness"].includes(signal);

/** A difference of two means, with its sign. */
function signed(value) {
  const said = value.toFixed(2);
  return Number(said) > 0 ? `+${said}` : Number(said) === 0 ? said.replace("-", "") : said;
}

/** A mean; with so many decimals that what is below 1 is not written as 1. */
export function number(value, signal = "") {
  if (isDifference(signal)) return signed(2 * value - 1);
  const gap = 1 - value;
  const least = isShare(signal) && value > 0 && value < 0.1 ? 3 : 2;
  const decimals = gap > 0 && gap < 0.01 ? Math.min(6, -Math.floor(Math.log10(gap))) : least;
  return isShare(signal) ? `${(100 * value).toFixed(decimals - 2)}%` : value.toFixed(decimals);
}

/** A limit, never rounded to more than it is: down if it is a least one, else up. */
export function boundary(value, signal, isLeast) {
  const distance = Math.min(value, 1 - value);
  const decimals = distance > 0 ? Math.min(6, Math.max(2, 1 - Math.floor(Math.log10(distance)))) : 2;
  const unit = 10 ** decimals;
  const rounded = (isLeast ? Math.floor(value * unit + 1e-6) : Math.ceil(value * unit - 1e-6)) / unit;
  if (!isShare(signal)) return shortest(rounded, decimals, 2);
  return `${shortest(100 * rounded, decimals - 2, rounded < 0.1 ? 1 : 0)}%`;
}

/** With as many decimals as it has, within bounds. */
function shortest(value, most, least) {
  let decimals = least;
  while (decimals < most && Number(value.toFixed(decimals)) !== Number(value.toFixed(most))) decimals += 1;
  return value.toFixed(decimals);
}

export function days(value) {
  if (value >= 100) return Math.round(value).toLocaleString(language());
  if (value >= 1) return value.toFixed(1);
  return value >= 0.01 ? value.toFixed(2) : value > 0 ? "< 0.01" : "0";
}

/** A share of the threshold in percent, which may be far above 100 or far below 1. */
export function percent(share) {
  const value = 100 * share;
  if (value >= 1e6) return `1e${Math.round(Math.log10(value))}%`;
  // What is below 100% is not written as if it had reached it.
  if (value >= 10) return `${(value < 100 ? Math.floor(value) : Math.round(value)).toLocaleString(language())}%`;
  return value >= 0.01 ? `${Number(value.toPrecision(1))}%` : value > 0 ? "< 0.01%" : "0%";
}
