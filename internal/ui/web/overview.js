// The overview: what needs attention first, the checks, the pools, and what is stale or held.
import { badge, command, el, explainLink, list, poolLink, section, short, steps, table } from "./dom.js";

const marks = { Error: "✗", Warning: "!", OK: "✓", Unknown: "–" };

export function overview({ status, pools, check, commands }) {
  const first = attention(status, pools, check);
  const isUnknown = status.level === "OK" && check.unknown.length > 0;
  const level = { OK: "Everything works", Warning: "It works, and needs attention", Error: "Something does not work" };
  return [
    el("h1", {}, "Overview"),
    isUnknown ? el("p", { class: "verdict Unknown" }, el("span", { "aria-hidden": "true" }, marks.Unknown + " "),
      "No fault was found, but not everything could be read.") :
      el("p", { class: "verdict " + status.level }, el("span", { "aria-hidden": "true" }, marks[status.level] + " "),
        level[status.level] + "."),
    el("p", { class: "cluster" }, where(status.cluster)),
    section("Needs attention first", first.length > 0 ? el("ol", { class: "attention" }, first.slice(0, 30)) :
      el("p", {}, "Nothing needs attention."), first.length > 30 && el("p", {}, `And ${first.length - 30} more, below.`)),
    section("Checks", el("ul", { class: "checks" }, byLevel(status.lines).map(line))),
    section("Notes", check.notes.length > 0 && list(check.notes)),
    section("Pools", table("Pools", ["Pool", "Range", "Fill", "Usable", "Used", "Free", "Held", "Stale", "Waiting"],
      pools.pools.slice(0, 200).map(poolRow)),
    pools.pools.length > 200 && el("p", {}, `And ${pools.pools.length - 200} more, which are less full.`)),
    section("Stale and held", groups([...check.allocations, ...check.reservations])),
    section("Findings", table("Findings", ["Kind", "What", "Explain"], check.findings.slice(0, 100).map(findingRow)),
      check.findings.length > 100 && el("p", {}, `And ${check.findings.length - 100} more.`)),
    section("Commands", steps(commands)),
  ];
}

function where(c) {
  if (c.snapshot) return "Snapshot " + c.snapshot;
  return `Cluster ${c.server || ""}` + (c.context ? ` (context ${c.context})` : "");
}

const rank = ["Error", "Warning", "OK", "Unknown"];
const byLevel = (lines) => [...lines].sort((a, b) => rank.indexOf(a.level) - rank.indexOf(b.level));

function line(l) {
  return el("li", { class: l.level }, el("span", { class: "mark", "aria-hidden": "true" }, marks[l.level]),
    el("div", {}, el("b", {}, l.level === "OK" ? "" : l.level + ": "), l.message, l.next && command(l.next),
      l.advice && steps(l.advice)));
}

