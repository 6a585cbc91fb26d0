// The documents that contradict most answers. Asked for apart from the state.

import { ask } from "./asking.js";
import { viewOf } from "./focus.js";
import { t } from "./words.js";
import { element, moment, renew, say } from "./writing.js";

const EVERY_S = 10, LISTED = 8;
const byId = (id) => document.getElementById(id);

/** A table of the list's columns, each [title, from an entry to its cell, kind of cell]. */
export function table(columns, entries) {
  const head = element("tr", {}, ...columns.map(([title]) => element("th", { scope: "col" }, t(title))));
  const rows = entries.slice(0, LISTED).map((each) => element("tr", {}, ...columns.map(([title, cell], n) => element(n ? "td" : "th", n ? { "data-label": t(title) } : { scope: "row" }, cell(each)))));
  return element("div", { class: "panel" }, element("table", { class: "stacks" }, element("thead", {}, head), element("tbody", {}, ...rows)));
}

const COLUMNS = [
  ["docName", (d) => viewOf("document", d.document)], ["docContradicted", (d) => String(d.contradicted)], ["docRests", (d) => String(d.rests_on)],
  ["docShown", (d) => String(d.shown)], ["docRetrieved", (d) => String(d.retrieved)], ["docLast", (d) => moment(d.last_s)],
];

export class Documents {
  constructor(store) {
    this.store = store;
    this.found = null;
    this.asked_s = 0;
  }

  /** Ask for the list, now and then; what fails is asked for again. */
  async poll() {
    const { state } = this.store;
    if (!state?.views?.includes("documents") || state.now_s - this.asked_s < EVERY_S) return;
    this.asked_s = state.now_s;
    const reply = await ask("documents.json");
    if (reply.ok) this.found = await reply.json();
  }

  show() {
    const { found } = this;
    byId("documents").hidden = !found;
    byId("documents-link").hidden = !found;
    if (!found) return;
    say(byId("documents-told"), t("docTold", { answers: found.answers, kept: found.kept }));
    renew(byId("documents-list"), [table(COLUMNS, found.listed)]);
  }
}
