// One incident: its Markdown, drawn within the page.

import { ask, element } from "./dom.js";
import { language, t } from "./words.js";

const INLINE = /\\([^A-Za-z0-9\s])|\*\*((?:\\.|[^\\])+?)\*\*|\[((?:\\.|[^\]\\])*)\]\(<?([^)>]*)>?\)/g;

/** The address of a link, where it leads to this page or to the web; else nothing. */
function address(text) {
  const [, hash] = text.split("#");
  if (text.startsWith("../") && hash) return `#${hash}`;
  return /^https?:/.test(text) ? text : null;
}

/** The nodes of one line. */
function inline(text) {
  const nodes = [];
  let reached = 0;
  for (const found of text.matchAll(INLINE)) {
    const [whole, escaped, strong, label, target] = found;
    nodes.push(text.slice(reached, found.index));
    if (escaped) nodes.push(escaped);
    else if (strong) nodes.push(element("strong", {}, inline(strong)));
    else nodes.push(element("a", { href: address(target) }, inline(label)));
    reached = found.index + whole.length;
  }
  return [...nodes, text.slice(reached)].filter(Boolean);
}

function block(text) {
  const lines = text.split("\n");
  const heading = /^(#{1,3}) (.*)$/.exec(text);
  if (heading) return element(`h${heading[1].length + 1}`, {}, inline(heading[2]));
  if (text.startsWith("> ")) return element("blockquote", {}, inline(lines.map((each) => each.replace(/^> ?/, "")).join(" ")));
  if (text.startsWith("- ")) return element("ul", {}, lines.map((each) => element("li", {}, inline(each.slice(2)))));
  return element("p", {}, inline(lines.join(" ")));
}

/** The incident of an id; where it is not kept, that. */
export async function incident(id) {
  const name = `incidents/${encodeURIComponent(id)}.md?lang=${language()}`;
  const text = await ask(name, "text").catch(() => "");
  return [
    element("p", {}, element("a", { href: "#overview" }, t("back"))),
    element("article", { class: "story panel", id: "story" },
      text ? text.trim().split(/\n{2,}/).map(block) : element("p", { class: "empty" }, t("noIncident"))),
  ];
}