// attention is what an operator answers first: pods that cannot start, then two pods at one address, then what stops
// all releases, then nodes without fresh reports, then all other findings.
function attention(status, pools, check) {
  const card = (title, text, ...links) => el("li", {}, el("h3", {}, title), el("p", {}, short(text)), el("p", {}, links));
  const of = (...kinds) => check.findings.filter((f) => kinds.includes(f.kind));
  const full = pools.pools.filter((p) => p.waiting.length > 0 || String(p.free) === "0" && String(p.usable) !== "0");
  const elsewhere = ["pools", "findings", "agents"]; // which have cards of their own
  const stops = byLevel(status.lines).filter((l) => (l.level === "Error" || l.level === "Warning") &&
    !elsewhere.includes(l.id) && !l.id.startsWith("source-"));
  const nodes = check.agents.noFreshReport;
  const nearlyFull = status.lines.filter((l) => l.id === "pools" && l.level === "Warning" && full.length === 0);
  return [
    full.map((p) => card("Range full", `${p.used} of ${p.usable} addresses are used, ${p.stale} are stale, ` +
      `${p.held} are held. Pods that wait: ${p.waiting.length}.`, poolLink(p.pool, "Show the pool " + p.pool))),
    of("Conflict").map((f) => card("Two pods at one address", f.message, targets(f))),
    stops.map((l) => el("li", {}, el("h3", {}, reasonTitle(l.id)), el("p", {}, l.message), l.next && command(l.next),
      l.advice && steps(l.advice))),
    check.unknown.map((u) => card("Unknown: " + u.source, `${u.why}; ${u.costs}. There may be more findings than are ` +
      `shown: ${u.findings.join(", ")}.`)),
    of("Unrecorded", "Misrecorded").map((f) => card(f.kind, f.message, targets(f))),
    nodes.length > 0 && card("Nodes without a fresh report",
      "On them only addresses of finished pods are released.", list(nodes.map((n) => explainLink("node/" + n, n)))),
    nearlyFull.map((l) => card("Nearly full", l.message, command(l.next))),
    of("Phantom", "MissingReservation", "Malformed", "ClaimDiffers").map((f) => card(f.kind, f.message, targets(f))),
  ].flat().filter(Boolean);
}

const reasonTitle = (id) => ({
  restore: "Nothing is released: etcd was restored", paused: "Releases are paused", breaker: "The breaker has tripped",
  "last-pass": "The last pass", "agent-nodes": "Nodes that need not report", leader: "No leader", reconciler: "The reconciler", stale: "Stale addresses",
  nodes: "A node that is not Ready holds addresses",
  competing: "Something else releases addresses", rights: "RBAC", crds: "Custom resources", versions: "Versions",
}[id] || id);

// targets are links to the answers about a finding.
function targets(f) {
  const addresses = f.ip ? f.ip.split(",").map((ip) => explainLink(ip, "Explain " + ip)) : [];
  const nodes = f.node ? [explainLink("node/" + f.node, "Explain node " + f.node)] : [];
  const owners = addresses.length === 0 ? f.pods.map((p) => explainLink("pod/" + p.split("_")[0], "Explain " + p)) : [];
  const pools = addresses.length === 0 && f.pool ? f.pool.split(",").map((p) => poolLink(p, "Show the pool " + p)) : [];
  const links = [...addresses, ...nodes, ...owners, ...pools].slice(0, 4);
  return links.flatMap((a, i) => (i > 0 ? [" · ", a] : [a]));
}

const findingRow = (f) => [f.kind, short(f.message), targets(f)];

function poolRow(p) {
  return [poolLink(p.pool), p.range, fill(p), p.usable ?? "?", p.used, p.free ?? "?", p.held, p.stale, p.waiting.length];
}

export function fill(p) {
  if (p.fill === null) return el("span", { title: p.unknown }, "unknown");
  const percent = Math.floor(100 * p.fill) + "%"; // a full pool alone has 100 %
  const bar = el("span", { class: "bar" + (p.fill > 0.9 ? " full" : "") }, el("span", {}));
  bar.firstChild.style.width = percent;
  return [bar, " " + percent];
}

// groups are items by verdict and reason. A reservation is in the row of its allocation.
function groups(items) {
  const by = new Map();
  const seen = new Set();
  for (const it of items) {
    const row = it.ip + " " + it.podRef;
    if (it.reservation && seen.has(row)) continue;
    seen.add(row);
    const key = it.verdict + " " + it.reason + (it.refusal || "");
    by.set(key, [...(by.get(key) || []), it]);
  }
  return [...by.values()].sort((a, b) => b.length - a.length).map((all) => el("div", { class: "step" },
    el("p", {}, badge(all[0].verdict), ` ${all[0].reason} (${all.length})`,
      all[0].detail && `. Not released now: ${all[0].detail}`),
    list(all.map((it) => [it.ip ? explainLink(it.ip) : it.pool, ` ${it.podRef}: `, short(it.message)]), 10)));
}
