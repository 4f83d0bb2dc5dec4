// The overview: what needs attention first, then the pools, then what is stale or held, and the rest. Each thing is said
// once: a line of status that has a card is not among the checks.
import { badge, carrier, command, el, explainLink, list, poolLink, section, short, steps, table } from "./dom.js";

const marks = { Error: "✗", Warning: "!", OK: "✓", Unknown: "–" };

// old says why there is nothing newer, "" if this is the newest.
export function overview({ status, pools, check, conflicts, commands }, subject, old) {
  const { cards, checks, stale } = attention(status, pools, check, conflicts, old);
  const items = [...check.allocations, ...check.reservations];
  return [
    el("h1", {}, "Overview"),
    verdict(status, check, old),
    el("p", { class: "cluster" }, where(status.cluster)),
    section("Needs attention first", cards.length > 0 ? el("ol", { class: "attention" }, cards) :
      el("p", {}, "Nothing needs attention.")),
    section("Pools", stale && el("p", {}, stale.message), pools.pools.length > 0 && fillLegend(),
      table("Pools", ["Pool", "Range", "Fill", "In use", "Held", "Stale", "Blocked", "Free", "Usable", "Waiting"],
        pools.pools.slice(0, 200).map(poolRow)),
      pools.pools.length > 200 && el("p", {}, `And ${pools.pools.length - 200} more, which are less full.`)),
    ["Stale", "Held"].map((v) => items.some((it) => it.verdict === v) && section(v, groups(items.filter((it) => it.verdict === v), check))),
    section("Checks", checks.length > 0 && el("ul", { class: "checks" }, checks.map(line))),
    section("Other findings", table("Other findings", ["Kind", "What", "Explain"],
      check.findings.filter(isInformation).slice(0, 100).map((f) => [f.kind, short(f.message), targets(f)]))),
    section("Notes", check.notes.length > 0 && list(check.notes)),
    section("Commands", steps(commands)),
  ];
}

// withoutAgents is a line that says what is not in use, rather than what could not be read.
const withoutAgents = (l, check) => l.id === "agents" && l.level === "Unknown" && !check.agents.inUse && check.unknown.length === 0;

