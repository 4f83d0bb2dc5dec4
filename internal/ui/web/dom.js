// Elements of the page. Text of the cluster is only ever set as text: el takes no markup.

export function el(tag, props = {}, ...children) {
  const e = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === undefined || value === false) continue;
    if (name.startsWith("on")) e.addEventListener(name.slice(2), value);
    else if (name === "class") e.className = value;
    else e.setAttribute(name, value === true ? "" : value);
  }
  e.append(...children.flat(9).filter((c) => c !== undefined && c !== null && c !== false && c !== ""));
  return e;
}

export const explainLink = (subject, text = subject) =>
  el("a", { href: "#/explain/" + encodeURIComponent(subject) }, text);

export const poolLink = (ref, text = ref) => el("a", { href: "#/pool/" + encodeURIComponent(ref) }, text);

// list lists texts or elements, at most some of them.
export function list(all, most = 20) {
  const rows = all.slice(0, most).map((x) => el("li", {}, x));
  if (all.length > most) rows.push(el("li", {}, `and ${all.length - most} more`));
  return el("ul", {}, rows);
}

// section is nothing without content.
export function section(title, ...content) {
  content = content.flat(9).filter(Boolean);
  return content.length > 0 && el("section", {}, el("h2", {}, title), content);
}

// table scrolls by itself where it is too wide, also by keys.
export function table(label, columns, rows) {
  return rows.length > 0 && el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el("table", {}, el("thead", {}, el("tr", {}, columns.map((c) => el("th", { scope: "col" }, c)))),
      el("tbody", {}, rows.map((r) => el("tr", {}, r.map((c) => el("td", {}, c)))))));
}

// facts lists names with values, without those that have none.
export function facts(pairs) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== null && value !== "" && value.length !== 0);
  return el("dl", {}, shown.map(([name, value]) => [el("dt", {}, name), el("dd", {}, showValue(value))]));
}

function showValue(value) {
  if (value === true) return "yes";
  if (value === false) return "no";
  return Array.isArray(value) && value.every((v) => typeof v === "string") ? value.join(", ") : value;
}

// command is a command to copy.
export function command(text) {
  const said = el("span", { role: "status" });
  const copy = el("button", {
    type: "button", "aria-label": "Copy the command " + text,
    onclick: async () => {
      try {
        await navigator.clipboard.writeText(text);
        said.textContent = "Copied";
      } catch {
        getSelection().selectAllChildren(code);
        said.textContent = "Selected: copy it with your keyboard";
      }
    },
  }, "Copy");
  const code = el("code", { tabindex: "0" }, text);
  return el("div", { class: "command" }, code, copy, said);
}

// steps are what an operator can do.
export function steps(advice) {
  return advice.map((a) => el("div", { class: "step" },
    el("p", {}, a.cause && el("b", {}, a.cause + ": "), a.why, a.onNode && !a.why.includes(a.onNode) &&
      ` On node ${a.onNode}:`), a.command && command(a.command)));
}

// verdicts have a letter and a shape beside their colour.
export const verdicts = {
  InUse: { letter: "U", words: "in use" },
  Held: { letter: "H", words: "held" },
  Stale: { letter: "S", words: "stale" },
  Free: { letter: "", words: "free" },
  Reserved: { letter: "R", words: "reserved by another pool of the network" },
  Excluded: { letter: "×", words: "excluded: no definition assigns it" },
  Unknown: { letter: "?", words: "unknown: no definition of the pool can be read" },
};

export const badge = (verdict) =>
  el("span", { class: "badge " + verdict }, el("span", { "aria-hidden": "true" }, verdicts[verdict].letter + " "),
    verdict);

// short shortens container ids to the 13 characters that crictl prints.
export const short = (text) => text.replace(/\b([0-9a-f]{13})[0-9a-f]{51}\b/g, "$1");

export const clock = (text) => text.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");
