// A pool as a map: one cell for each address. A large range has two maps: all addresses as small cells, and the block of
// 256 around the chosen one with letters. Of an IPv6 range, and of an IPv4 range above /16, only blocks in which
// addresses differ are drawn.
import { clock, el, explainLink, facts, list, section, short, steps, table, unknown, verdicts } from "./dom.js";
import { fill } from "./overview.js";
import { change, definitions, outside } from "./range.js";

const maxBlocks = 256, large = 1024;

const parse = (text) => text.includes(":") ? parseV6(text) : text.split(".").reduce((n, x) => n * 256n + BigInt(x), 0n);

function parseV6(text) {
  const words = (part) => part ? part.split(":") : [];
  const [head, tail] = text.split("::");
  const missing = 8 - words(head).length - words(tail).length;
  const all = tail === undefined ? words(head) : [...words(head), ...Array(missing).fill("0"), ...words(tail)];
  return all.reduce((n, x) => n * 65536n + BigInt("0x" + x), 0n);
}

function format(n, isV6) {
  if (!isV6) return [24n, 16n, 8n, 0n].map((shift) => (n >> shift) & 255n).join(".");
  const words = Array.from({ length: 8 }, (_, i) => ((n >> BigInt(112 - 16 * i)) & 65535n).toString(16)).join(":");
  const zeros = (words.match(/\b0(:0)+\b/g) || []).sort((a, b) => b.length - a.length)[0];
  return zeros ? words.replace(zeros, "::").replace(/:{3,}/g, "::") : words;
}

// cellsOf lays out the runs of a pool: the blocks that are drawn, and for each of their cells the number of its run.
export function cellsOf(runs) {
  const isV6 = runs[0].first.includes(":");
  const ends = runs.map((r) => [parse(r.first), parse(r.last || r.first)]);
  const first = ends[0][0], total = ends.at(-1)[1] - first + 1n;
  const size = total < 256n ? Number(total) : 256;
  let blocks = [];
  if (total <= 65536n) {
    for (let b = first; b < first + total; b += BigInt(size)) blocks.push(b);
  } else {
    const found = new Set();
    for (const [from, to] of ends) {
      found.add((from - first) / 256n);
      if (to - from < 256n) found.add((to - first) / 256n);
    }
    blocks = [...found].sort((a, b) => (a < b ? -1 : 1)).map((b) => first + b * 256n);
  }
  const hidden = Math.max(blocks.length - maxBlocks, 0);
  blocks = blocks.slice(0, maxBlocks);
  const cells = new Int32Array(blocks.length * size);
  let run = 0;
  for (let b = 0; b < blocks.length; b++) {
    for (let i = 0; i < size; i++) {
      const address = blocks[b] + BigInt(i);
      while (run < ends.length - 1 && ends[run][1] < address) run++;
      cells[b * size + i] = run;
    }
  }
  const states = runs.map((r) => r.state);
  const count = new Map();
  ends.forEach(([from, to], i) => count.set(states[i], (count.get(states[i]) || 0n) + to - from + 1n));
  return { runs, cells, blocks, size, total, hidden, count, isV6,
    address: (cell) => format(blocks[Math.floor(cell / size)] + BigInt(cell % size), isV6) };
}

// words says who holds the address of a cell.
function words(m, cell) {
  const run = m.runs[m.cells[cell]];
  const who = run.podRef ? ` by ${run.podRef}` : "";
  return `${m.address(cell)}: ${verdicts[run.state].words}${who}${run.reason ? ` (${run.reason})` : ""}`;
}

// shapes draw a state into a square, so that it is known without its colour, also where a letter would be too small.
const shapes = {
  InUse: (c, x, y, s) => c.fillRect(x, y, s, s),
  Held: (c, x, y, s) => c.fillRect(x, y + s / 2, s, s / 2),
  Stale: (c, x, y, s) => { c.beginPath(); c.moveTo(x, y); c.lineTo(x + s, y + s); c.lineTo(x, y + s); c.fill(); },
  Free: (c, x, y, s) => c.fillRect(x, y, s, s),
  Reserved: (c, x, y, s) => c.fillRect(x, y, s / 2, s),
  Excluded: (c, x, y, s) => c.fillRect(x + s / 3, y + s / 3, s / 3, s / 3),
  Unknown: (c, x, y, s) => { c.fillRect(x, y, s, s / 4); c.fillRect(x, y + s * 3 / 4, s, s / 4); },
};

