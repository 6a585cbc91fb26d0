// Recent answers: filters, and each answer with what is wrong in it beside what was retrieved.

import { belongs, focused } from "./focus.js";
import { element, moment, number } from "./writing.js";
import { called, language, list, t } from "./words.js";

const PAGE = 10;
const TONES = { contradiction: "bad", retrieval_miss: "bad", ignored_context: "bad", unsupported_addition: "warn", off_topic: "warn", wrong_refusal: "warn", ok: "good" };
const byId = (id) => document.getElementById(id);

/** What is asked of an answer, by the name of its filter. */
const FILTERS = {
  basis: { label: "filterBasis", values: (a) => [a.basis], called: (v) => called("basis", v) },
  evaluator: { label: "filterEvaluator", values: (a) => a.evaluations.map((e) => e.evaluator), called: (v) => called("signal", v) },
  outcome: { label: "filterOutcome", values: (a, chosen) => outcomes(a, chosen.evaluator), called: (v) => called("cause", v) },
  diagnosis: { label: "filterDiagnosis", values: (a) => (a.diagnosis ? [a.diagnosis] : []), called: (v) => called("diagnosis", v) },
  attribute: { label: "filterAttribute", values: (a) => Object.entries(a.attributes).map(([name, value]) => `${name}: ${value}`), called: (v) => v },
  framework: { label: "filterFramework", values: (a) => [a.framework], called: (v) => v },
  status: { label: "filterStatus", values: (a) => [a.status], called: (v) => called("status", v) },
  people: { label: "filterPeople", values: (a) => peoples(a).map((f) => f.direction), called: (v) => called("people", v) },
};

/** What people said of an answer, with whether they found it good. */
function peoples(answer) {
  return Object.entries(answer.feedback ?? {}).map(([kind, f]) => ({ kind, ...f, direction: f.score === null || f.score === 0.5 ? "neither" : f.score > 0.5 ? "good" : "bad" }));
}

/** The answer's id, or the text that is searched for, in the address; empty: none. */
function linked() {
  const [, id] = /^#(?:answer|find)=(.+)$/.exec(location.hash) ?? [];
  try { return decodeURIComponent(id ?? ""); } catch { return ""; }
}

/** What a search looks through, in lower case. */
function searched(answer) {
  const parts = (each) => (each.parts ?? []).map(([text]) => text).join("");
  const pieces = answer.answer ?? [];
  return [
    answer.id, answer.trace_id, answer.question, answer.diagnosis, answer.name, answer.session, answer.model, answer.error, answer.answered_without_chunks ? t("unfounded") : "", answer.framework, answer.status,
    ...Object.entries(answer.attributes).map(([name, value]) => `${name}: ${value}`),
    pieces.map((each) => each.text ?? parts(each)).join(""), ...pieces.map((each) => each.verdict), ...(answer.verdicts ?? []).map((each) => each.verdict),
    ...answer.chunks.flatMap((each) => [each.id, each.source, parts(each)]),
  ].join("\n").toLowerCase();
}

function outcomes(answer, evaluator) {
  const found = answer.evaluations.filter((e) => !evaluator || e.evaluator === evaluator).map((e) => e.cause ?? "scored");
  return [...new Set([...found, ...[answer.judge_cause, answer.cause].filter(Boolean)])];
}

export class Answers {
  constructor(store) {
    this.store = store;
    this.chosen = {};
    this.text = this.linked = linked();
    this.focus = focused();
    this.order = "worst";
    this.size = PAGE;
    this.listed = null;
    this.cards = new Map();
    byId("filters").addEventListener("submit", (event) => event.preventDefault());
    addEventListener("hashchange", () => this.follow());
    byId("more").addEventListener("click", () => { this.size += PAGE; this.show(); });
  }

  /** List what the address names; the search goes on where the address did not set it. */
  follow() {
    this.focus = focused();
    if (this.linked || linked()) byId("filters").elements.search.value = this.text = this.linked = linked();
    this.renew();
  }

  /** The card of the answer that the address names, or its list where it is not kept; null: it names none. */
  target() {
    if (!this.linked) return null;
    const named = [...this.store.answers.values()].find((each) => each.id === this.linked);
    return (named && this.cards.get(named.number)?.node) ?? byId("answers");
  }

  forget() {
    this.listed = null;
    this.cards.clear();
  }

