package reconciler

import (
	"fmt"
	"slices"
	"time"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// events are what can happen in a truth; each does nothing where it cannot
// happen. What comes twice comes twice as often.
var events = []func(w *truth, s step){
	(*truth).start, (*truth).start, (*truth).start, (*truth).start, (*truth).start, (*truth).timePasses, (*truth).timePasses, (*truth).timePasses,
	(*truth).ends, (*truth).ends, (*truth).podGoes, (*truth).podGoes, (*truth).agentFails, (*truth).agentFails, (*truth).forced, (*truth).forced,
	(*truth).partition, (*truth).partition, (*truth).power, (*truth).cloned, (*truth).cloned, (*truth).finishes, (*truth).finishes,
	(*truth).setsUp, (*truth).runs, (*truth).nodeGoes, (*truth).runtimeForgets, (*truth).entryLost, (*truth).tenantEdits, (*truth).reconcilerPasses, (*truth).create, (*truth).bind,
}

// run has everything happen, a second after the other.
func (w *truth) run(p plot) {
	for _, s := range p.Steps {
		w.now = w.now.Add(time.Second)
		events[s.What%len(events)](w, s)
	}
	w.now = w.now.Add(time.Second)
	if p.Heard {
		w.timePasses(step{})
	}
	w.now = w.now.Add(5 * time.Second)
}

func (s step) pod() string               { return fmt.Sprint("web-", s.Who) }
func (w *truth) machine(s step) *machine { return w.nodes[s.Where%len(w.nodes)] }
func (w *truth) net(s step) *trueNet     { return w.nets[s.Who%len(w.nets)] }

// sandbox is the newest sandbox of the pod by that name that is open.
func (w *truth) sandbox(s step) *trueSandbox {
	for _, b := range slices.Backward(w.sandboxes) {
		if b.pod == s.pod() && b.open {
			return b
		}
	}
	return nil
}

func (m *machine) has(b *trueSandbox) *held {
	for _, h := range m.held {
		if h.sandbox == b && !h.copied {
			return h
		}
	}
	return nil
}

// start is all that a pod needs in order to run.
func (w *truth) start(s step) { w.create(s); w.bind(s); w.setsUp(s); w.runs(s) }

func (w *truth) create(s step) {
	if w.pods[s.pod()] != nil {
		return
	}
	w.uids++
	w.pods[s.pod()] = &truePod{name: s.pod(), uid: fmt.Sprint("uid-", w.uids), phase: "Pending", created: w.now}
	w.say("pod %s is created as uid-%d", s.pod(), w.uids)
}

func (w *truth) bind(s step) {
	if p, m := w.pods[s.pod()], w.machine(s); p != nil && p.node == nil && m.object && p.phase == "Pending" {
		p.node = m
		w.say("%s is bound to %s", p.name, m.name)
	}
}

// setsUp is an ADD: an entry of the same pod name and interface is reused.
func (w *truth) setsUp(s step) {
	p := w.pods[s.pod()]
	if p == nil || p.node == nil || !p.node.connected || !p.deleted.IsZero() || p.phase == "Failed" || p.phase == "Succeeded" ||
		slices.ContainsFunc(w.sandboxes, func(b *trueSandbox) bool { return b.uid == p.uid && b.open }) {
		return
	}
	pool, key := w.net(s).poolOn(p.node), 0
	for k, e := range pool.entries {
		if e.PodRef == "default/"+p.name {
			key = k
		}
	}
	for k := 1; key == 0; k++ {
		if _, taken := pool.entries[k]; !taken && w.freeFor(pool, k, p.name) {
			key = k
		}
	}
	b := &trueSandbox{id: fmt.Sprint("box-", len(w.sandboxes)+1), pod: p.name, uid: p.uid, node: p.node, pool: pool, ip: pool.addressOf(key), added: w.now, open: true}
	pool.entries[key] = Alloc(fmt.Sprint(key), "default/"+p.name, b.id, "net1")
	if name := pool.reservationOf(b.ip); w.reserved[name] == nil {
		w.reserved[name] = &trueReservation{pod: p.name, since: w.now, pool: pool, ip: b.ip}
	}
	w.sandboxes = append(w.sandboxes, b)
	p.node.held = append(p.node.held, &held{sandbox: b, cached: true, reportsNetwork: s.How > 1, since: w.now})
	w.say("ADD of %s for %s on %s: %s in %s", b.id, p.name, p.node.name, b.ip, pool.name)
}

// freeFor reports whether no other pool of the network has the address reserved.
func (w *truth) freeFor(pool *truePool, key int, pod string) bool {
	r := w.reserved[pool.reservationOf(pool.addressOf(key))]
	return r == nil || r.pod == pod
}

func (w *truth) runs(s step) {
	b, p := w.sandbox(s), w.pods[s.pod()]
	if b == nil || !b.node.up {
		return
	}
	if h := b.node.has(b); h != nil && !h.listed {
		h.listed, h.ready = true, true
		w.say("%s runs", b.id)
	}
	if p == nil || p.uid != b.uid || !b.node.connected || p.phase == "Failed" {
		return
	}
	if s.How > 0 {
		p.ips = []string{b.ip}
	}
	if s.How > 1 {
		p.phase = "Running"
	}
	w.say("%s is %s and carries %v", p.name, p.phase, p.ips)
}

// ends: the processes of a sandbox, or with a DEL its network too.
func (w *truth) ends(s step) {
	b := w.sandbox(s)
	if b == nil || !b.node.up {
		return
	}
	h := b.node.has(b)
	if h.listed = true; s.How == 0 {
		h.ready = false
		w.say("%s dies, its network stays", b.id)
		return
	}
	w.close(b, h)
	if s.How == 1 && b.node.connected {
		w.del(b)
		h.cached = false
		w.say("%s is stopped", b.id)
		return
	}
	h.cached = s.How == 2
	w.say("%s is stopped and its DEL lost", b.id)
}

func (w *truth) close(b *trueSandbox, h *held) { b.open, h.ready, h.closed = false, false, true }

// del removes the entry with this id, and then its reservation.
func (w *truth) del(b *trueSandbox) {
	for k, e := range b.pool.entries {
		if e.ID == b.id {
			delete(b.pool.entries, k)
			delete(w.reserved, b.pool.reservationOf(b.ip))
		}
	}
}

// podGoes: it is deleted, and when kubelet has stopped all of it, it goes.
func (w *truth) podGoes(s step) {
	p := w.pods[s.pod()]
	switch {
	case p == nil:
	case p.node == nil:
		delete(w.pods, p.name)
		w.say("pod %s is gone", p.name)
	case p.deleted.IsZero():
		p.deleted = w.now.Add(30 * time.Second)
		w.say("pod %s is being deleted", p.name)
	case p.node.connected && !slices.ContainsFunc(w.sandboxes, func(b *trueSandbox) bool { return b.uid == p.uid && b.open }):
		delete(w.pods, p.name)
		w.say("pod %s is gone", p.name)
	}
}

func (w *truth) forced(s step) {
	if w.pods[s.pod()] != nil {
		delete(w.pods, s.pod())
		w.say("pod %s is deleted by force", s.pod())
	}
}

// finishes: kubelet says so when all is stopped, somebody else whenever.
func (w *truth) finishes(s step) {
	p := w.pods[s.pod()]
	if p == nil || p.node == nil {
		return
	}
	had := slices.ContainsFunc(w.sandboxes, func(b *trueSandbox) bool { return b.uid == p.uid })
	open := slices.ContainsFunc(w.sandboxes, func(b *trueSandbox) bool { return b.uid == p.uid && b.open })
	if s.How < 2 {
		p.phase = "Failed"
		w.say("somebody says that %s failed", p.name)
	} else if had && !open && p.node.connected {
		p.phase, p.stopped = "Succeeded", w.now.Add(-time.Second)
		w.say("kubelet says that %s succeeded", p.name)
	}
}

// entryLost: a restore, or an operator's hand.
func (w *truth) entryLost(s step) {
	if b := w.sandbox(s); b != nil {
		for k, e := range b.pool.entries {
			if e.ID == b.id {
				delete(b.pool.entries, k)
				w.say("the entry of %s is lost", b.id)
			}
		}
	}
}

// tenantEdits the annotations of a pod.
func (w *truth) tenantEdits(s step) {
	if p := w.pods[s.pod()]; p != nil {
		p.ips = [][]string{{"10.0.0.77"}, {"10.0.0.1"}, nil, {"10.0.0.2", "10.0.0.3"}}[s.How]
		w.say("the tenant has %s carry %v", p.name, p.ips)
	}
}
