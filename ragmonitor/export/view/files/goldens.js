// Golden questions: how right the answers are, and the questions that need somebody. Asked for apart from the state.

import { ask } from "./asking.js";
import { table } from "./documents.js";
import { t } from "./words.js";
import { element, number, renew, say } from "./writing.js";

const EVERY_S = 10;
const byId = (id) => document.getElementById(id);
const score = (value) => (value === null ? "–" : number(value, "answer_correctness"));

function asked(each) {
  const box = element("span", {}, each.question || each.id);
  if (each.fault) box.append(" ", element("span", { class: "tag bad" }, t("goldenFault")), element("small", {}, each.fault));
  return box;
}

const COLUMNS = [
  ["goldenQuestion", asked],
  ["goldenOutcome", (g) => t(`golden_${g.outcome || "unasked"}`)],
  ["goldenNewest", (g) => score(g.answer_correctness)],
  ["goldenExpected", (g) => score(g.expected)],
];

export class Goldens {
  constructor(store) {
    this.store = store;
    this.told = null;
    this.asked_s = 0;
  }

  /** Ask for them, now and then; what fails is asked for again. */
  async poll() {
    const { state } = this.store;
    if (!state?.views?.includes("goldens") || state.now_s - this.asked_s < EVERY_S) return;
    this.asked_s = state.now_s;
    const reply = await ask("goldens.json");
    if (reply.ok) this.told = await reply.json();
  }

  show() {
    const { told } = this;
    byId("goldens").hidden = !told;
    byId("goldens-link").hidden = !told;
    if (!told) return;
    const [mean, lower, upper] = told.answer_correctness ?? [null, null, null];
    const level = mean === null ? t("goldenNoLevel") : t("goldenLevel", { mean: score(mean), lower: score(lower), upper: score(upper) });
    say(byId("goldens-told"), [t("goldenTold", { questions: told.questions }), level, t("goldenFaults", { faults: told.faults })].join(" "));
    say(byId("goldens-cause"), told.cause === "none" ? "" : t(`goldenCause_${told.cause}`));
    renew(byId("goldens-list"), [table(COLUMNS, told.worst)]);
  }
}
