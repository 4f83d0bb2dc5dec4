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

// table is one block for each row where the window is too narrow, with the names of the columns in the block. The roles
// keep it a table for screen readers there, too. Beside that it scrolls by itself where it is too wide, also by keys.
export function table(label, columns, rows) {
  const row = (r) => el("tr", { role: "row" }, r.map((c, i) =>
    el("td", { role: "cell", "data-column": columns[i] }, el("div", {}, c))));
  return rows.length > 0 && el("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": label },
    el("table", { role: "table" }, el("thead", { role: "rowgroup" }, el("tr", { role: "row" }, columns.map((c) =>
      el("th", { role: "columnheader", scope: "col" }, c)))), el("tbody", { role: "rowgroup" }, rows.map(row))));
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
  Reserved: { letter: "R", words: "reserved: by another pool of the network, or without an allocation" },
  Excluded: { letter: "×", words: "excluded: no definition assigns it" },
  Unknown: { letter: "?", words: "unknown: no definition of the pool, or not every source, could be read" },
};

export const badge = (verdict) =>
  el("span", { class: "badge " + verdict }, el("span", { "aria-hidden": "true" }, verdicts[verdict].letter + " "),
    verdict);

// short shortens container ids to the 13 characters that crictl prints.
export const short = (text) => text.replace(/\b([0-9a-f]{13})[0-9a-f]{51}\b/g, "$1");

// carrier is a pod that carries an address, with links to it and its node.
export function carrier(c, now) {
  const owner = c.owner ? `, owned by ${c.owner}` : c.inAPI ? ", without an owner" : ", which the API does not have";
  return [explainLink("pod/" + c.pod, c.pod), c.node ? [" on ", explainLink("node/" + c.node, c.node)] : " on no known node",
    c.since ? [", for ", el("time", { datetime: c.since, title: clock(c.since) }, age(c.since, now))] : ", since an unknown time",
    owner, c.recorded && "; the allocation names it"];
}

// age is how long ago a time was, in the largest unit of which there are two.
export function age(since, now) {
  const seconds = Math.max(0, (Date.parse(now) - Date.parse(since)) / 1000);
  const [unit, size] = [["d", 86400], ["h", 3600], ["min", 60]].find(([, size]) => seconds >= 2 * size) || ["s", 1];
  return `${Math.floor(seconds / size)} ${unit}`;
}

// unknown lists the sources that could not be read, since nothing that is missing beside them proves anything.
export const unknown = (sources) => sources.map((u) => el("p", { class: "problem" }, el("b", {}, `Unknown: ${u.source}. `),
  `${u.why}; ${u.costs}.`));

export const clock = (text) => text.replace("T", " ").replace(/(\.\d+)?Z$/, " UTC");
