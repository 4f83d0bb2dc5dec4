// Package sim plays histories of a small cluster, each from a seed, and drives the product's own code through them: the
// one-shot reconciler and serve with its watches, Leases and fence, the node agents' loop, reports and writes. The API
// server, kubelets and runtimes are models; addresses are handed out by whereabouts' own code.
//
// Everything runs in a testing/synctest bubble, so that time is simulated. Every request of every process comes to one
// place (schedule.go), where it waits until all goroutines are blocked; then one of those that wait is drawn by the
// seed and answered (apiserver.go), or fails (faults). Between any two requests other things happen (steps.go).
// Invariants are checked at each write (invariants.go), and after a quiet time at the end.
package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"
	_ "unsafe" // for go:linkname

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// jitterRand is where client-go's elections and watches draw their pauses.
//
//go:linkname jitterRand k8s.io/apimachinery/pkg/util/wait.jitterRand
var jitterRand func() float64

// Simulation is one history as it is played.
type Simulation struct {
	plan    *Plan
	rng     *rand.Rand
	plugins *plugins
	began   time.Time
	ctx     context.Context

	calls    chan *call
	posted   chan post
	arrivals []*call // since calls were taken
	results  []post  // the same
	waiting  []*call
	events   []event // by their times
	faults   []fault
	faulty   bool
	away     bool // the API server is
	// deniesUntil is until when the API server, which has started, denies some requests.
	deniesUntil time.Time
	running     int // goroutines of processes, calls of whereabouts among them

	api      *fakeapi.Server
	skew     time.Duration // of the API server's clock that answers
	skews    []time.Duration
	backup   *fakeapi.Backup
	writer   *client   // whose request is being answered
	asked    time.Time // when it arrived; it may be performed much later
	detected time.Time // the restore that the writer knew of when it arrived

	nodes       []*node
	pods        []*podName
	machines    []*machine
	nets        []*network // by their definitions
	ranges      []*network // by their pools: those of nets without slices, and each slice that a node has had
	versions    []*network // of edited definitions, each as some ADD could read it
	follows     bool       // ADDs follow the definitions in the API
	slicing     bool       // the node-slice controller is about to act
	replicas    []*replica
	armed       *Step     // happens at the product's next write
	beforeWrite func()    // the same, of a story
	atLease     bool      // or when the product takes the Lease
	wanted      time.Time // when the product read the Lease of whereabouts last, to take it
	late        key       // a reservation whose next delete by the product arrives late
	inStory     bool      // the next step waits
	// take may take over a request of the product before it is done, and reports whether it has.
	take        func(*call) bool
	stepped     int
	uids, ids   int
	starts      int
	clients     int
	requests    int
	kills       int
	visits      int                  // of machines that joined and were removed
	early       map[string]bool      // whether each joined after a restore that no process had detected yet
	joined      map[string]time.Time // when each joined that did after a restore
	quiet       bool
	restoring   bool            // etcd is
	forbidden   map[string]bool // the resources that RBAC forbids the product
	withheld    *withheld       // nil for none
	massRelease bool            // an operator allows it
	restores    []time.Time     // when etcd was restored
	wentAt      []time.Time     // etcd, for each restore of the last backup that was restored
	restoredAt  time.Time       // the last time
	isHidden    bool            // the last restore shows in no version that a replica reads which does not lead
	// detectedBefore is the newest restore that a process knew of when etcd stopped the last time.
	detectedBefore time.Time
	given          map[given]bool       // by ADDs, also of machines that are gone
	endedAt        map[string]time.Time // when each sandbox's network namespace was closed

	last   *reconciler.Result // of the last pass; of one-shot runs only
	lastAt time.Time
	owed   map[key]*debt
	// removals are what passes have removed whose results are not known yet; without those of serve.
	removals []removal
	renewed  map[key]time.Time         // whereabouts' Leases, by anybody
	fenced   time.Time                 // when a fence took the shared one last
	cleared  map[leaseHolder]time.Time // when what an ADD or a DEL cleared was renewed last

	trace     []string
	digest    uint32 // of every request and answer, and their times
	violation string
	counts    map[string]int
}

// given is an address that an ADD assigned to a sandbox.
type given struct {
	sandbox string
	pool    key
	ip      netip.Addr
}

// Outcome is the result of a history.
type Outcome struct {
	// Violation is the invariant that was broken, "" for none.
	Violation string
	Trace     []string
	// Digest is of every request and answer, in their order and with their times.
	Digest uint32
	// Counts are how often each thing happened.
	Counts map[string]int
}

// Player plays histories one after the other. It is for one goroutine.
type Player struct{ plugins plugins }

// maxNodes is the most that a plan has.
const maxNodes = 3

// Play plays the history of a plan.
func (p *Player) Play(t *testing.T, plan *Plan) *Outcome {
	s := &Simulation{plan: plan, rng: newRand(plan.Seed), plugins: &p.plugins, counts: map[string]int{}, faults: faults(),
		owed: map[key]*debt{}, given: map[given]bool{}, early: map[string]bool{}, joined: map[string]time.Time{},
		endedAt: map[string]time.Time{}, renewed: map[key]time.Time{}, cleared: map[leaseHolder]time.Time{},
		forbidden: map[string]bool{}, follows: plan.edits()}
	jitterRand = func() float64 { // several goroutines that draw from one source would do so in any order
		return rand.New(rand.NewPCG(plan.Seed, uint64(time.Now().UnixNano()))).Float64()
	}
	if plan.Sliced > 0 && p.plugins.names == "" {
		if err := p.plugins.writeNames(t.TempDir(), maxNodes); err != nil {
			t.Fatal(err)
		}
	}
	synctest.Test(t, func(*testing.T) { s.play() })
	return &Outcome{Violation: s.violation, Trace: s.trace, Digest: s.digest, Counts: s.counts}
}