  translate() {
    this.cards.clear();
    const selects = Object.entries(FILTERS).map(([name, filter]) => {
      const select = element("select", { name, onchange: (event) => { this.chosen[name] = event.target.value; this.renew(); } });
      return element("label", {}, element("span", {}, t(filter.label)), select);
    });
    const order = element("select", { name: "order", onchange: (event) => { this.order = event.target.value; this.renew(); } },
      element("option", { value: "worst" }, t("orderWorst")), element("option", { value: "latest" }, t("orderLatest")));
    order.value = this.order;
    const search = element("input", { type: "search", name: "search", value: this.text, oninput: (event) => { this.text = event.target.value; this.renew(); } });
    byId("filters").replaceChildren(element("label", {}, element("span", {}, t("search")), search), ...selects, element("label", {}, element("span", {}, t("filterOrder")), order),
      element("button", { type: "button", name: "reset", onclick: () => { this.chosen = {}; search.value = this.text = ""; this.order = "worst"; order.value = "worst"; this.renew(); } }, t("reset")),
      element("button", { type: "button", name: "fresh", onclick: () => this.renew() }));
  }

  /** List anew what fits: after a filter, or when asked to. Until then nothing moves. */
  renew() {
    this.listed = null;
    this.size = PAGE;
    this.show();
  }

  fitting() {
    const { state, answers } = this.store;
    const found = state.kept.map((n) => answers.get(n)).filter((a) => a && this.fits(a));
    const { evaluator } = this.chosen;
    if (this.order === "latest") return found.sort((a, b) => b.at_s - a.at_s);
    if (!evaluator) return found;
    const lower = state.lower_is_better.includes(evaluator);
    const score = (a) => a.evaluations.find((e) => e.evaluator === evaluator)?.score ?? (lower ? -1 : 2);
    const order = { judged: 0, builtin: 1, unscored: 2 };
    return found.sort((a, b) => b.bad - a.bad || order[a.basis] - order[b.basis] || (lower ? score(b) - score(a) : score(a) - score(b)));
  }

  fits(answer, but = "") {
    if (this.focus && !belongs(answer, this.focus)) return false;
    const wanted = this.text.trim().toLowerCase();
    if (wanted && !searched(answer).includes(wanted)) return false;
    return Object.entries(this.chosen).every(([name, wanted]) => name === but || !wanted || FILTERS[name].values(answer, this.chosen).includes(wanted));
  }

  show() {
    const { state, answers } = this.store;
    if (!state) return;
    const all = state.kept.map((n) => answers.get(n)).filter(Boolean);
    this.offer(all);
    const fitting = this.fitting();
    // A list that grows under the reader's eyes is of no use: new ones wait until they are asked for.
    if (this.listed === null || this.listed.filter((n) => answers.has(n)).length < Math.min(PAGE, fitting.length)) {
      this.listed = fitting.map((a) => a.number);
    }
    const listed = new Set(this.listed);
    const fresh = fitting.filter((a) => !listed.has(a.number)).length;
    const button = byId("filters").elements.fresh;
    button.disabled = !fresh;
    button.textContent = fresh ? t("fresh", { n: fresh }) : t("freshNone");
    const told = t("shown", { n: fitting.length, all: all.length });
    if (byId("shown").textContent !== told) byId("shown").textContent = told;
    const shown = this.listed.filter((n) => answers.has(n)).slice(0, this.size);
    const nodes = shown.map((n) => this.card(answers.get(n)));
    const box = byId("list");
    if (nodes.length !== box.children.length || nodes.some((node, n) => node !== box.children[n])) {
      box.replaceChildren(...nodes);
      nodes.forEach(bringNear);
    }
    const left = this.listed.length - shown.length;
    byId("more").hidden = left <= 0;
    byId("more").textContent = t("more", { n: Math.max(0, left) });
    byId("empty").hidden = shown.length > 0;
    byId("empty").textContent = t(all.length ? "emptyFilter" : "emptyNone");
    for (const key of this.cards.keys()) if (!answers.has(key)) this.cards.delete(key);
  }

  /** Offer in each filter what there is, with how many of it the other filters leave. */
  offer(all) {
    for (const [name, filter] of Object.entries(FILTERS)) {
      const select = byId("filters").elements[name];
      const counts = new Map();
      for (const answer of all) {
        if (!this.fits(answer, name)) continue;
        for (const value of new Set(filter.values(answer, this.chosen))) counts.set(value, (counts.get(value) ?? 0) + 1);
      }
      const wanted = this.chosen[name] ?? "";
      if (wanted && !counts.has(wanted)) counts.set(wanted, 0);
      const options = [["", t("any")], ...[...counts].sort(([a], [b]) => a.localeCompare(b)).map(([value, n]) => [value, `${filter.called(value)} (${n})`])];
      const same = options.length === select.options.length && options.every(([value, text], n) => select.options[n].value === value && select.options[n].text === text);
      // Not while it is open: the choice would jump.
      if (!same && (document.activeElement !== select || !select.options.length || select.value !== wanted)) select.replaceChildren(...options.map(([value, text]) => element("option", { value }, text)));
      select.value = wanted;
    }
  }

