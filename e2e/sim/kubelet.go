package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

const networkStatus = "k8s.v1.cni.cncf.io/network-status"

// wake makes kubelet on a node compare its pods with the API in a moment.
func (s *Simulation) wake(n *node) {
	if n.syncing {
		return
	}
	n.syncing = true
	s.after(s.between(10*time.Millisecond, 1500*time.Millisecond), func() {
		n.syncing = false
		s.sync(n)
	})
}

// syncAll is kubelet's own loop.
func (s *Simulation) syncAll() {
	for _, n := range s.nodes {
		s.wake(n)
	}
	s.after(kubeletsTurn, s.syncAll)
}

// kubeletsTurn is how often kubelet compares its node and pods with the API, whatever happens.
const kubeletsTurn = 11 * time.Second

// sync is one pass of kubelet's loop. While the API server is unreachable, kubelet continues as before.
func (s *Simulation) sync(n *node) {
	if !n.up || !n.kubelet || s.away || !n.linked || time.Now().Before(n.blind) {
		return
	}
	s.publishNodeIfChanged(n)
	for _, p := range s.pods {
		o := s.podObject(p)
		if o != nil && o.Spec.NodeName == n.name {
			s.syncPod(n, p, o)
		}
	}
	for _, b := range n.sandboxes {
		if o := s.podObject(b.pod); o == nil || o.Metadata.UID != b.uid || o.Spec.NodeName != n.name {
			s.stop(b) // an orphan
		}
	}
}

func (s *Simulation) publishNodeIfChanged(n *node) {
	var stored struct {
		Status struct {
			NodeInfo struct {
				BootID string `json:"bootID"`
			} `json:"nodeInfo"`
			Conditions []struct {
				Status string `json:"status"`
			} `json:"conditions"`
		} `json:"status"`
	}
	if o := s.api.Get(fakeapi.At(fakeapi.Nodes, "", n.name)); o != nil {
		_ = json.Unmarshal(o.JSON, &stored)
	}
	if stored.Status.NodeInfo.BootID != n.bootID() || len(stored.Status.Conditions) == 0 ||
		stored.Status.Conditions[0].Status != "True" {
		s.publishNode(n)
	}
}

// syncPod starts, restarts or ends the sandbox of a pod, and writes the status.
func (s *Simulation) syncPod(n *node, p *podName, o *podObject) {
	var current *sandbox
	open := false
	for _, b := range n.sandboxes {
		if b.pod == p && b.uid == o.Metadata.UID {
			open = open || b.open || b.adding
			if b.open && !b.ending && (b.ready || b.adding) {
				current = b
			}
		}
	}
	finished := o.Status.Phase == "Succeeded" || o.Status.Phase == "Failed"
	switch {
	case o.Metadata.Deletion != nil || finished:
		for _, b := range n.sandboxes {
			if b.pod == p && b.uid == o.Metadata.UID {
				s.stop(b)
			}
		}
		if !open && o.Metadata.Deletion != nil {
			s.api.Delete(p.key())
			s.say("kubelet on %s ends pod %s", n.name, p.ref())
		}
	case current == nil && !open:
		s.startSandbox(n, p, o.Metadata.UID)
	case current == nil:
		for _, b := range n.sandboxes {
			if b.pod == p && b.uid == o.Metadata.UID && b.listed && !b.ready {
				s.stop(b) // before another is created
			}
		}
	case current.listed && (o.Status.Phase == "Pending" || p.reported != current):
		s.reportRunning(p, current)
	}
}

// startSandbox creates a sandbox: network namespace, Multus' cache, whereabouts' ADD.
func (s *Simulation) startSandbox(n *node, p *podName, uid string) {
	s.ids++
	b := &sandbox{
		id: fmt.Sprintf("%06x%058x", s.rng.Uint32()&0xffffff, s.ids), uid: uid, pod: p, node: n,
		adding: true, open: true, cached: true, since: time.Now(),
	}
	nets, isDefined := s.definitions(p)
	b.attachTo(nets)
	for _, other := range n.sandboxes {
		if other.uid == uid {
			b.attempt++
		}
	}
	n.sandboxes = append(n.sandboxes, b)
	if !isDefined {
		s.say("%s: ADD failed: Multus finds no definition", b)
		s.count("ADD without a definition")
		s.addFailed(b.first())
		return
	}
	s.attach(b.first())
}

// started handles the end of the blind window after Multus' ADD.
func (s *Simulation) started(b *sandbox) {
	switch {
	case !b.open || b.ending || !b.node.up:
	case !b.node.reaches() || s.away:
		s.say("%s: Multus cannot write its network-status", b)
		s.stop(b)
	default:
		s.annotate(b)
		b.listed, b.ready = true, true
		s.runtimeEvent(b.node)
		s.wake(b.node)
	}
}

// annotate writes a pod's network-status, Multus' last step of an ADD: without it the ADD fails, independent of kubelet
// (multus v4.2.4, pkg/multus/multus.go, CmdAdd).
func (s *Simulation) annotate(b *sandbox) {
	if o := s.podObject(b.pod); o == nil || o.Metadata.UID != b.uid {
		return
	}
	s.edit(b.pod.key(), "multus", func(c map[string]any) {
		annotations := section(section(c, "metadata"), "annotations")
		if s.chance(s.plan.NoStatus) {
			delete(annotations, networkStatus)
			return
		}
		var status []any
		for _, a := range b.attachments {
			status = append(status, map[string]any{"name": podNamespace + "/" + a.of.nad, "interface": a.ifName,
				"ips": []string{a.ip.String()}})
		}
		text, _ := json.Marshal(status)
		annotations[networkStatus] = string(text)
	})
}

