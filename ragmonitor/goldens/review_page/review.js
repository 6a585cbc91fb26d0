// The review of golden questions. All texts come from documents and models: they are only ever put into textContent and values.
const WORDS = {
  en: {
    title: "Review of golden questions", show: "Show", all: "all", candidate: "to decide", accepted: "accepted", rejected: "rejected",
    question: "Question", answer: "Reference answer", chunks: "Chunks that bear it out", history: "Conversation before it", kind: "Kind", difficulty: "Difficulty",
    comment: "Comment", source: "From", accept: "Accept (a)", reject: "Reject (r)", edit: "Edit (e)", reopen: "Decide later (u)", save: "Save and accept (Ctrl+Enter)",
    cancel: "Cancel (Esc)", none: "Nothing to show.", noAnswer: "none: a refusal is right", missing: "none yet", user: "user", assistant: "assistant",
    by: (who, when) => `by ${who}, ${when}`, about: (file, who, left, all) => `${file} · ${who} · ${left} of ${all} to decide`,
    keys: "a accept · r reject · e edit · u decide later · j next · k previous",
    noToken: "The address has no token: open the one that the terminal shows, as a whole.", lost: "The command in the terminal does not answer any more; is it running?",
    kinds: { single_fact: "single fact", several_chunks: "several chunks", comparison: "comparison", unanswerable: "unanswerable", false_premise: "false premise", follow_up: "follow-up turn" },
    levels: { easy: "easy", medium: "medium", hard: "hard" },
  },
  zh: {
    title: "审阅参考问题", show: "显示", all: "全部", candidate: "待定", accepted: "已接受", rejected: "已拒绝",
    question: "问题", answer: "参考回答", chunks: "依据片段", history: "之前的对话", kind: "类型", difficulty: "难度",
    comment: "备注", source: "来源", accept: "接受 (a)", reject: "拒绝 (r)", edit: "编辑 (e)", reopen: "稍后决定 (u)", save: "保存并接受 (Ctrl+Enter)",
    cancel: "取消 (Esc)", none: "没有可显示的内容。", noAnswer: "无：应当拒答", missing: "尚无", user: "用户", assistant: "助手",
    by: (who, when) => `${who}，${when}`, about: (file, who, left, all) => `${file} · ${who} · 共 ${all} 个，待定 ${left} 个`,
    keys: "a 接受 · r 拒绝 · e 编辑 · u 稍后决定 · j 下一个 · k 上一个",
    noToken: "地址中没有令牌：请完整打开终端显示的地址。", lost: "终端中的命令不再响应，它还在运行吗？",
    kinds: { single_fact: "单一事实", several_chunks: "多个片段", comparison: "比较", unanswerable: "无法回答", false_premise: "错误前提", follow_up: "追问" },
    levels: { easy: "简单", medium: "中等", hard: "困难" },
  },
};
const token = location.hash.slice(1);
const $ = (id) => document.getElementById(id);
let language = navigator.language.startsWith("zh") ? "zh" : "en";
let state = { file: "", reviewer: "", goldens: [] };
let chosen = "", editing = false, busy = false;
const touched = new Set(); // decided since the list was chosen: they stay in it, so that k leads back
const t = () => WORDS[language];

function element(name, text = "", className = "") {
  const made = document.createElement(name);
  made.textContent = text;
  if (className) made.className = className;
  return made;
}
function button(text, className, act) {
  const made = element("button", text, className);
  made.type = "button";
  made.addEventListener("click", act);
  return made;
}
const status = (golden) => golden.status ?? "candidate";
const kind = (golden) => golden.kind ?? "single_fact";
const shown = () => state.goldens.filter((each) => $("filter").value === "all" || status(each) === $("filter").value || each.id === chosen || touched.has(each.id));
const current = () => state.goldens.find((each) => each.id === chosen);

function say(text) {
  $("message").textContent = text;
  $("message").hidden = !text;
}

async function call(path, body) {
  const options = { headers: { Authorization: `Bearer ${token}` } };
  if (body) Object.assign(options, { method: "POST", body: JSON.stringify(body) });
  let reply;
  try { reply = await fetch(path, options); } catch { throw new Error(t().lost); }
  if (reply.status === 401) throw new Error(t().noToken);
  const value = await reply.json().catch(() => ({ error: `${reply.status}` }));
  if (!reply.ok) throw new Error(value.error);
  return value;
}

async function decide(verdict, changes = {}) {
  const golden = current();
  if (!golden || busy) return;
  busy = true;
  try {
    const decided = await call("decide", { id: golden.id, status: verdict, changes });
    const order = shown(), at = order.findIndex((each) => each.id === golden.id);
    state.goldens = state.goldens.map((each) => (each.id === golden.id ? decided : each));
    touched.add(golden.id);
    editing = false;
    say("");
    if (verdict !== "candidate") chosen = (order[at + 1] ?? order[at]).id;
  } catch (error) { say(error.message); } finally { busy = false; }
  draw();
}

function move(by) {
  const order = shown(), at = order.findIndex((each) => each.id === chosen);
  const next = order[Math.min(order.length - 1, Math.max(0, at + by))];
  if (next) { chosen = next.id; editing = false; say(""); draw(); }
}

