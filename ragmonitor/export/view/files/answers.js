// The list of recent answers, and each answer with what is wrong in it beside what was retrieved.

import { ask, byId, count, element, moment, number, renew, say, tag } from "./dom.js";
import { called, list, t } from "./words.js";

const PAGE = 10;
const TONES = { contradiction: "bad", retrieval_miss: "bad", ignored_context: "bad", unsupported_addition: "warn", off_topic: "warn", wrong_refusal: "warn", ok: "good" };
const wanted = { search: "", order: "worst", n: PAGE, id: "" };

/** What of the page's address names answers: `#answer=ID`, `#find=words`, `#slice=name=value`, `#document=name`. */
export function follow(kind, value) {
  const search = { find: value, document: value, slice: value.slice(value.indexOf("=") + 1) }[kind] ?? "";
  Object.assign(wanted, { search, n: PAGE, id: kind === "answer" ? value : "" });
  drawFilters();
}

function choose(changes) {
  Object.assign(wanted, changes, { id: "" });
  showAnswers();
}

export function drawFilters() {
  const search = element("input", { type: "search", name: "search", value: wanted.search, oninput: (event) => choose({ search: event.target.value, n: PAGE }) });
  const options = [["worst", t("worstFirst")], ["newest", t("newestFirst")]].map(([value, text]) => element("option", { value, selected: value === wanted.order }, text));
  const order = element("select", { name: "order", onchange: (event) => choose({ order: event.target.value, n: PAGE }) }, ...options);
  byId("filters").replaceChildren(
    element("label", { class: "search" }, t("search"), search),
    element("label", {}, t("order"), order));
}

/** Ask for the answers that fit, and draw them. */
export async function showAnswers(state = null) {
  showAnswers.state = state ?? showAnswers.state;
  const query = new URLSearchParams(Object.entries(wanted).filter(([, value]) => value !== ""));
  const reply = await ask(`answers.json?${query}`);
  say(byId("shown"), t("shown", { n: count(reply.found), all: count(reply.kept) }));
  renew(byId("list"), reply.answers.map((each) => card(each, showAnswers.state)));
  const left = reply.found - reply.answers.length;
  say(byId("more"), left > 0 && wanted.n < 100 ? t("more", { n: left }) : "");
  say(byId("empty"), reply.answers.length ? "" : t(reply.kept ? "emptyFilter" : "emptyNone"));
}

byId("more").addEventListener("click", () => choose({ n: wanted.n + PAGE }));

function card(answer, state) {
  const basis = answer.basis === "judged" ? t("scoredBy", { judge: answer.judge }) : called("basis", answer.basis);
  const scores = answer.evaluations.filter((e) => e.score !== undefined);
  const people = Object.values(answer.feedback);
  const about = [moment(answer.at_s), answer.framework, answer.name, ...Object.entries(answer.attributes).map(([name, value]) => `${name}: ${value}`)];
  return element("article", { class: "answer panel", id: `answer=${answer.id}` },
    element("header", {},
      answer.diagnosis ? tag(called("diagnosis", answer.diagnosis), TONES[answer.diagnosis]) : null,
      tag(basis),
      answer.cause ? tag(called("cause", answer.cause), "warn") : null,
      answer.status === "ok" ? null : tag(called("status", answer.status), "warn"),
      answer.times > 1 ? tag(t("times", { n: answer.times })) : null,
      ...people.map(opinion),
      element("span", { class: "quiet when" }, about.filter(Boolean).join(" · "))),
    state.content === "all" ? element("h3", {}, answer.question || t("noText")) : null,
    ...people.filter((each) => each.comment).map((each) => element("p", { class: "quiet" }, `“${each.comment}”`)),
    answer.error ? element("p", { class: "quiet" }, answer.error) : null,
    element("div", { class: "two" },
      element("div", {}, element("h4", {}, t("answer")), said(answer), findings(answer)),
      element("div", {}, element("h4", {}, t("chunks")), ...retrieved(answer))),
    scores.length ? element("p", { class: "quiet" }, scores.map((e) => `${called("signal", e.evaluator)} ${number(e.score)}`).join(" · ")) : null,
    foot(answer, state));
}

function opinion({ score: value, label }) {
  const kind = value === null || value === 0.5 ? "neither" : value > 0.5 ? "good" : "bad";
  return tag([called("people", kind), label].filter(Boolean).join(" · "), kind === "neither" ? "" : kind);
}

function foot(answer, state) {
  const [input, output] = answer.tokens;
  const trace = element("code", {}, answer.trace_id);
  const url = state.trace_url?.replaceAll("{trace_id}", encodeURIComponent(answer.trace_id));
  const link = url && answer.trace_id ? element("a", { href: url, target: "_blank", rel: "noopener noreferrer" }, trace) : trace;
  return element("footer", {},
    answer.trace_id ? element("span", {}, `${t("trace")} `, link) : element("span", {}, t("noTrace")),
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

export const isMarked = (piece) => piece.verdict === "absent" || piece.verdict === "contradicted";

/** A sentence with its unsupported words. */
export function sentence(piece) {
  return element("mark", { class: piece.verdict, title: why(piece) },
    ...piece.parts.map(([text, offends]) => (offends ? element("strong", {}, text) : text)),
    element("span", { class: "hidden" }, ` [${why(piece)}] `));
}

function said(answer) {
  if (!answer.answer) return null;
  const pieces = answer.answer.map((piece) => {
    if (piece.cut) return element("span", { class: "quiet" }, t("cut", { n: piece.cut }));
    return piece.parts ? sentence(piece) : piece.text;
  });
  return element("p", { class: "said" }, ...(pieces.length ? pieces : [t("noText")]));
}

/** What is wrong, sentence by sentence. */
function findings(answer) {
  const all = answer.verdicts ?? answer.answer.filter((piece) => piece.verdict);
  const marked = all.map((each, n) => [each, n]).filter(([each]) => isMarked(each));
  if (!marked.length) return null;
  return element("ul", { class: "findings" }, ...marked.map(([each, n]) => element("li", { class: each.verdict }, t("sentence", { n: n + 1 }), " ", element("b", {}, why(each)))));
}

function retrieved(answer) {
  if (!answer.chunks.length) return [element("p", { class: "quiet" }, t("noChunks"))];
  const [first, ...others] = answer.chunks.map((each) => chunk(each, answer));
  const more = others.length ? element("details", {}, element("summary", {}, t("moreChunks", { n: others.length })), ...others) : null;
  return [first, more].filter(Boolean);
}

function chunk(each, answer) {
  const head = [t("chunk", { n: each.position + 1, all: answer.chunks_found }), each.source, each.id === each.source ? "" : each.id];
  if (each.relevance !== null) head.push(t("relevance", { value: number(each.relevance) }));
  const parts = (each.parts ?? []).map(([text, isNear]) => (isNear ? element("span", { class: "near" }, text) : text));
  return element("div", {},
    element("p", { class: "quiet" }, head.filter(Boolean).join(" · ")),
    parts.length ? element("div", { class: "chunk" }, ...parts) : null);
}
