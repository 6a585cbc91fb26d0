// What is known of documents: four lists, and what each retrieval brought. Asked for apart from the state.

import { ask } from "./asking.js";
import { viewOf } from "./focus.js";
import { t } from "./words.js";
import { element, moment, number, renew, say } from "./writing.js";

const EVERY_S = 10, LISTED = 8;
const byId = (id) => document.getElementById(id);
const share = (found) => (found ? `${number(found.mean, "hallucination")} (${t("interval", { lower: number(found.lower, "hallucination"), upper: number(found.upper, "hallucination") })})` : "–");
const plain = (n) => String(n);

/** A table of the list's columns, each [title, from an entry to its cell, kind of cell]. */
export function table(columns, entries) {
  const head = element("tr", {}, ...columns.map(([title]) => element("th", { scope: "col" }, t(title))));
  const rows = entries.slice(0, LISTED).map((each) => element("tr", {}, ...columns.map(([title, cell], n) => element(n ? "td" : "th", n ? { "data-label": t(title) } : { scope: "row" }, cell(each)))));
  return element("div", { class: "panel" }, element("table", { class: "stacks" }, element("thead", {}, head), element("tbody", {}, ...rows)));
}

function named(each) {
  const box = element("span", {}, viewOf("document", each.document));
  if (each.is_discovery) box.append(" ", element("span", { class: "tag bad" }, t("docDiscovery")));
  if (each.id && each.id !== each.document) box.append(element("small", {}, each.id));
  return box;
}

function asked(each) {
  const box = element("span", {});
  for (const example of each.examples) box.append(element("small", {}, example.question ?? example.id));
  return box;
}

const LISTS = {
  misleading: [["docName", named], ["docWith", (d) => share(d.with)], ["docWithout", (d) => share(d.without)], ["docJudged", (d) => plain(d.judged)], ["docRests", (d) => plain(d.rests_on)], ["docContradicted", (d) => plain(d.contradicted)], ["docRetrieved", (d) => plain(d.retrieved)]],
  noise: [["docName", named], ["docRetrieved", (d) => plain(d.retrieved)], ["docShown", (d) => plain(d.shown)], ["docRated", (d) => plain(d.rated)]],
  missing: [["docAsked", asked], ["docQuestions", (d) => plain(Math.round(d.questions))], ["docLast", (d) => moment(d.last_s)]],
  conflicting: [["docSupports", (d) => d.supports], ["docContradicts", (d) => d.contradicts], ["docSentence", (d) => d.sentence], ["docTimes", (d) => plain(d.times)]],
  retrievals: [["docRetriever", (d) => `${d.turn}. ${d.retriever || "–"}`], ["docRelevant", (d) => share(d.relevant)], ["docRetrievals", (d) => plain(d.retrievals)], ["docEmpty", (d) => plain(d.empty)], ["docUnshown", (d) => plain(d.unshown)], ["docLost", (d) => plain(d.lost)]],
};
const TITLES = { misleading: "docMisleading", noise: "docNoise", missing: "docMissing", conflicting: "docConflicting", retrievals: "docHops" };

export class Documents {
  constructor(store) {
    this.store = store;
    this.lists = null;
    this.asked_s = 0;
  }

  /** Ask for the lists, now and then; what fails is asked for again. */
  async poll() {
    const { state } = this.store;
    if (!state?.views?.includes("documents") || state.now_s - this.asked_s < EVERY_S) return;
    this.asked_s = state.now_s;
    const reply = await ask("documents.json");
    if (reply.ok) this.lists = await reply.json();
  }

  show() {
    const { lists } = this;
    byId("documents").hidden = !lists;
    byId("documents-link").hidden = !lists;
    if (!lists) return;
    say(byId("documents-told"), t("docTold", { judged: lists.judged, kept: lists.kept }));
    renew(byId("documents-lists"), Object.entries(LISTS).flatMap(([name, columns]) => {
      const entries = lists[name];
      const none = element("p", { class: "quiet" }, t("docNone"));
      return [element("h3", {}, t(TITLES[name])), element("p", { class: "quiet" }, t(`${TITLES[name]}Help`)), entries.length ? table(columns, entries) : none];
    }));
  }
}
