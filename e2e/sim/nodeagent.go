package sim

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// nodeAgent is the product's agent on a node: its loop, its reports and its writes. It inspects the simulated node.
type nodeAgent struct {
	cancel context.CancelFunc
	as     *client
	event  func() // of the runtime
	// signals wait for the agent in their order. Each reports whether the agent has taken it.
	signals []func() bool
}

func (a *nodeAgent) stop() {
	if a != nil && a.cancel != nil {
		a.as.killed.Store(true)
		a.cancel()
		a.cancel = nil
	}
}

// startAgent starts the agent of a node, if it has one.
func (s *Simulation) startAgent(n *node) {
	if !n.hasAgent || !n.up {
		return
	}
	n.agent.stop()
	as := s.newClient("agent-"+n.name, n)
	config := as.config()
	store, err := agent.NewAPIStore(config, n.name, leaseNamespace)
	if err != nil {
		s.fail("set up the agent: %v", err)
		return
	}
	clock := func() time.Time { return time.Now().Add(n.skew) }
	store.Now, store.NewNonce = clock, func() string { return nonce(n) }
	ctx, cancel := context.WithCancel(s.ctx)
	a := &nodeAgent{cancel: cancel, as: as}
	events, reconnected, changes := make(chan struct{}), make(chan struct{}), make(chan string)
	n.agent = a
	a.event = func() { send(a, events, struct{}{}) }
	watcher, err := agent.NewWatcher(config, n.name, func() { as.post(func() { send(a, reconnected, struct{}{}) }) })
	if err != nil {
		s.fail("set up the agent: %v", err)
		return
	}
	s.start(func() {
		for ctx.Err() == nil {
			_ = watcher.Watch(ctx, func(version string) { as.post(func() { send(a, changes, version) }) })
			select {
			case <-ctx.Done():
			case <-time.After(time.Second + notAtOnce):
			}
		}
	})
	log := s.log()
	confirmer := &agent.Confirmer{Node: n.name, BootID: n.bootID(), Get: store.NodeIdentity}
	loop := &agent.Agent{
		Node: n.name, Inspector: &inspector{s: s, node: n, clock: clock}, Store: store, Health: agent.NewHealth(log,
			prometheus.NewRegistry()),
		Identity: confirmer.Identity, RuntimeEvents: events, ReportChanges: changes, Reconnected: reconnected,
	}
	s.start(func() { loop.Run(ctx) })
}

// maxSignals is how many wait for an agent; further ones are dropped.
const maxSignals = 64

// send queues a value for an agent, whose channel has no buffer.
func send[T any](a *nodeAgent, to chan<- T, value T) {
	if len(a.signals) == maxSignals {
		return
	}
	a.signals = append(a.signals, func() bool {
		select {
		case to <- value:
			return true
		default:
			return false
		}
	})
}

// signalEvery is the pause before an agent that was busy is signalled again.
const signalEvery = 20 * time.Millisecond

func (a *nodeAgent) hasSignals() bool { return a != nil && a.cancel != nil && len(a.signals) > 0 }

// signalAgents signals one agent that waits for a reason to inspect, and reports whether any did. An agent never has
// two reasons at once, of which it would take any.
func (s *Simulation) signalAgents() bool {
	for _, n := range s.nodes {
		if a := n.agent; a.hasSignals() && a.signals[0]() {
			a.signals = a.signals[1:]
			return true
		}
	}
	return false
}

func wake(signal chan<- struct{}) {
	select {
	case signal <- struct{}{}:
	default:
	}
}

// runtimeEvent is an event of the container runtime, which may be dropped.
func (s *Simulation) runtimeEvent(n *node) {
	if n.agent != nil && n.agent.cancel != nil && s.chance(80) {
		n.agent.event()
	}
}

// inspector inspects the simulated node, as agent.NodeInspector does a real one.
type inspector struct {
	s     *Simulation
	node  *node
	clock func() time.Time
	known map[string]bool // ids that were in the last inspection, or in the report before
	read  map[string]bool // ids of other nodes, from their reports
}

// Resume implements agent.Inspector.
func (i *inspector) Resume(report *v1alpha1.SandboxReport, thisMachine bool) {
	i.known = map[string]bool{}
	if !thisMachine {
		return
	}
	for _, b := range report.Sandboxes {
		i.known[b.ID] = true
	}
	for _, a := range report.Attachments {
		i.known[a.ID] = true
	}
}

// Unreadable implements agent.Inspector.
func (i *inspector) Unreadable() map[string]error { return nil }

