package sim

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/netip"
	"slices"
	"time"
)

// Plan is a history before it is played: the cluster and its events.
type Plan struct {
	Seed                         uint64
	Nodes, Pods, Nets, Apart     int
	Agents                       int // bits: which nodes have one; none at all is a cluster without agents
	Liar                         int // the node whose agent lies, from 1; 0 for none
	Serve, Repair                bool
	Replicas                     int
	Every, Confirm, Window, Warm time.Duration
	Faults                       int // of a thousand requests
	NoStatus                     int // of a hundred pods have no network-status
	Skew, NodeSkew               time.Duration
	Steps                        []Step
	Unreachable                  time.Duration // --unreachable-node-timeout
	Trust                        bool          // --trust-network-status
	Unread, NoUID                bool          // reports are incomplete: without addresses, without UIDs
	V6                           bool          // networks of IPv6
	// the second network has of the first: 1 its pool, 2 its name and a range around its own
	Shared    int
	Unchecked bool          // networks that switch the check for overlapping ranges off
	Busy      bool          // after all is healed, ordinary events continue, and old leaks must be released all the same
	Long      bool          // it continues until earlier pods should be gone
	Latency   time.Duration // of a request, at most
	Visits    bool          // machines join and leave during the final wait
	Patient   bool          // all the time passes at the end, even if everything is settled
	Second    int           // bits: which pods have a second interface, in the next network, or again in the only one
	Mixed     bool          // the second network is of the other family than the first
	Sliced    int           // bits: which networks have a node_slice_size
	Upstream  bool          // whereabouts' own reconciler releases, and the history ends without quiet
	Quiet     bool          // no trace
	Requests  bool          // the trace has every request and its answer
	Log       *slog.Logger  `json:"-"`
	EachHour  func()        `json:"-"`
}

// Step is one event.
type Step struct {
	Gap time.Duration // after the step before
	// 1: just before the product's next write is done, 2: just after it, 3: just before whereabouts' next
	OnWrite int
	Kind    int // which of kinds()
	A, B    int // its target
}

func (x Step) String() string {
	when := fmt.Sprintf("%s later", x.Gap)
	switch x.OnWrite {
	case 1:
		when += ", before the product's next write"
	case 2:
		when += ", after the product's next write"
	case 3:
		when += ", before the next write of whereabouts"
	}
	return fmt.Sprintf("%s: %s (%d, %d)", when, kinds()[x.Kind].name, x.A, x.B)
}

// NewPlan draws a plan.
func NewPlan(seed uint64) *Plan {
	r := newRand(seed)
	one := func(of int) bool { return r.IntN(of) == 0 }
	large := one(4) // most failures need little
	most := func(small, all int) int {
		if large {
			return 1 + r.IntN(all)
		}
		return 1 + r.IntN(small)
	}
	p := &Plan{
		Seed: seed, Nodes: most(2, maxNodes), Pods: most(2, 5), Nets: most(1, 2), Apart: r.IntN(2), Replicas: 1,
		Repair: !one(4), Serve: one(serveOneIn),
		Every: time.Duration(35+r.IntN(60)) * time.Second, Confirm: time.Duration(60+r.IntN(30)) * time.Second,
		Window: time.Duration(r.IntN(20)) * time.Second,
		Warm:   time.Duration(2+r.IntN(20)) * time.Second, Faults: []int{0, 5, 30, 150}[r.IntN(4)],
	}
	p.Agents = 1<<p.Nodes - 1
	switch r.IntN(10) {
	case 0:
		p.Agents = 0
	case 1:
		p.Agents = r.IntN(1 << p.Nodes)
	}
	if one(4) {
		p.Replicas = 2
	}
	if one(5) {
		p.NoStatus = 30
	}
	if one(4) {
		p.Skew = []time.Duration{time.Second, 8 * time.Second, -8 * time.Second}[r.IntN(3)]
	}
	if one(3) {
		p.NodeSkew = []time.Duration{time.Minute, time.Hour}[r.IntN(2)]
	}
	if p.Agents != 0 && p.Nodes > 1 && one(8) {
		p.Liar = 1 + r.IntN(p.Nodes)
	}
	if one(3) {
		p.Latency = []time.Duration{20 * time.Millisecond, 300 * time.Millisecond}[r.IntN(2)]
	}
	if one(10) || p.Agents == 0 && one(3) {
		p.Unreachable = 30 * time.Second
	}
	if one(6) {
		p.Window = time.Duration(20+r.IntN(40)) * time.Second
	}
	p.Unread, p.NoUID, p.Long = one(12), one(12), one(40)
	p.Patient, p.Visits = one(6), one(6)
	total := 0
	for _, k := range kinds() {
		total += k.weight
	}
	for range 2 + most(6, 14) {
		x := Step{Gap: p.gap(r.IntN(10), r.Float64()), A: r.IntN(8), B: r.IntN(8)}
		if one(3) {
			x.OnWrite = 1 + r.IntN(3)
		}
		for at := r.IntN(total); ; x.Kind++ {
			if at -= kinds()[x.Kind].weight; at < 0 {
				break
			}
		}
		p.Steps = append(p.Steps, x)
	}
	p.V6 = one(6)
	if p.Unchecked = one(8); p.Nets > 1 && one(2) {
		p.Shared = 1 + r.IntN(2)
	}
	p.Busy = one(6)
	p.Trust = p.Agents == 0 && one(2)
	if one(4) {
		p.drawSecond(r)
	}
	if one(6) && !p.V6 { // whereabouts cannot slice a range of IPv6
		p.drawSliced(r)
	}
	switch r.IntN(30) {
	case 0:
		p.drawUnseen(r)
	case 1:
		p.drawWaiting(r)
	case 2:
		p.drawAdopted(r)
	case 3:
		p.drawJoined(r)
	}
	p.drawRemovals()
	p.drawEdits()
	return p
}