// reportRunning writes kubelet's status of a running pod.
func (s *Simulation) reportRunning(p *podName, b *sandbox) {
	s.edit(p.key(), "kubelet", func(c map[string]any) {
		status := section(c, "status")
		status["phase"], status["podIP"] = "Running", "192.168.0.1"
		status["podIPs"] = []any{map[string]any{"ip": "192.168.0.1"}}
		status["conditions"] = []any{map[string]any{"type": "Ready", "status": "True"}}
		status["containerStatuses"] = []any{map[string]any{"name": "main",
			"state": map[string]any{"running": map[string]any{}}}}
	})
	p.reported = b
	s.say("pod %s is Running with %s", p.ref(), b.addresses())
}

// hangs reports whether a sandbox of a pod will not end. Kubelet reports a pod as finished only after it has stopped
// its sandboxes.
func (n *node) hangs(uid string) bool {
	return slices.ContainsFunc(n.sandboxes, func(b *sandbox) bool { return b.uid == uid && b.open && b.hangs })
}

// finish ends a pod as if its containers exited.
func (s *Simulation) finish(p *podName, phase string, byKubelet bool) {
	o := s.podObject(p)
	if o == nil || s.away || o.Status.Phase != "Running" {
		return
	}
	if n := s.nodeNamed(o.Spec.NodeName); byKubelet && (n == nil || !n.reaches() || !n.kubelet ||
		time.Now().Before(n.blind) || n.hangs(o.Metadata.UID)) {
		return
	}
	s.edit(p.key(), "kubelet", func(c map[string]any) {
		status := section(c, "status")
		status["phase"] = phase
		if byKubelet {
			status["conditions"] = []any{map[string]any{"type": "Ready", "status": "False"}}
			status["containerStatuses"] = []any{map[string]any{"name": "main",
				"state": map[string]any{"terminated": map[string]any{"exitCode": 0,
					"finishedAt": s.api.Now().UTC().Format(time.RFC3339)}}}}
		}
	})
	s.say("pod %s is %s (by kubelet: %v)", p.ref(), phase, byKubelet)
	if n := s.nodeNamed(o.Spec.NodeName); n != nil {
		if byKubelet { // which reports it when the sandbox has stopped
			for _, b := range n.sandboxes {
				if b.uid == o.Metadata.UID && b.open {
					s.stop(b)
				}
			}
		}
		s.wake(n)
	}
}

// stop ends a sandbox: DEL, then its network namespace.
func (s *Simulation) stop(b *sandbox) {
	if !b.open || b.ending || b.adding || b.hangs {
		return
	}
	b.ending, b.ready = true, false
	s.runtimeEvent(b.node)
	if b.node.loseDELs > 0 {
		b.node.loseDELs--
		if len(b.attachments) > 1 && s.chance(50) {
			lost := b.attachments[s.rng.IntN(len(b.attachments))]
			s.say("%s: DEL, but that of %s is lost", b, lost.ifName)
			s.count("DEL of one interface lost")
			s.detach(b, lost)
			return
		}
		s.say("%s: its DEL is lost", b)
		s.count("DEL lost")
		s.after(s.between(0, 10*time.Second), func() { s.closed(b, s.chance(50)) })
		return
	}
	s.say("%s: DEL", b)
	if s.keepsEntry(b.first()) {
		b.first().state = giving
		s.count("DEL kept an entry")
		s.after(s.between(0, 2*time.Second), func() {
			if b.node.up {
				s.closed(b, true)
			}
		})
		return
	}
	s.detach(b, nil)
}

// closed handles the end of a sandbox's network namespace. If the DEL completed, the files of the sandbox are gone too.
func (s *Simulation) closed(b *sandbox, cleaned bool) {
	b.open, b.ready = false, false
	if cleaned {
		b.cached = false
	}
	s.say("%s: closed", b)
	s.endedAt[b.id] = time.Now()
	s.nudge(10)
	if !b.retained {
		s.after(s.between(0, 10*time.Second), func() { b.listed = false; s.runtimeEvent(b.node) })
	}
	s.wake(b.node)
}

// power stops a machine with all that runs there, or starts it again.
func (s *Simulation) power(n *node, on bool) {
	if n.up == on {
		return
	}
	n.up = on
	if !on {
		s.say("%s is off", n.name)
		n.agent.stop()
		for _, b := range n.sandboxes {
			if b.process != nil {
				b.process.killed.Store(true)
			}
			b.open, b.ready, b.adding, b.hangs = false, false, false, false
		}
		s.after(s.between(5*time.Second, 40*time.Second), func() {
			if !n.reaches() && !s.away {
				s.writeNode(n, "Unknown", nil)
			}
		})
		return
	}
	n.boot++
	n.kubelet = true
	n.connect()
	wipes := s.chance(40) // CRI-O does
	for _, b := range n.sandboxes {
		b.listed = b.listed && !wipes
		if wipes {
			b.cached = b.cached && s.chance(50)
		}
	}
	s.untaint(n)
	s.say("%s is on again, boot %d", n.name, n.boot)
	s.startAgent(n)
	s.wake(n)
}

// startUnseen creates a pod, unless it exists, while the watches of pods stand still.
func (s *Simulation) startUnseen(p *podName, n *node) {
	s.api.Stall(fakeapi.Pods)
	s.say("the watches of pods stand still")
	s.makePod(p, n)
	s.after(2*time.Minute, func() { s.api.Stall("") })
}