// Inspect implements agent.Inspector.
func (i *inspector) Inspect(context.Context) (*agent.Inspection, error) {
	at := i.clock()
	in := &agent.Inspection{At: at, Runtime: v1alpha1.Runtime{Name: "containerd", Version: "2.4.2"},
		NamespaceGone: map[string]bool{}}
	seen := map[string]bool{}
	for _, b := range i.node.sandboxes {
		closed := i.networkClosed(b)
		switch {
		case b.listed:
			state := v1alpha1.SandboxNotReady
			if b.ready {
				state = v1alpha1.SandboxReady
			}
			listed := v1alpha1.Sandbox{
				ID: b.id, Namespace: b.pod.namespace, Name: b.pod.name, UID: i.uid(b), AddressesUnread: i.s.plan.Unread && b.open,
				Attempt: uint32(b.attempt), State: state,
				NetworkClosed: closed, CreatedAt: metav1.NewTime(b.since.Add(i.node.skew).Truncate(time.Second)),
				Addresses: b.reported(),
			}
			if listed.AddressesUnread && b.namesRange() {
				listed.MayCarry = b.ranges()
			}
			if listed.AddressesUnread && !i.s.quiet {
				listed.Addresses = listed.Addresses[:b.read(len(listed.Addresses))]
			}
			in.Sandboxes = append(in.Sandboxes, agent.ListedSandbox{Sandbox: listed})
		case b.cached || b.open:
			in.Attachments = append(in.Attachments, v1alpha1.Attachment{
				ID: b.id, Since: metav1.NewTime(b.since.Add(i.node.skew).Truncate(time.Second)), NetworkClosed: closed,
				Namespace: b.pod.namespace, Name: b.pod.name, UID: i.uid(b), Addresses: b.reported(),
			})
		default:
			if i.known[b.id] {
				in.NamespaceGone[b.id] = closed != nil
			}
			continue
		}
		seen[b.id] = true
	}
	slices.SortFunc(in.Sandboxes, func(a, b agent.ListedSandbox) int { return strings.Compare(a.ID, b.ID) })
	slices.SortFunc(in.Attachments, func(a, b v1alpha1.Attachment) int { return strings.Compare(a.ID, b.ID) })
	i.known = seen
	if i.node.lies {
		i.lie(in)
	}
	return in, nil
}

// uid is the UID of a sandbox's pod, "" if the report lacks it.
func (i *inspector) uid(b *sandbox) string {
	if i.s.plan.NoUID && !i.s.quiet {
		return ""
	}
	return b.uid
}

// networkClosed is what can be known about a network namespace.
func (i *inspector) networkClosed(b *sandbox) *bool {
	if !i.node.tells && !b.open && b.listed && b.retained {
		return nil
	}
	closed := !b.open
	return &closed
}

// namesRange reports whether its CNI cache names the range of its address, where the cache lacks the address.
func (b *sandbox) namesRange() bool { return b.id[0]%2 == 0 }

// ranges are those of its networks, each once.
func (b *sandbox) ranges() (all []v1alpha1.Network) {
	for _, a := range b.attachments {
		n := v1alpha1.Network{Range: a.of.cidr.String(), NetworkName: a.of.name}
		if !slices.Contains(all, n) {
			all = append(all, n)
		}
	}
	return all
}

// read is how many of its addresses are read where the CNI cache lacks some: none, or all but the last of several.
func (b *sandbox) read(addresses int) int {
	if b.id[1]%2 == 0 {
		return 0
	}
	return max(0, addresses-1)
}

// reported are its addresses in the CNI cache, each of which is written after its ADD.
func (b *sandbox) reported() (all []v1alpha1.Address) {
	for _, a := range b.attachments {
		if a.ip.IsValid() && (b.cached || b.open) {
			all = append(all, v1alpha1.Address{IP: a.ip.String(), IfName: a.ifName, Network: a.of.nad,
				Range: a.of.cidr.String(), NetworkName: a.of.name})
		}
	}
	return all
}

// lie makes the report claim that sandboxes which run elsewhere ended here, and that sandboxes which ended here never
// existed. It has the ids from the reports of other nodes.
func (i *inspector) lie(in *agent.Inspection) {
	for _, n := range i.s.nodes {
		for at, b := range n.sandboxes {
			if n == i.node || !i.read[b.id] && !i.s.reported(b) {
				continue
			}
			if i.read == nil {
				i.read = map[string]bool{}
			}
			i.read[b.id] = true
			closed := true
			switch at % 3 {
			case 0:
				in.Sandboxes = append(in.Sandboxes, agent.ListedSandbox{Sandbox: v1alpha1.Sandbox{
					ID: b.id, Namespace: b.pod.namespace, Name: b.pod.name, UID: b.uid, State: v1alpha1.SandboxNotReady,
					NetworkClosed: &closed,
				}})
			case 1:
				in.Attachments = append(in.Attachments, v1alpha1.Attachment{ID: b.id,
					Since: metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second)), NetworkClosed: &closed})
			default:
				in.Sandboxes = append(in.Sandboxes, agent.ListedSandbox{Sandbox: v1alpha1.Sandbox{
					ID: b.id, Namespace: b.pod.namespace, Name: b.pod.name, UID: "uid-of-nobody", State: v1alpha1.SandboxNotReady,
					NetworkClosed: &closed,
				}})
			}
		}
	}
}