// whileWaiting is the step that only plans of drawWaiting have.
const whileWaiting = "a node is back while a release waits"

// drawWaiting has nodes come back that an operator has given up, while a release waits for whereabouts' Lease.
func (p *Plan) drawWaiting(r *rand.Rand) {
	p.Unreachable, p.Agents, p.Liar, p.Trust = 30*time.Second, 1<<p.Nodes-1, 0, false
	p.Steps = p.Steps[:min(len(p.Steps), 4)]
	for range 2 {
		p.Steps[r.IntN(len(p.Steps))].Kind = kindOf(whileWaiting)
	}
}

func kindOf(name string) int {
	return slices.IndexFunc(kinds(), func(k stepKind) bool { return k.name == name })
}

// unseen is the step that only plans of drawUnseen have.
const unseen = "a pod starts unseen"

// drawUnseen has pods start while the watches of pods stand still, for longer than confirmation takes. Without agents
// and until the next full pass, only the second check finds them.
func (p *Plan) drawUnseen(r *rand.Rand) {
	p.Serve, p.Agents, p.Liar, p.Every = true, 0, 0, 5*time.Minute
	p.Steps = p.Steps[:min(len(p.Steps), 4)]
	for range 2 {
		p.Steps[r.IntN(len(p.Steps))].Kind = kindOf(unseen)
	}
}

// drawSliced gives networks of IPv4 slices. Two that share a pool have the same, or the node-slice controller rejects
// them.
func (p *Plan) drawSliced(r *rand.Rand) {
	switch p.Sliced = 1 + r.IntN(1<<p.Nets-1); {
	case p.Shared > 0:
		p.Shared, p.Sliced = 1, 3
	case p.Mixed:
		p.Sliced = 1
	}
	if r.IntN(2) == 0 {
		p.Steps[r.IntN(len(p.Steps))].Kind = kindOf(slicedAgain)
	}
}

// drawSecond gives pods a second interface: in the same network, in another one of the same pool, in a range apart, or
// of the other family.
func (p *Plan) drawSecond(r *rand.Rand) {
	p.Second = 1 + r.IntN(1<<p.Pods-1)
	if p.Nets > 1 || r.IntN(2) == 0 {
		return
	}
	p.Nets = 2
	switch r.IntN(4) {
	case 0:
		p.Shared = 1
	case 1, 2:
		p.Mixed = true
	}
}

// network is one of the plan's.
func (p *Plan) network(i int) *network {
	nad, name, third, bits := fmt.Sprint("net-", i), []string{"", "red", "blue"}[i], i*p.Apart, 26
	if p.Shared > 0 {
		name, third = []string{"", "", "blue"}[i], 0
	}
	if p.Shared == 2 && i == 1 {
		bits = 25
	}
	if p.Sliced>>i&1 == 1 {
		bits = 25
	}
	cidr := fmt.Sprintf("10.0.%d.0/%d", third, bits)
	if p.V6 != (p.Mixed && i == 1) {
		cidr = fmt.Sprintf("fd00:10:%d::/%d", third, bits+96)
	}
	n := newNetwork(nad, name, netip.MustParsePrefix(cidr), p.Unchecked)
	if p.Sliced>>i&1 == 1 {
		n.pool, n.sliceBits = key{}, bits+2
	}
	return n
}

// serveOneIn: serve pings once a second, and costs ten times as much as a one-shot run.
const serveOneIn = 12

func (p *Plan) gap(kind int, part float64) time.Duration {
	longest := 8 * time.Second
	if p.Long && kind < 4 {
		kind, longest = 4, 10*time.Minute
	}
	switch kind {
	case 0:
		longest = 100 * time.Second
	case 1, 2, 3:
		longest = 300 * time.Millisecond
	}
	return time.Duration(part * float64(longest)).Round(time.Millisecond)
}