func (s *Simulation) play() {
	ctx, stop := context.WithCancel(context.Background())
	s.ctx, s.began = ctx, time.Now()
	s.calls, s.posted = make(chan *call, 4096), make(chan post, 4096)
	s.skews = []time.Duration{0, s.plan.Skew}
	s.api = &fakeapi.Server{Store: fakeapi.NewStore(), Now: func() time.Time { return time.Now().Add(s.skew) }}
	s.api.Changed = s.stored
	s.setUp()
	s.eachHour()
	s.faulty = true
	s.nextStep()
	for s.violation == "" && (s.stepped < len(s.plan.Steps) || s.inStory) {
		s.runUntil(time.Now().Add(2 * time.Second))
	}
	if s.violation == "" && !s.plan.Upstream {
		s.settle()
	}
	s.end(stop)
}

func (s *Simulation) eachHour() {
	if s.plan.EachHour != nil {
		s.unlessQuiet(time.Hour, func() { s.plan.EachHour(); s.eachHour() })
	}
}

// setUp creates the initial state: nodes, definitions, pools by whereabouts' first ADD, agents, and the product.
func (s *Simulation) setUp() {
	for _, name := range []string{ownNamespace, kubeSystem} {
		s.api.Put(fakeapi.At(fakeapi.Namespaces, "", name), map[string]any{"apiVersion": "v1", "kind": "Namespace"},
			s.api.Now(), "setup")
	}
	for i := range s.plan.Nets {
		s.nets = append(s.nets, s.plan.network(i))
		s.defineNetwork(s.nets[i])
		if s.nets[i].sliceBits == 0 {
			s.ranges = append(s.ranges, s.nets[i])
		}
	}
	for i := range s.plan.Nodes {
		n := &node{name: fmt.Sprintf("n%d", i), up: true, linked: true, kubelet: true, hasAgent: s.plan.Agents>>i&1 == 1,
			tells: s.chance(70), skew: s.between(-s.plan.NodeSkew, s.plan.NodeSkew)}
		n.lies = s.plan.Liar == i+1
		s.nodes = append(s.nodes, n)
		s.publishNode(n)
	}
	s.sliceAll()
	for i := range s.plan.Pods {
		p := &podName{namespace: podNamespace, name: fmt.Sprintf("p-%d", i), nets: []*network{s.nets[i%len(s.nets)]}}
		if s.plan.Second>>i&1 == 1 {
			p.nets = append(p.nets, s.nets[(i+1)%len(s.nets)])
		}
		s.pods = append(s.pods, p)
	}
	// A pod without events: the product rejects an API server without pods.
	s.api.Put(fakeapi.At(fakeapi.Pods, kubeSystem, "other"), map[string]any{"apiVersion": "v1", "kind": "Pod",
		"spec": map[string]any{"nodeName": "n0", "hostNetwork": true}, "status": map[string]any{"phase": "Running"}},
		s.api.Now(), "setup")
	for i, p := range s.pods {
		s.makePod(p, s.nodes[i%len(s.nodes)])
	}
	s.syncAll()
	for _, n := range s.nodes {
		s.startAgent(n)
	}
	s.replicas = make([]*replica, s.plan.Replicas)
	for i := range s.replicas {
		s.startReplica(i)
	}
	s.runUntil(time.Now().Add(s.plan.Warm))
	s.saveBackup()
}

func (s *Simulation) defineNetwork(n *network) {
	s.api.Put(fakeapi.At(fakeapi.NADs, podNamespace, n.nad), map[string]any{"apiVersion": "k8s.cni.cncf.io/v1",
		"kind": "NetworkAttachmentDefinition", "spec": map[string]any{"config": n.config()}}, s.api.Now(), "user")
}

func (s *Simulation) newClient(name string, n *node) *client {
	s.clients++
	return &client{s: s, name: name, id: s.clients, node: n}
}

func metaName(namespace, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: namespace, Name: name}
}

// end ends every process, and answers pending calls.
func (s *Simulation) end(stop context.CancelFunc) {
	stop()
	for _, n := range s.nodes {
		n.agent.stop()
		for _, b := range n.sandboxes {
			if b.process != nil {
				b.process.killed.Store(true)
			}
		}
	}
	for _, r := range s.replicas {
		r.kill()
	}
	s.api.CutWatches("")
	s.away = true
	began := time.Now()
	// An elector's goroutines are not counted: they end within the time for rollbacks.
	for time.Since(began) < 2*time.Minute || s.running > 0 && time.Since(began) < time.Hour {
		synctest.Wait()
		s.takePosts()
		s.takeCalls()
		for _, w := range s.waiting {
			w.reply(fakeapi.Answer{Err: errCut})
		}
		s.waiting = nil
		s.sleepUntil(time.Now().Add(5 * time.Second))
	}
}

// start runs a part of a process; the history ends when all have ended.
func (s *Simulation) start(part func()) {
	s.running++
	go func() {
		defer func() { s.posted <- post{do: func() { s.running-- }} }()
		part()
	}()
}