// verdict never says that everything works while something is unknown, or old.
function verdict(status, check, old) {
  const texts = { OK: "Everything works", Warning: "It works, and needs attention", Error: "Something does not work",
    Unknown: "No fault was found, but not everything is known" };
  const unknown = old || check.unknown.length > 0 || status.lines.some((l) => l.level === "Unknown" && !withoutAgents(l, check));
  const level = status.level === "OK" && unknown ? "Unknown" : status.level;
  return el("p", { class: "verdict " + level }, el("span", { "aria-hidden": "true" }, marks[level] + " "), texts[level] + ".");
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

// isInformation is true for findings about which nothing has to be done.
const isInformation = (f) => f.kind === "StatusMismatch";

const most = 10; // cards of one kind

// attention is what an operator answers first: pods that cannot start, then two pods at one address, then what stops
// all releases, then what is unknown, then all other findings. The lines of status that have no card are the checks.
// Before all of it is why what is shown is old.
function attention(status, pools, check, conflicts, old) {
  const now = status.observedAt;
  const card = (title, ...content) => el("li", {}, el("h3", {}, title), content);
  const text = (message, ...links) => [el("p", {}, short(message)), links.length > 0 && el("p", {}, links)];
  const act = (l) => l && [l.next && command(l.next), l.advice && el("details", { id: "advice-" + l.id },
    el("summary", {}, "What you can do"), steps(l.advice))];
  const of = (kind) => check.findings.filter((f) => f.kind === kind);
  const lineOf = (id) => status.lines.find((l) => l.id === id);
  const full = pools.pools.filter((p) => p.waiting.length > 0 || String(p.free) === "0" && String(p.usable) !== "0");
  const silent = silentNodes(check);
  const said = new Set(["stale"].filter(() => lineOf("stale")?.level === "OK"));
  if (full.length > 0) said.add("pools");
  if (silent.length > 0) said.add("agents");
  if (of("NodeNotReady").length > 0) said.add("nodes");
  for (const u of check.unknown) said.add("source-" + u.source);
  const rest = byLevel(status.lines).filter((l) => !said.has(l.id));
  const isCheck = (l) => l.level === "OK" || withoutAgents(l, check);
  const kinds = [...new Set(check.findings.filter((f) => !isInformation(f)).map((f) => f.kind))]
    .filter((k) => !["Conflict", "NoFreshReport", "NodeNotReady"].includes(k))
    .sort((a, b) => severity(a) - severity(b));
  const cards = [
    old && card("What is shown is old", text(old)),
    full.slice(0, most).map((p) => card("Range full", text(`${p.used - (p.outside ?? 0)} of ${p.usable} addresses are used, ${p.stale} are stale, ` +
      `${p.held} are held. Pods that wait: ${p.waiting.length}.`, poolLink(p.pool, "Show the pool " + p.pool)))),
    full.length > most && card("More full ranges", text(`${full.length - most} more pools are full, see below.`)),
    conflictCards(of("Conflict"), conflicts, card, now),
    rest.filter((l) => !isCheck(l)).map((l) => card((l.level === "Unknown" ? "Unknown: " : "") + reasonTitle(l.id),
      text(l.message), act(l))),
    check.unknown.map((u) => card("Unknown: " + u.source, text(`${u.why}; ${u.costs}.` + (u.findings.length > 0 ?
      ` There may be more findings than are shown: ${u.findings.join(", ")}.` : "")), act(lineOf("source-" + u.source)))),
    silent.length > 0 && card("Nodes without a fresh report", text("On them only addresses of finished pods are released."),
      list(silent), act(lineOf("agents"))),
    of("NodeNotReady").length > 0 && card(reasonTitle("nodes"), list(of("NodeNotReady").map(linked)), act(lineOf("nodes"))),
    kinds.map((k) => card(`${k} (${of(k).length})`, list(of(k).map(linked), most))),
  ].flat().filter(Boolean);
  return { cards, checks: rest.filter(isCheck), stale: said.has("stale") && lineOf("stale") };
}

// severity orders kinds of findings: those by which two pods get an address come first.
function severity(kind) {
  const at = ["Unrecorded", "Misrecorded", "Phantom", "GuestAddress", "ClaimDiffers", "MissingReservation", "NotAttached",
    "PendingLeak", "UnreadSandbox", "ForeignPool", "UnsupportedRange", "OutsideDefinition",
    "SliceWithoutNode"].indexOf(kind);
  return at < 0 ? 100 : at;
}

// linked is a finding with links to the answers about it.
const linked = (f) => [short(f.message), " ", targets(f)];

// silentNodes are the nodes without a fresh report, with what is known of each.
function silentNodes(check) {
  const said = new Map(check.findings.filter((f) => f.kind === "NoFreshReport").map((f) => [f.node, f.message]));
  const names = new Set([...said.keys(), ...check.agents.noFreshReport]);
  return [...names].map((n) => [n ? explainLink("node/" + n, n) : "", said.has(n) && [": ", said.get(n)]]);
}

// conflictCards are two pods at one address, each with its node, age and owner.
function conflictCards(findings, conflicts, card, now) {
  const all = [], seen = new Set();
  for (const f of findings) {
    const known = conflicts.find((c) => c.ip === f.ip && (c.pool || "") === f.pool);
    if (known && seen.has(known)) continue;
    seen.add(known);
    all.push(card("Two pods at one address", el("p", {}, short(f.message)),
      known && known.carriers.length > 0 && list(known.carriers.map((c) => carrier(c, now))), el("p", {}, targets(f, !known))));
  }
  const more = all.length - most;
  return [...all.slice(0, most), more > 0 && card("More conflicts", el("p", {}, `Of these there are ${more} more: `),
    command("ip-reconcile check --reason Conflict"))];
}

const reasonTitle = (id) => ({
  restore: "Nothing is released: etcd was restored", paused: "Releases are paused", breaker: "The breaker has tripped",
  "last-pass": "The last pass", "agent-nodes": "Nodes that need not report", leader: "No leader", reconciler: "The reconciler", stale: "Stale addresses",
  findings: "Pools, reservations and pods", pools: "How full pools are", agents: "Node agents",
  nodes: "A node that is not Ready holds addresses",
  competing: "Something else releases addresses", rights: "RBAC", crds: "Custom resources", versions: "Versions",
}[id] || id);

// targets are links to the answers about a finding. Each pod of a conflict has one, unless the card lists the pods.
function targets(f, hasPods = f.kind === "Conflict") {
  const addresses = f.ip ? f.ip.split(",").map((ip) => explainLink(ip, "Explain " + ip)) : [];
  const nodes = f.node ? [explainLink("node/" + f.node, "Explain node " + f.node)] : [];
  const owners = hasPods || addresses.length === 0 ?
    f.pods.map((p) => explainLink("pod/" + p.split("_")[0], "Explain " + p)) : [];
  const pools = addresses.length === 0 && f.pool ? f.pool.split(",").map((p) => poolLink(p, "Show the pool " + p)) : [];
  const links = [...addresses, ...nodes, ...owners, ...pools].slice(0, hasPods ? 12 : 4);
  return links.flatMap((a, i) => (i > 0 ? [" · ", a] : [a]));
}

function poolRow(p) {
  const unknown = () => el("span", { title: p.unknown }, "unknown");
  return [poolLink(p.pool), p.range, fill(p), p.inUse, p.held, p.stale, p.blocked ?? unknown(), p.free ?? unknown(),
    p.usable === null ? unknown() : [p.usable, p.outside > 0 && ` and ${p.outside} outside`],
    p.unknown && p.waiting.length === 0 ? unknown() : p.waiting.length];
}

// parts are what fills a pool. Together they are what is usable, and allocations outside of that.
const parts = [["InUse", "in use"], ["Held", "held"], ["Stale", "stale"],
  ["Blocked", "blocked: reserved, or carried without an allocation"], ["Free", "free"]];

const fillLegend = () => el("ul", { class: "legend" }, parts.map(([state, words]) =>
  el("li", {}, el("span", { class: "bar key", "aria-hidden": "true" }, el("span", { class: state })), " " + words)));

export function fill(p) {
  if (p.fill === null) return el("span", { title: p.unknown }, "unknown");
  const percent = Math.floor(100 * p.fill) + "%"; // a full pool alone has 100 %
  const blocked = Number(p.blocked), total = Number(p.usable) + p.outside;
  const bar = el("span", { class: "bar", "aria-hidden": "true" });
  for (const [state, n] of [["InUse", p.inUse], ["Held", p.held], ["Stale", p.stale], ["Blocked", blocked]]) {
    if (n === 0) continue;
    const part = el("span", { class: state });
    part.style.width = 100 * n / total + "%";
    bar.append(part);
  }
  return [bar, p.fill > 0.9 ? el("b", {}, " " + percent) : " " + percent];
}

// groups are items by verdict and reason. A reservation is in the row of its allocation. What a finding says of an item
// is not said again.
function groups(items, check) {
  const told = new Set(check.findings.map((f) => `${{ Phantom: "PhantomPod" }[f.kind] || f.kind} ${f.ip}`));
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
    list(all.map((it) => [it.ip ? explainLink(it.ip) : it.pool, ` ${it.podRef}: `,
      it.ip && told.has(`${it.reason} ${it.ip}`) ? "see the finding above" : short(it.message)]), 10)));
}
