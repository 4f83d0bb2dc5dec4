package reconciler

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"time"

	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// A truth is a small cluster as it really is. What the API and the agents report
// of it follows from what happens there, by what runtimes, kubelet, whereabouts
// and agents promise.
type truth struct {
	now       time.Time
	nodes     []*machine
	nets      []*trueNet
	pods      map[string]*truePod // as the API has them
	sandboxes []*trueSandbox
	reserved  map[string]*trueReservation
	past      *History
	seen      map[*trueSandbox]bool // by a pass: its pod carried its address there
	log       []string
	uids      int
}

// A machine is a node, and what the API and its agent say of it.
type machine struct {
	name                 string
	selected             bool // by --agent-nodes
	object               bool // there is a Node object
	up, connected, agent bool
	tainted              bool
	boot, apiBoot        int
	notReady             time.Time
	held                 []*held
	report               *v1alpha1.SandboxReport // nil: there is none
	heard                time.Time               // when its Lease was renewed last
}

// A trueNet is a network of whereabouts, one pool or one for each node.
type trueNet struct {
	name   string
	sliced bool
	nad    int // readable, unreadable, none
	third  int // byte of its addresses
	pools  map[string]*truePool
}

type truePool struct {
	net     *trueNet
	name    string
	prefix  netip.Prefix
	entries map[int]Allocation
}

type truePod struct {
	name, uid, phase string
	node             *machine // nil: not bound
	ips              []string // in its network-status; nil: it has none
	created, deleted time.Time
	stopped          time.Time // kubelet says that its containers are
}

// A trueBox is a sandbox: while it is open, its address is in use.
type trueSandbox struct {
	id, pod, uid string
	node         *machine
	pool         *truePool
	ip           string
	added        time.Time
	open         bool
}

// held is what a runtime and the CNI caches of a machine have of a sandbox.
type held struct {
	sandbox               *trueSandbox
	listed, ready, cached bool
	copied                bool // by cloning the machine that runs it
	closed                bool
	reportsNetwork        bool // something reports whether the network is closed
	since                 time.Time
}

type trueReservation struct {
	pod   string
	since time.Time
	pool  *truePool
	ip    string
}

// names are what nodes and networks are called.
type names struct{ nodes, nets []string }

var (
	apart     = names{[]string{"n-0", "n-1", "n-2", "n-3"}, []string{"", "blue", "green"}}
	colliding = names{[]string{"a-b", "b", "a", "red"}, []string{"", "red", "a-b"}}
)

// A plot is how a truth is set up, and what happens there.
type plot struct {
	Nodes, Nets int
	Agents      int // bits: which nodes have none
	Selects     int // bits: which nodes the operator leaves out
	SameRange   bool
	Sliced      int  // bits: which networks
	NADs        int  // three for each network
	Heard       bool // whoever can is heard at the end
	Steps       []step
}

type step struct{ What, Who, Where, How int }

func (s step) String() string { return fmt.Sprintf("{%d,%d,%d,%d}", s.What, s.Who, s.Where, s.How) }

// plots draws plots of up to so many steps.
func plots(steps int) *rapid.Generator[plot] {
	// Bits are drawn one by one, since rapid prefers small numbers.
	bits := func(t *rapid.T, what string, n int) (drawn int) {
		for range n {
			if drawn <<= 1; rapid.Bool().Draw(t, what) {
				drawn++
			}
		}
		return drawn
	}
	one := rapid.Custom(func(t *rapid.T) step {
		return step{bits(t, "what", 5), bits(t, "who", 2) % 3, bits(t, "where", 2), bits(t, "how", 2)}
	})
	return rapid.Custom(func(t *rapid.T) plot {
		p := plot{Nodes: 1 + bits(t, "nodes", 2), Nets: 1 + bits(t, "nets", 2)%3, SameRange: bits(t, "same range", 1) == 1, NADs: bits(t, "definitions", 5) % 27, Heard: bits(t, "heard at the end", 2) > 0}
		if bits(t, "sliced", 1) == 1 {
			p.Sliced = bits(t, "sliced", 3)
		}
		if bits(t, "wrong selector", 2) == 3 {
			p.Selects = bits(t, "left out", 4)
		}
		if bits(t, "agents missing", 2) == 3 {
			p.Agents = bits(t, "without agent", 4)
		}
		for range steps {
			if s := one.Draw(t, "step"); bits(t, "happens", 2) > 0 {
				p.Steps = append(p.Steps, s)
			}
		}
		return p
	})
}

func newTruth(p plot, called names) *truth {
	w := &truth{now: Now, pods: map[string]*truePod{}, reserved: map[string]*trueReservation{}, past: NewHistory(), seen: map[*trueSandbox]bool{}}
	for i := range p.Nodes {
		w.nodes = append(w.nodes, &machine{name: called.nodes[i], selected: p.Selects>>i&1 == 0, agent: p.Agents>>i&1 == 0, object: true, up: true, connected: true})
	}
	nads := p.NADs
	for i := range p.Nets {
		n := &trueNet{name: called.nets[i], sliced: p.Sliced>>i&1 == 1, nad: nads % 3, pools: map[string]*truePool{}}
		if n.sliced {
			n.nad = 0
		}
		nads /= 3
		if !p.SameRange {
			n.third = i
		}
		w.nets = append(w.nets, n)
		if !n.sliced {
			n.addPool("", 0)
			continue
		}
		for at, m := range w.nodes {
			n.addPool(m.name, at)
		}
	}
	w.agentsInspect()
	return w
}

func (n *trueNet) addPool(node string, at int) {
	cidr, name := fmt.Sprintf("10.0.%d.0/24", n.third), n.name
	if node != "" {
		cidr, name = fmt.Sprintf("10.0.%d.%d/28", n.third, 16*at), node
		if n.name != "" {
			name = n.name + "-" + node
		}
	}
	prefix := netip.MustParsePrefix(cidr)
	if name != "" {
		name += "-"
	}
	name += prefix.Addr().String() + "-" + fmt.Sprint(prefix.Bits())
	n.pools[node] = &truePool{net: n, name: name, prefix: prefix, entries: map[int]Allocation{}}
}

// poolOn is the pool that ADD takes on a node.
func (n *trueNet) poolOn(m *machine) *truePool {
	if n.sliced {
		return n.pools[m.name]
	}
	return n.pools[""]
}

func (w *truth) pools() []*truePool {
	var all []*truePool
	for _, n := range w.nets {
		all = append(all, slices.Collect(maps.Values(n.pools))...)
	}
	slices.SortFunc(all, func(a, b *truePool) int { return strings.Compare(a.name, b.name) })
	return all
}

func (p *truePool) addressOf(key int) string {
	a := p.prefix.Addr().As4()
	a[3] += byte(key)
	return netip.AddrFrom4(a).String()
}

func (w *truth) say(format string, args ...any) {
	w.log = append(w.log, fmt.Sprintf("%6s  ", w.now.Sub(Now).Round(time.Second))+fmt.Sprintf(format, args...))
}
