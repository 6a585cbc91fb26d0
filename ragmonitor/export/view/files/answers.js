// The list of recent answers, and each answer with what is wrong in it beside what was retrieved.

import { ask, byId, count, element, moment, number, renew, say, tag } from "./dom.js";
import { called, list, t } from "./words.js";

const PAGE = 10;
const TONES = { contradiction: "bad", retrieval_miss: "bad", ignored_context: "bad", unsupported_addition: "warn", off_topic: "warn", wrong_refusal: "warn", ok: "good" };
const filters = byId("filters");
let most = PAGE, id = "";

/** Whether the page's address names answers: `#answer=ID`, `#find=words`, `#slice=name=value`, `#document=name`; they are sought. */
export function follow(kind, value) {
  const sought = { answer: "", find: value, document: value, slice: value.slice(value.indexOf("=") + 1) };
  if (!Object.hasOwn(sought, kind)) return kind === "answers";
  filters.elements.search.value = sought[kind];
  [most, id] = [PAGE, kind === "answer" ? value : ""];
  return true;
}

/** Ask for the answers that fit, and draw them. */
export async function showAnswers() {
  const reply = await ask(`answers.json?${new URLSearchParams([...new FormData(filters), ["n", most], ["id", id]])}`);
  say(byId("shown"), t("shown", { n: count(reply.found), all: count(reply.kept) }));
  renew(byId("list"), reply.answers.map((each) => card(each, reply.trace_url)));
  const left = reply.found - reply.answers.length;
  say(byId("more"), left > 0 && most < 100 ? t("more", { n: left }) : "");
  say(byId("empty"), reply.answers.length ? "" : t(reply.kept ? "emptyFilter" : "emptyNone"));
}

function choose(n) {
  [most, id] = [n, ""];
  showAnswers();
}

filters.addEventListener("input", () => choose(PAGE));
filters.addEventListener("submit", (event) => event.preventDefault());
byId("more").addEventListener("click", () => choose(most + PAGE));

function card(answer, traces) {
  const basis = answer.basis === "judged" ? t("scoredBy", { judge: answer.judge }) : called("basis", answer.basis);
  const scores = answer.evaluations.filter((e) => e.score !== undefined);
  const people = Object.values(answer.feedback);
  const about = [moment(answer.at_s), answer.framework, answer.name, ...Object.entries(answer.attributes).map(([name, value]) => `${name}: ${value}`)];
  const quiet = (text) => (text ? element("p", { class: "quiet" }, text) : null);
  return element("article", { class: "answer panel", id: `answer=${answer.id}` },
    element("header", {},
      answer.diagnosis ? tag(called("diagnosis", answer.diagnosis), TONES[answer.diagnosis]) : null,
      tag(basis),
      answer.cause ? tag(called("cause", answer.cause), "warn") : null,
      answer.status === "ok" ? null : tag(called("status", answer.status), "warn"),
      answer.times > 1 ? tag(t("times", { n: answer.times })) : null,
      people.map(opinion),
      element("span", { class: "quiet when" }, about.filter(Boolean).join(" · "))),
    answer.answer ? element("h3", {}, answer.question || t("noText")) : null,
    people.map(({ comment }) => quiet(comment && `“${comment}”`)),
    quiet(answer.error),
    element("div", { class: "two" },
      element("div", {}, element("h4", {}, t("answer")), said(answer), findings(answer)),
      element("div", {}, element("h4", {}, t("chunks")), retrieved(answer))),
    quiet(scores.map((e) => `${called("signal", e.evaluator)} ${number(e.score)}`).join(" · ")),
    foot(answer, traces));
}

function opinion({ score: value, label }) {
  const kind = value === null || value === 0.5 ? "neither" : value > 0.5 ? "good" : "bad";
  return tag([called("people", kind), label].filter(Boolean).join(" · "), kind === "neither" ? "" : kind);
}

function foot(answer, traces) {
  const [input, output] = answer.tokens;
  const trace = element("code", {}, answer.trace_id);
  const url = traces?.replaceAll("{trace_id}", encodeURIComponent(answer.trace_id));
  const link = url ? element("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, trace) : trace;
  return element("footer", {},
    element("span", {}, answer.trace_id ? [`${t("trace")} `, link] : t("noTrace")),
    element("a", { href: `#answer=${encodeURIComponent(answer.id)}` }, element("code", {}, answer.id)),
    element("span", {}, t("s", { n: answer.latency_s.toFixed(2) })),
    input === null && output === null ? null : element("span", {}, t("tokens", { input: input ?? "?", output: output ?? "?" })),
    element("span", {}, [answer.model, answer.session && `${t("session")} ${answer.session}`].filter(Boolean).join(" · ")));
}

/** Why a sentence is marked: "not found in the chunks (number, name)". */
function why(piece) {
  const reasons = piece.reasons.length ? ` ${t("because", { reasons: list(piece.reasons.map((each) => called("reason", each))) })}` : "";
  return `${called("verdict", piece.verdict)}${reasons}`;
}

/** A sentence with its unsupported words. */
export function sentence(piece) {
  return element("mark", { class: piece.verdict, title: why(piece) },
    piece.parts.map(([text, offends]) => (offends ? element("strong", {}, text) : text)),
    element("span", { class: "hidden" }, ` [${why(piece)}] `));
}

function said(answer) {
  const pieces = answer.answer?.map((piece) => {
    if (piece.cut) return element("span", { class: "quiet" }, t("cut", { n: piece.cut }));
    return piece.parts ? sentence(piece) : piece.text;
  });
  return pieces ? element("p", { class: "said" }, pieces.length ? pieces : t("noText")) : null;
}

/** What is wrong, sentence by sentence. */
function findings(answer) {
  const all = answer.verdicts ?? answer.answer.filter((piece) => piece.verdict);
  const item = (each, at) => element("li", { class: each.verdict }, t("sentence", { n: at + 1 }), " ", element("b", {}, why(each)));
  const items = all.map((each, at) => (["absent", "contradicted"].includes(each.verdict) ? item(each, at) : null)).filter(Boolean);
  return items.length ? element("ul", { class: "findings" }, items) : null;
}

function retrieved(answer) {
  const [first, ...others] = answer.chunks.map((each) => chunk(each, answer));
  if (!first) return element("p", { class: "quiet" }, t("noChunks"));
  return [first, others.length ? element("details", {}, element("summary", {}, t("moreChunks", { n: others.length })), others) : null];
}

function chunk(each, answer) {
  const head = [t("chunk", { n: each.position + 1, all: answer.chunks_found }), each.source, each.id === each.source ? "" : each.id];
  if (each.relevance !== null) head.push(t("relevance", { value: number(each.relevance) }));
  const parts = each.parts?.map(([text, isNear]) => (isNear ? element("span", { class: "near" }, text) : text));
  return element("div", {},
    element("p", { class: "quiet" }, head.filter(Boolean).join(" · ")),
    parts?.length ? element("div", { class: "chunk" }, parts) : null);
}