  card(answer) {
    const known = this.cards.get(answer.number);
    if (known && known.answer === answer && known.language === language()) return known.node;
    const node = this.draw(answer);
    this.cards.set(answer.number, { answer, node, language: language() });
    return node;
  }

  draw(answer) {
    const { state } = this.store;
    const kind = { judged: "judged", builtin: "builtin", unscored: "" }[answer.basis];
    const basis = answer.basis === "judged" ? t("judgedBy", { judge: answer.judge }) : called("basis", answer.basis);
    const scores = answer.evaluations.filter((e) => e.score !== undefined && e.evaluator !== "hallucination").slice(0, 3);
    const told = (e) => {
      const builtin = (answer.builtin ?? []).find((each) => each.evaluator === e.evaluator)?.score;
      const known = { signal: called("signal", e.evaluator), value: number(e.score), builtin: builtin === undefined ? "" : number(builtin) };
      return builtin === undefined ? `${known.signal} ${known.value}` : t("twoScores", known);
    };
    const header = element("header", {},
      element("span", { class: `tag ${kind}` }, basis),
      answer.diagnosis ? element("span", { class: `tag ${TONES[answer.diagnosis] ?? ""}` }, called("diagnosis", answer.diagnosis)) : null,
      answer.cause ? element("span", { class: "tag warn" }, called("cause", answer.cause)) : null,
      answer.judge_cause ? element("span", { class: "tag" }, t("judgeDidNot", { cause: called("cause", answer.judge_cause) })) : null,
      answer.status === "ok" ? null : element("span", { class: "tag warn" }, called("status", answer.status)),
      answer.predicted === null ? null : element("span", { class: "tag", title: t("predictedTitle") }, t("predicted", { p: Math.round(100 * answer.predicted) })),
      answer.times > 1 ? element("span", { class: "tag" }, t("times", { n: answer.times })) : null,
      answer.answered_without_chunks ? element("span", { class: "tag warn" }, t("unfounded")) : null,
      ...scores.map((e) => element("span", { class: "tag" }, told(e))),
      ...peoples(answer).map((f) => element("span", { class: `tag people ${{ good: "good", bad: "bad" }[f.direction] ?? ""}` }, [called("people", f.direction), f.kind === "thumbs" ? "" : f.kind, f.label].filter(Boolean).join(" · "))),
      element("span", { class: "quiet when" }, [moment(answer.at_s), answer.framework, answer.name, ...Object.entries(answer.attributes).map(([name, value]) => `${name}: ${value}`)].filter(Boolean).join(" · ")));
    const node = element("article", { class: `answer panel ${answer.basis}`, "data-number": answer.number }, header);
    if (state.content === "all") node.append(element("h3", {}, answer.question || t("noText")));
    for (const { comment } of peoples(answer)) if (comment) node.append(element("p", { class: "quiet" }, `“${comment}”`));
    if (answer.error) node.append(element("p", { class: "quiet" }, answer.error));
    node.append(element("div", { class: "two" },
      element("div", {}, element("h4", {}, t("answer")), state.content === "all" ? said(answer) : null, findings(answer), allScores(answer)),
      element("div", {}, element("h4", {}, t("chunks")), ...retrieved(answer))));
    node.append(this.foot(answer));
    return node;
  }

  foot(answer) {
    const footer = element("footer", {});
    if (answer.trace_id) {
      const copy = element("button", { type: "button" }, t("copy"));
      copy.addEventListener("click", async () => {
        await write(answer.trace_id, footer);
        copy.textContent = t("copied");
        setTimeout(() => { copy.textContent = t("copy"); }, 1500);
      });
      footer.append(element("span", {}, `${t("trace")} `, element("code", {}, answer.trace_id)), copy);
      const template = this.store.state.trace_url;
      if (template) footer.append(element("a", { href: template.replaceAll("{trace_id}", encodeURIComponent(answer.trace_id)), target: "_blank", rel: "noopener noreferrer" }, t("openTrace")));
    } else footer.append(element("span", {}, t("noTrace")));
    footer.append(element("span", {}, "id ", element("a", { href: `#answer=${encodeURIComponent(answer.id)}` }, element("code", {}, answer.id))), element("span", {}, t("took", { s: answer.latency_s.toFixed(2) })));
    const [read, written] = answer.tokens;
    if (read !== null || written !== null) footer.append(element("span", {}, t("tokens", { read: read ?? "?", written: written ?? "?" })));
    if (answer.model) footer.append(element("span", {}, answer.model));
    if (this.store.state.service_version) footer.append(element("span", {}, t("version", { version: this.store.state.service_version })));
    if (answer.session) footer.append(element("span", {}, `${t("session")} `, element("code", {}, answer.session)));
    return footer;
  }
}

/** Scroll each chunk, and nothing but it, to its marked passage. */
function bringNear(node) {
  for (const near of node.querySelectorAll(".near")) {
    const box = near.parentElement;
    box.scrollTop = near.offsetTop - 24;
  }
}