function field(name, control) {
  const label = element("label");
  control.name = name;
  label.append(element("h2", t()[name]), control);
  return label;
}
function area(name, value) {
  const made = element("textarea");
  made.value = value ?? "";
  return field(name, made);
}
function choice(name, value, words) {
  const made = element("select");
  for (const [key, text] of Object.entries(words)) made.append(new Option(text, key, false, key === value));
  return field(name, made);
}

/** What the form holds, by field; nothing before it is drawn. */
function written() {
  return Object.fromEntries([...$("one").querySelectorAll("[name]")].map((control) => [control.name, control.value]));
}

function drawForm(golden, into, draft) {
  const held = { ...golden, ...draft };
  into.append(area("question", held.question), area("answer", held.answer), choice("kind", kind(held), t().kinds),
    choice("difficulty", held.difficulty ?? "medium", t().levels), area("comment", held.comment));
  const actions = element("div", "", "actions");
  actions.append(button(t().save, "accept", save), button(t().cancel, "", cancel));
  into.append(actions);
  drawEvidence(golden, into);
  into.querySelector("textarea").focus();
}
function save() {
  const before = { question: "", answer: "", comment: "", difficulty: "medium", kind: "single_fact", ...current() };
  decide("accepted", Object.fromEntries(Object.entries(written()).filter(([name, value]) => value !== before[name])));
}
function cancel() { editing = false; say(""); draw(); }

function drawEvidence(golden, into) {
  if (golden.history?.length) {
    into.append(element("h2", t().history));
    for (const turn of golden.history) into.append(element("p", `${t()[turn.role]}: ${turn.text}`, "chunk"));
  }
  if (golden.chunks?.length) into.append(element("h2", t().chunks));
  for (const chunk of golden.chunks ?? []) {
    const box = element("div", "", "chunk");
    if (chunk.source) box.append(element("p", chunk.source, "quiet"));
    box.append(element("pre", chunk.text));
    into.append(box);
  }
}

function drawOne() {
  const golden = current(), into = $("one");
  const draft = written();  // a refusal, or another language, takes nothing away that was written
  into.replaceChildren();
  if (!golden) { into.append(element("p", t().none)); return; }
  into.append(element("span", t()[status(golden)], `tag ${status(golden)}`), element("span", t().kinds[kind(golden)], "tag"),
    element("span", t().levels[golden.difficulty ?? "medium"], "tag"));
  for (const [name, value] of Object.entries(golden.attributes ?? {})) into.append(element("span", `${name}: ${value}`, "tag"));
  if (golden.reviewed_by) into.append(element("span", t().by(golden.reviewed_by, golden.reviewed_at), "quiet"));
  if (editing) { drawForm(golden, into, draft); return; }
  into.append(element("p", golden.question, "question"), element("h2", t().answer),
    element("p", golden.answer || (kind(golden) === "unanswerable" ? t().noAnswer : t().missing), golden.answer ? "" : "quiet"));
  if (golden.comment) into.append(element("h2", t().comment), element("p", golden.comment));
  const actions = element("div", "", "actions");
  actions.append(button(t().accept, "accept", () => decide("accepted")), button(t().edit, "", edit),
    button(t().reject, "", () => decide("rejected")));
  if (status(golden) !== "candidate") actions.append(button(t().reopen, "", () => decide("candidate")));
  into.append(actions);
  drawEvidence(golden, into);
  if (golden.source) into.append(element("p", `${t().source}: ${golden.source}`, "quiet"));
}
function edit() { if (current()) { editing = true; draw(); } }

function draw() {
  document.documentElement.lang = language;
  document.title = t().title;
  for (const each of document.querySelectorAll("[data-t]")) each.textContent = t()[each.dataset.t];
  for (const each of ["en", "zh"]) $(`lang-${each}`).setAttribute("aria-pressed", String(each === language));
  for (const option of $("filter").options) option.textContent = t()[option.value];
  const left = state.goldens.filter((each) => status(each) === "candidate").length;
  $("about").textContent = t().about(state.file, state.reviewer, left, state.goldens.length);
  $("list").replaceChildren(...shown().map((golden) => {
    const made = button(golden.question, status(golden), () => { chosen = golden.id; editing = false; draw(); });
    made.setAttribute("aria-current", String(golden.id === chosen));
    return made;
  }));
  $("list").querySelector("[aria-current=true]")?.scrollIntoView({ block: "nearest" });
  drawOne();
}

const KEYS = { a: () => decide("accepted"), r: () => decide("rejected"), e: edit, u: () => decide("candidate"), j: () => move(1), k: () => move(-1) };
document.addEventListener("keydown", (event) => {
  if (event.key === "Escape" && editing) { cancel(); return; }
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && editing) { event.preventDefault(); save(); return; }
  if (event.ctrlKey || event.metaKey || event.altKey || editing || event.target.matches("select, textarea, input")) return;
  const act = KEYS[event.key];
  if (act) { event.preventDefault(); act(); }
});
for (const each of ["candidate", "all", "accepted", "rejected"]) $("filter").append(new Option(each, each));
$("filter").addEventListener("change", () => { touched.clear(); chosen = ""; chosen = shown()[0]?.id ?? ""; editing = false; draw(); });
for (const each of ["en", "zh"]) $(`lang-${each}`).addEventListener("click", () => { language = each; draw(); });

draw();
try {
  state = await call("goldens.json");
  chosen = shown()[0]?.id ?? "";
} catch (error) { say(token ? error.message : t().noToken); }
draw();