// Canvas is a map of some cells. It has the keyboard focus as one element: arrows move the chosen cell.
class Canvas {
  constructor(m, label, first, n, hasLetters, choose) {
    Object.assign(this, { m, first, n, hasLetters, choose });
    this.canvas = el("canvas", { tabindex: "0", role: "application", "aria-roledescription": "map of addresses",
      "aria-label": label, id: hasLetters ? "map" : "map-all" });
    this.canvas.addEventListener("pointermove", (e) => this.at(e, false));
    this.canvas.addEventListener("click", (e) => this.at(e, true));
    this.canvas.addEventListener("keydown", (e) => this.key(e));
    this.canvas.addEventListener("focus", () => this.choose(this.chosen ?? this.first, false));
  }

  draw(width, chosen) {
    const min = this.hasLetters ? 22 : 3;
    this.columns = this.hasLetters ? 32 : 256;
    while (this.columns > 8 && (this.columns > this.n || width / this.columns < min)) this.columns /= 2;
    this.side = Math.max(Math.min(Math.floor(width / this.columns), this.hasLetters ? 34 : 6), min);
    const scale = devicePixelRatio || 1, rows = Math.ceil(this.n / this.columns);
    const [w, h] = [this.columns * this.side, rows * this.side];
    Object.assign(this.canvas, { width: w * scale, height: h * scale });
    Object.assign(this.canvas.style, { width: w + "px", height: h + "px" });
    const c = this.canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
    const colour = (name) => style.getPropertyValue("--" + name);
    c.scale(scale, scale);
    const gap = this.side > 4 ? 1 : 0.5, by = new Map();
    for (let i = 0; i < this.n; i++) {
      const state = this.m.runs[this.m.cells[this.first + i]].state;
      if (!by.has(state)) by.set(state, []);
      by.get(state).push(i);
    }
    for (const [state, cells] of by) {
      c.fillStyle = colour(state);
      const shape = this.hasLetters && state !== "Excluded" ? shapes.InUse : shapes[state];
      for (const i of cells) shape(c, (i % this.columns) * this.side, Math.floor(i / this.columns) * this.side, this.side - gap);
    }
    if (this.hasLetters) {
      Object.assign(c, { fillStyle: colour("on"), font: `bold ${this.side * 0.55}px system-ui, sans-serif`,
        textAlign: "center", textBaseline: "middle" });
      for (const [state, cells] of by) {
        if (state === "Free" || state === "Excluded") continue;
        for (const i of cells) c.fillText(verdicts[state].letter, ...this.centre(i));
      }
    }
    this.image = c.getImageData(0, 0, w * scale, h * scale);
    this.mark(chosen);
  }

  centre(i) { return [(i % this.columns + 0.5) * this.side, (Math.floor(i / this.columns) + 0.5) * this.side]; }

  // mark draws a frame around the chosen cell.
  mark(chosen) {
    const c = this.canvas.getContext("2d");
    c.putImageData(this.image, 0, 0);
    this.chosen = chosen;
    if (chosen < this.first || chosen >= this.first + this.n) return;
    const [x, y] = this.centre(chosen - this.first), half = Math.max(this.side / 2, 4);
    c.strokeStyle = getComputedStyle(document.documentElement).getPropertyValue("--text");
    c.lineWidth = 2.5;
    c.strokeRect(x - half, y - half, 2 * half, 2 * half);
  }

  at(e, isClick) {
    const box = this.canvas.getBoundingClientRect();
    const [x, y] = [Math.floor((e.clientX - box.left) / this.side), Math.floor((e.clientY - box.top) / this.side)];
    const cell = this.first + y * this.columns + x;
    if (x < this.columns && y >= 0 && cell < this.first + this.n) this.choose(cell, isClick && this.hasLetters, isClick);
  }

  key(e) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns,
      PageUp: -8 * this.columns, PageDown: 8 * this.columns, Home: -Infinity, End: Infinity }[e.key];
    if (e.key === "Enter") this.choose(this.chosen, true);
    else if (step === undefined) return;
    else this.choose(Math.min(Math.max(this.chosen + step, 0), this.m.cells.length - 1), false, true);
    e.preventDefault();
  }
}

