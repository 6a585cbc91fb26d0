// One slice, or one document: what is known of it. It has an address of its own, and its answers stand below.

import { ask } from "./asking.js";
import { t } from "./words.js";
import { element, moment, number, renew, say } from "./writing.js";

const EVERY_S = 10;
const byId = (id) => document.getElementById(id);
const range = (found) => (found ? `${number(found.mean, "hallucination")} (${t("interval", { lower: number(found.lower, "hallucination"), upper: number(found.upper, "hallucination") })})` : "–");

/** What an answer says of a dimension; null: nothing that is kept here. */
const DIMENSIONS = {
  framework: (a) => [a.framework], name: (a) => [a.name], model: (a) => [a.model], status: (a) => [a.status],
  source: (a) => a.chunks.map((each) => each.source),
};

/** The slice or the document that the address names; null: none. */
export function focused() {
  const [, kind, name] = /^#(slice|document)=(.+)$/.exec(location.hash) ?? [];
  try { return kind ? { kind, name: decodeURIComponent(name) } : null; } catch { return null; }
}

/** A link to the view of a slice ("route=billing") or a document; `shown` is the end of its name. */
export const viewOf = (kind, name, shown = name) => element("a", { href: `#${kind}=${encodeURIComponent(name)}` }, shown);

function values(answer, dimension) {
  const attribute = answer.attributes[dimension.replace(/^attribute /, "")];
  if (attribute !== undefined && !(dimension in DIMENSIONS)) return [attribute];
  return DIMENSIONS[dimension]?.(answer) ?? [];
}

/** Whether an answer is one of the slice's, or was shown the document. */
export function belongs(answer, { kind, name }) {
  if (kind === "document") return answer.chunks.some((each) => each.source === name || each.id === name);
  const at = name.indexOf("=");
  return values(answer, name.slice(0, at)).includes(name.slice(at + 1));
}

function facts(entries) {
  return element("dl", { class: "known" }, ...entries.filter(([, value]) => value).flatMap(([title, value]) => [element("dt", {}, t(title)), element("dd", {}, value)]));
}

export class Focus {
  /** `stateOf` says in words where an alarm stands. */
  constructor(store, documents, stateOf) {
    Object.assign(this, { store, documents, stateOf, slices: null, asked_s: 0 });
    addEventListener("hashchange", () => this.show());
  }

  /** Ask for the rates of slices while one is looked at. */
  async poll() {
    const { state } = this.store;
    if (focused()?.kind !== "slice" || !state?.views?.includes("slices") || state.now_s - this.asked_s < EVERY_S) return;
    this.asked_s = state.now_s;
    const reply = await ask("slices.json");
    if (reply.ok) this.slices = (await reply.json()).listed;
  }

  show() {
    const found = focused(), { state } = this.store;
    byId("focus").hidden = !found || !state;
    if (!found || !state) return;
    say(byId("focus-title"), `${t(found.kind === "slice" ? "focusSlice" : "docName")} ${found.name}`);
    const incidents = state.incidents.filter((each) => each.names?.includes(found.name));
    renew(byId("focus-known"), [
      found.kind === "slice" ? this.slice(found.name) : this.document(found.name),
      ...incidents.map((each) => element("p", {}, `${t("focusIncident")} `, element("a", { href: `incidents/${encodeURIComponent(each.id)}?lang=${document.documentElement.lang}` }, moment(each.opened_s)))),
      element("p", { class: "quiet" }, t("focusAnswers"), " ", element("a", { href: "#answers" }, t("focusAll"))),
    ]);
  }

  slice(name) {
    const known = this.slices?.find((each) => each.name === name);
    const alarm = this.store.state.alarms.find((each) => each.signal === `hallucination{${name}}`);
    if (!known && !alarm) return element("p", { class: "quiet" }, t("focusUnknownSlice"));
    return facts([
      ["focusRate", known && range(known.rate)],
      ["docJudged", known && String(known.judged)],
      ["focusAlarm", alarm && this.stateOf(alarm)],
    ]);
  }

  document(name) {
    const known = this.documents.found?.listed.find((each) => each.document === name);
    if (!known) return element("p", { class: "quiet" }, t("focusUnknownDocument"));
    return facts([
      ["docContradicted", String(known.contradicted)], ["docRests", String(known.rests_on)],
      ["docShown", String(known.shown)], ["docRetrieved", String(known.retrieved)],
    ]);
  }
}
