package reconciler

import (
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// timePasses, and whoever can is heard.
func (w *truth) timePasses(s step) {
	w.now = w.now.Add([]time.Duration{20 * time.Second, 2 * time.Minute, 20 * time.Minute, 3 * time.Hour}[s.How])
	w.abandon()
	w.agentsInspect()
	w.say("agents are heard")
}

// abandon what is not set up in time: no runtime sets up for longer than 12 min, and
// the entry is left.
func (w *truth) abandon() {
	for _, b := range w.sandboxes {
		if h := b.node.has(b); b.open && !h.listed && w.now.Sub(b.added) > 12*time.Minute {
			w.close(b, h)
			w.say("the runtime gives %s up", b.id)
		}
	}
}

// agentFails, or works again.
func (w *truth) agentFails(s step) {
	m := w.machine(s)
	m.agent = !m.agent
	w.say("agent on %s: %v", m.name, m.agent)
}

func (w *truth) partition(s step) {
	m := w.machine(s)
	if !m.up {
		return
	}
	if m.connected = !m.connected; m.connected {
		m.notReady = time.Time{}
		m.tainted = false
		w.say("%s is back", m.name)
	} else {
		m.notReady = w.now
		w.say("%s is cut off", m.name)
	}
}

// power goes off, or comes again. The runtime keeps what it had as stopped, or
// wipes it.
func (w *truth) power(s step) {
	m := w.machine(s)
	if m.up {
		m.up, m.connected, m.notReady = false, false, w.now
		for _, b := range w.sandboxes {
			if b.node == m {
				b.open = false
			}
		}
		w.say("%s is off", m.name)
		m.tainted = s.How == 0
		return
	}
	m.up, m.connected, m.object, m.tainted, m.notReady = true, true, true, false, time.Time{}
	m.boot++
	m.apiBoot = m.boot
	for _, h := range m.held {
		h.ready, h.closed = false, true
		h.listed = h.listed && s.How > 0
	}
	w.say("%s is on again", m.name)
}

// nodeGoes: only the object of a machine that is off is deleted.
func (w *truth) nodeGoes(s step) {
	if m := w.machine(s); !m.up && m.object {
		m.object = false
		w.say("Node %s is deleted", m.name)
	} else if m.connected && !m.object {
		m.object = true
		w.say("Node %s is there again", m.name)
	}
}

// cloned: another machine has the disk of this one.
func (w *truth) cloned(s step) {
	from, to := w.machine(s), w.nodes[(s.Where+1+s.How)%len(w.nodes)]
	if from == to || !to.up {
		return
	}
	for _, h := range from.held {
		to.held = append(to.held, &held{sandbox: h.sandbox, listed: h.listed && s.How < 3, cached: h.cached, copied: true, closed: true, reportsNetwork: h.reportsNetwork, since: h.since})
	}
	w.say("%s is made of a copy of %s", to.name, from.name)
}

// runtimeForgets a sandbox that is stopped, and maybe what the caches have of it.
func (w *truth) runtimeForgets(s step) {
	m := w.machine(s)
	if !m.up {
		return
	}
	for _, h := range m.held {
		if h.closed && h.listed {
			h.listed = false
			h.cached = h.cached && s.How > 1
			w.say("%s has removed %s", m.name, h.sandbox.id)
			return
		}
	}
}

// reconcilerPasses judges, and remembers.
func (w *truth) reconcilerPasses(step) {
	o := Observe(w.parts()...)
	w.past.Remember(Judged(o, judge.Policy{}))
	for _, b := range w.sandboxes {
		if p := w.pods[b.pod]; p != nil && p.uid == b.uid && p.node == b.node && p.phase != "Failed" && p.phase != "Succeeded" && slices.Contains(p.ips, b.ip) {
			w.seen[b] = true
		}
	}
	w.say("a pass of the reconciler")
}

func (w *truth) agentsInspect() {
	for _, m := range w.nodes {
		if m.agent && m.connected && m.object {
			m.inspect(w.now)
		}
	}
}

// inspect is what the agent does: what was listed or attached and is neither any more is gone,
// unless it was attached and never known closed.
func (m *machine) inspect(t time.Time) {
	r := &v1alpha1.SandboxReport{ObjectMeta: metav1.ObjectMeta{Name: m.name}, BootID: m.bootID(), Machine: MachineOf(m.name), ObservedAt: metav1.NewTime(t)}
	there := map[string]bool{}
	for _, h := range m.held {
		b := h.sandbox
		var addresses []v1alpha1.Address
		if h.cached || h.ready {
			addresses = []v1alpha1.Address{{IP: b.ip, IfName: "net1", Network: "wb", NetworkName: b.pool.net.name, Range: b.pool.prefix.String()}}
		}
		var closed *bool
		if h.reportsNetwork || h.listed && (h.ready || h.closed) {
			closed = new(h.closed)
		}
		switch {
		case h.listed:
			state := v1alpha1.SandboxNotReady
			if h.ready {
				state = v1alpha1.SandboxReady
			}
			r.Sandboxes = append(r.Sandboxes, v1alpha1.Sandbox{ID: b.id, Namespace: "default", Name: b.pod, UID: b.uid, State: state, NetworkClosed: closed,
				CreatedAt: metav1.NewTime(h.since), Addresses: addresses})
		case h.cached:
			r.Attachments = append(r.Attachments, v1alpha1.Attachment{ID: b.id, Namespace: "default", Name: b.pod, UID: b.uid, NetworkClosed: closed,
				Since: metav1.NewTime(h.since), Addresses: addresses})
		default:
			continue
		}
		there[b.id] = true
	}
	if m.report != nil {
		lost := func(id, uid string) {
			if !there[id] {
				r.Gone = append(r.Gone, v1alpha1.Gone{ID: id, UID: uid, Since: metav1.NewTime(t)})
			}
		}
		for _, g := range m.report.Gone {
			lost(g.ID, g.UID)
		}
		for _, b := range m.report.Sandboxes {
			lost(b.ID, b.UID)
		}
		for _, a := range m.report.Attachments {
			if a.NetworkClosed != nil && *a.NetworkClosed {
				lost(a.ID, a.UID)
			}
		}
	}
	m.report, m.heard = r, t
}

func (m *machine) bootID() string {
	if m.boot != m.apiBoot {
		return ""
	}
	return fmt.Sprint("boot-", m.apiBoot)
}