/** Copy, with or without the browser's leave: over plain HTTP on another host it has no clipboard. */
async function write(text, place) {
  if (navigator.clipboard) {
    try { await navigator.clipboard.writeText(text); return; } catch { /* not allowed here: the older way */ }
  }
  const field = element("textarea", { class: "hidden" });
  field.value = text;
  place.append(field);
  field.select();
  document.execCommand("copy");
  field.remove();
}

/** What the chunks say of a bad sentence, and how bad that is. */
function blamed(piece) { return `${called("verdict", piece.verdict)} · ${called("severity", piece.severity)}`; }

function said(answer) {
  const box = element("p", { class: "said" });
  for (const piece of answer.answer) {
    if (piece.cut) box.append(element("span", { class: "cut" }, t("cut", { n: piece.cut })));
    else if (piece.parts) {
      const why = blamed(piece) + (piece.reasons.length ? ` ${t("because", { reasons: list(piece.reasons.map((r) => called("reason", r))) })}` : "");
      box.append(element("mark", { class: piece.verdict, title: why }, ...piece.parts.map(([text, offends]) => (offends ? element("strong", {}, text) : text)), element("span", { class: "hidden" }, ` [${why}] `)));
    } else box.append(piece.text);
  }
  if (!answer.answer.length) box.append(element("span", { class: "cut" }, t("noText")));
  return box;
}

/** What is wrong, sentence by sentence. */
function findings(answer) {
  const verdicts = answer.verdicts ?? answer.answer.filter((piece) => piece.verdict);
  const items = verdicts.map((each, n) => [each, n]).filter(([each]) => each.verdict === "absent" || each.verdict === "contradicted").map(([each, n]) => {
    const words = each.parts ? each.parts.filter(([, offends]) => offends).map(([text]) => text) : [];
    const reasons = each.reasons.length ? ` ${t("because", { reasons: list(each.reasons.map((r) => called("reason", r))) })}` : "";
    return element("li", { class: each.verdict }, `${t("sentence", { n: n + 1 })}: `, element("b", {}, blamed(each)), `${reasons}${words.length ? `: ${words.slice(0, 8).join(", ")}` : ""}`);
  });
  return items.length ? element("ul", { class: "findings" }, ...items) : null;
}

function chunk(each, answer) {
  const head = [t("chunk", { n: each.position + 1, all: answer.chunks_found }), each.source, each.id === each.source ? "" : each.id, each.relevance === null ? "" : t("relevance", { value: number(each.relevance) }), each.score === null ? "" : t("score", { value: each.score.toFixed(2) })];
  const box = element("div", {}, element("p", { class: "chunk-head" }, head.filter(Boolean).join(" · ")));
  if (!each.parts) return box;
  const near = each.parts.some(([, marked]) => marked);
  const text = element("div", { class: "chunk" }, ...each.parts.map(([part, marked]) => (marked ? element("span", { class: "near" }, part) : part)));
  if (!each.parts.some(([part]) => part)) text.append(t("noText"));
  if (each.parts.reduce((sum, [part]) => sum + part.length, 0) > 500) { text.tabIndex = 0; text.setAttribute("role", "region"); text.setAttribute("aria-label", head[0]); }
  if (near) box.firstChild.append(` · ${t("closest")}`);
  box.append(text);
  return box;
}

function retrieved(answer) {
  const [first, ...others] = answer.chunks;
  if (!first) return [element("p", { class: "quiet" }, t("noChunks"))];
  const found = [chunk(first, answer)];
  if (others.length) found.push(element("details", { ontoggle: (event) => bringNear(event.target) }, element("summary", {}, t("moreChunks", { n: others.length })), ...others.map((each) => chunk(each, answer))));
  return found;
}

function allScores(answer) {
  const columns = answer.builtin ? [[answer.judge, answer.evaluations], [called("basis", "builtin"), answer.builtin ?? []]] : [[answer.basis === "builtin" ? called("basis", "builtin") : answer.judge, answer.evaluations]];
  const names = [...new Set(columns.flatMap(([, evaluations]) => evaluations.map((e) => e.evaluator)))];
  const told = (found) => (found ? (found.score === undefined ? called("cause", found.cause) : number(found.score)) : "–");
  const rows = names.map((name) => element("tr", {}, element("th", { scope: "row" }, called("signal", name)), ...columns.map(([, evaluations]) => element("td", {}, told(evaluations.find((e) => e.evaluator === name))))));
  const head = element("tr", {}, element("th", { scope: "col" }, t("colSignal")), ...columns.map(([title]) => element("th", { scope: "col" }, title)));
  return element("details", { class: "scores" }, element("summary", {}, t("scores")), element("table", {}, element("thead", {}, head), element("tbody", {}, ...rows)));
}
