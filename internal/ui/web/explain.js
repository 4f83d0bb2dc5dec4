// An address, a pod, a node or a pool explained, and the history.
import { ask } from "./app.js";
import { badge, carrier, clock, el, explainLink, facts, list, poolLink, section, short, steps, table, unknown } from "./dom.js";

export function explain({ explanation: d, text }, subject) {
  const isOne = d.subject.kind === "Address" || d.subject.kind === "Pod";
  return [
    el("h1", {}, d.subject.kind + " " + d.subject.name.replace(/^(pod|node|pool)\//, "")),
    unknown(d.unknown),
    d.missing.map((m) => el("p", { class: "problem" }, m)),
    d.gates.map((g) => el("p", {}, el("b", {}, g.refusal + ": "), g.detail)),
    d.poolUsage.length > 0 && el("p", {}, "Map: ", d.poolUsage.flatMap((p, i) => [i > 0 ? ", " : "", poolLink(p.pool)])),
    section("Findings", d.findings.length > 0 && el("ul", {}, d.findings.slice(0, 50).map((f) =>
      el("li", {}, el("b", {}, f.kind + ": "), short(f.message))))),
    d.conflicts.map((c) => conflict(c, d.observedAt)),
    isOne ? d.items.slice(0, 50).map((it) => item(it, d)) : itemTable(d),
    isOne && d.items.length > 50 && el("p", {}, `And ${d.items.length - 50} more.`),
    section("What you can do", steps(d.advice)),
    section("Pods", d.pods.map(pod)),
    section("Nodes", d.nodes.length > 0 && el("div", { class: "columns" }, d.nodes.slice(0, 20).map(node))),
    d.restore && section("etcd restore", facts([["restored", d.restore.restored], ["why", d.restore.why],
      ["waiting for", d.restore.awaiting]])),
    section("Notes", d.notes.length > 0 && list(d.notes)),
    !d.cluster.snapshot && d.subject.kind !== "Node" && el("section", {}, historyOf(d.subject.name)),
    el("section", {}, el("details", { id: "text" }, el("summary", {}, "As ip-reconcile explain prints it"),
      el("pre", { tabindex: "0" }, text))),
  ];
}

// historyOf reads the records when it is opened.
function historyOf(subject) {
  const body = el("div", {}, "Reading…");
  return el("details", {
    id: "history", ontoggle: async (e) => {
      if (!e.target.open) return;
      try {
        body.replaceChildren(...records(JSON.parse(await ask("history", subject))));
      } catch (error) {
        body.replaceChildren(el("p", { class: "problem" }, error.message));
      }
    },
  }, el("summary", {}, "History: what was released, repaired and refused"), body);
}

function item(it, d) {
  const e = it.evidence;
  return el("section", { class: "item" },
    el("h2", {}, it.reservation ? `Reservation ${it.reservation} ` :
      `${it.ip || "An address that cannot be parsed"} in ${it.pool} `, badge(it.verdict)),
    it.sharesVerdictOf ? el("p", {}, "It has the verdict of its allocation in ", poolLink(it.sharesVerdictOf), ".") : [
      el("p", { class: "why" }, el("b", {}, it.reason + ": "), short(it.message), it.proven && " (proven)"),
      chain(it, e, d),
      el("h3", {}, "The row that decided"),
      el("p", { class: "rule" }, it.ruleText.split(" | ").map((part, i) => [i > 0 ? " " : "", el("code", {}, part)])),
      it.verdict === "Stale" && [el("h3", {}, "Gates against its release"), gates(it)],
    ]);
}

// conflict lists who carries an address, with links to the pods and nodes.
function conflict(c, now) {
  return section(`Conflict at ${c.ip}: ` + (c.recorded ? `the allocation names ${c.recorded}` : "it has no allocation"),
    list(c.carriers.map((p) => [carrier(p, now), p.containerID && `; sandbox ${short(p.containerID)}`])));
}

function gates(it) {
  if (it.gates.length === 0) return el("p", {}, "No gate stands against it: the next pass releases it.");
  return table("Gates", ["Gate", "What", "Opens at"], it.gates.map((g) => [g.refusal,
    g.detail, g.opensAt ? el("time", { datetime: g.opensAt }, clock(g.opensAt)) : "not by itself"]));
}

// chain is the evidence as a picture: what is recorded, and what was observed of it.
function chain(it, e, d) {
  const box = (title, state, ...content) => el("li", { class: state }, el("h3", {}, title), content);
  const names = new Set([...(e.sandbox.nodes || []), it.node].filter(Boolean));
  const nodes = d.nodes.filter((n) => names.has(n.name));
  return el("ol", { class: "chain", "aria-label": "Evidence" },
    box("Recorded", "known", facts([["pod", it.podRef], ["container", short(it.containerID)], ["interface", it.ifName],
      ["key", it.key], ["network", it.network], ["problem", e.problem], ["detail", e.detail]])),
    e.pod ? box("Pod", "known", facts([["name", explainLink("pod/" + e.pod.name, e.pod.name)], ["phase", e.pod.phase],
      ["node", e.pod.node], ["owns the sandbox", { ItsPod: "yes", NotItsPod: "no" }[e.pod.ownership] || "unknown"],
      ["has the address", e.pod.onPod], ["network-status", e.pod.networkStatus]])) :
      box("Pod", "none", el("p", {}, "The API has no such pod.")),
    box("Sandbox", ["Absent", "Gone", "NoSource"].includes(e.sandbox.state) ? "none" : "known",
      facts([["state", e.sandbox.state], ["uid", e.sandbox.uid], ["without a fresh report", e.sandbox.withoutReport]])),
    nodes.length > 0 ? nodes.slice(0, 3).map((n) => box("Node", n.ready ? "known" : "none", nodeFacts(n))) :
      box("Node", "none", el("p", {}, names.size > 0 ? [...names].slice(0, 3).join(", ") : "No node is known.")),
    box("Claims", e.claimant ? "alarm" : "none", claims(it, e, d)));
}

// claims says who else carries the address. Nothing that was found proves nothing while a source is unknown.
function claims(it, e, d) {
  if (it.claimedBy) return [el("p", {}, carrier(it.claimedBy, d.observedAt)), facts([["claimant", short(e.claimant)]])];
  if (e.claimant) return facts([["claimant", short(e.claimant)], ["node", e.claimantNode && explainLink("node/" +
    e.claimantNode, e.claimantNode)]]);
  return el("p", {}, d.unknown.length > 0 ? "Whether something else carries the address is unknown." :
    "Nothing else carries the address.");
}

function nodeFacts(n) {
  const agent = { Fresh: "its report is fresh", NoFreshReport: "it has no fresh report",
    Dead: "none: the node is proven dead, or its Node object is gone" }[n.agent];
  return facts([["name", explainLink("node/" + n.name, n.name)],
    ["in the API", n.unknown ? "unknown" : n.inAPI], ["ready", n.unknown ? "unknown" : n.ready],
    ["not ready since", n.notReadySince && clock(n.notReadySince)], ["out of service", n.outOfService || undefined],
    ["agent", agent], ["lease renewed", n.report?.leaseRenewed && clock(n.report.leaseRenewed)],
    ["etcd restore", n.awaited ? "releases wait until this node reports" : ""]]);
}

function node(n) {
  return el("div", {}, nodeFacts(n), n.report && facts([["runtime", n.report.runtime], ["sandboxes", n.report.sandboxes],
    ["attachments", n.report.attachments]]));
}

function pod(p) {
  return el("div", {}, facts([["name", p.name], ["in the API", p.inAPI], ["uid", p.uid], ["node", p.node],
    ["phase", p.phase], ["network-status", p.networkStatus], ["carries", p.carries], ["waits", p.waits]]),
  table("Sandboxes", ["Sandbox", "Node", "State", "Report", "Addresses"], p.sandboxes.map((s) => [short(s.id), s.node,
    s.state, s.fresh ? "fresh" : "expired", s.addresses.join(", ")])));
}

// itemTable lists what is not in use on a node or in a pool.
function itemTable(d) {
  return ["Stale", "Held"].map((verdict) => {
    const all = d.items.filter((it) => it.verdict === verdict && !it.sharesVerdictOf);
    return section(`${verdict} (${all.length})`, table(verdict, ["Address", "Reason", "Pod", "Why", "Not released now"],
      all.slice(0, 200).map((it) => [explainLink(it.ip), it.reason, it.podRef, short(it.message), it.detail || ""])),
    all.length > 200 && el("p", {}, `And ${all.length - 200} more.`));
  });
}

function records({ history: d, text }) {
  return [table("History", ["Time", "What", "Address", "Pod", "Reason", "Actor", "Why"], d.records.slice(-500).reverse()
    .map((r) => [clock(r.time), r.what, r.ip ? explainLink(r.ip) : "", r.podRef || "", r.refusal || r.reason || "",
      r.actor, r.message + (r.because ? ` Because: ${r.because}` : "")])) || el("p", {}, "No such record is kept."),
  d.records.length > 500 && el("p", {}, `Of ${d.records.length} records the newest 500.`),
  d.faults.length > 0 && section("Faults", list(d.faults.map((f) => `${f.place}: ${f.message}`))),
  el("details", { id: "history-text" }, el("summary", {}, "As ip-reconcile history prints it"),
    el("pre", { tabindex: "0" }, text))].filter(Boolean);
}

export const history = (d) => [el("h1", {}, "History"), el("p", {}, "What was released, repaired, refused and paused, by whom " +
  "and why. The newest is the first."), records(d)];