// draw draws the maps of the runs.
function maps(runs) {
  const m = cellsOf(runs), isLarge = m.cells.length > large;
  const said = el("p", { class: "said", role: "status" }, "Point at an address, or move with the arrow keys. " +
    "Enter explains the address.");
  const link = el("p", {});
  let chosen = 0, width = 0, detail;
  const choose = (cell, isExplained, isKept = true) => {
    if (isExplained) { location.hash = "#/explain/" + encodeURIComponent(m.address(cell)); return; }
    said.textContent = words(m, cell);
    const block = Math.floor(cell / 256) * 256;
    if (isLarge && isKept && detail.first !== block) {
      detail.first = block;
      detail.n = Math.min(256, m.cells.length - block);
      detail.draw(width, cell);
      title.textContent = blockTitle(block);
    }
    if (!isKept && isLarge && (cell < detail.first || cell >= detail.first + detail.n)) return;
    chosen = cell;
    link.replaceChildren(explainLink(m.address(cell), "Explain " + m.address(cell)));
    for (const c of all) c.mark(cell);
  };
  const blockTitle = (block) => `${m.address(block)} to ${m.address(Math.min(block + 255, m.cells.length - 1))}`;
  detail = new Canvas(m, "Addresses with letters", 0, isLarge ? 256 : m.cells.length, true, choose);
  const all = isLarge ? [new Canvas(m, "All addresses", 0, m.cells.length, false, choose), detail] : [detail];
  const title = el("h3", {}, isLarge ? blockTitle(0) : "");
  const box = el("div", { class: "map" }, isLarge ? [el("div", { class: "whole" }, all[0].canvas), title] : [],
    said, link, detail.canvas);
  const draw = () => { for (const c of all) c.draw(width, chosen); };
  new ResizeObserver(() => {
    const now = box.clientWidth - 12;
    if (now > 0 && now !== width) { width = now; draw(); }
  }).observe(box);
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", draw);
  return [legend(m), m.blocks.length * m.size < m.total && el("p", {}, `Of ${m.total} addresses the map has ` +
    `${m.cells.length}: the blocks of 256 in which addresses differ.` +
    (m.hidden > 0 ? ` ${m.hidden} more such blocks are not drawn.` : "")), box];
}

function legend(m) {
  const unrecorded = m.runs.filter((r) => r.state === "InUse" && !r.reason).length;
  return el("ul", { class: "legend" }, Object.keys(verdicts).filter((s) => m.count.has(s)).map((s) =>
    el("li", {}, el("span", { class: "cell " + s, "aria-hidden": "true" }, verdicts[s].letter),
      ` ${m.count.get(s)} ${verdicts[s].words}`, s === "InUse" && unrecorded > 0 && `, ${unrecorded} of them without an allocation`)));
}

export function pool(d, name) {
  const { pool, addresses, commands } = d, p = pool.pools[0];
  const owners = (all) => all.length > 0 && list(all.map((o) => `${o.name} (${o.entries})`), 10);
  return [
    el("h1", {}, "Pool " + name),
    unknown(pool.unknown),
    el("p", {}, explainLink("pool/" + name, "Explain the pool: what is held or stale, and what you can do")),
    el("div", { class: "columns" },
      el("div", {}, facts([["range", p.range], ["fill", fill(p)], ["in use", p.inUse], ["held", p.held],
        ["stale", p.stale], ["blocked", p.blocked ?? "unknown"], ["free", p.free ?? "unknown"], ["usable", p.usable ?? "unknown"],
        ["outside", p.outside || ""], ["why unknown", p.unknown]])),
      el("div", {}, facts([["definitions", p.definitions.map((d) => `${d.name}: ${d.ranges.join(", ")}`)],
        ["free ranges", p.freeRanges.slice(0, 6).join(", ") + (p.freeRanges.length > 6 ? ", …" : "")],
        ["namespaces", owners(p.namespaces)], ["workloads", owners(p.workloads)]]))),
    section(`Pods that wait for an address (${p.unknown && p.waiting.length === 0 ? "unknown" : p.waiting.length})`,
      p.unknown && p.waiting.length === 0 ? el("p", {}, "Which pods wait is unknown.") : p.waiting.length > 0 && list(p.waiting.map((w) => explainLink("pod/" + w, w)))),
    section("Definitions", definitions(d)),
    section("Outside the definitions", outside(d)),
    section("Map", addresses.length > 0 ? maps(addresses) : el("p", {}, "The range of this pool cannot be parsed.")),
    section("Gates", pool.gates.map((g) => el("p", {}, el("b", {}, g.refusal + ": "), g.detail))),
    section("Stale", table("Stale addresses", ["Address", "Pod", "Why", "Not released now", "Released at"],
      p.staleEntries.slice(0, 100).map((s) => [explainLink(s.ip), s.podRef, short(s.message), s.detail || "the next pass releases it",
        s.releasableAt ? clock(s.releasableAt) : ""]))),
    section("Notes", pool.notes.length > 0 && list(pool.notes)),
    section("Another range", change(name, d.definitions[0])),
    section("Commands", steps(commands)),
  ];
}
