package report

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Filter is what of a cluster is asked for. An empty field asks for all; the values of
// one field are alternatives.
type Filter struct {
	Addresses     []netip.Addr
	Pools         []string        // "<namespace>/<name>", or a name alone
	PodNamespaces []string        // of the pods that are recorded
	Nodes         []string        // on which the sandbox may be, or the pod is
	Verdicts      []judge.Verdict // of allocations and reservations
	Reasons       []string        // of verdicts, or kinds of findings
}

// NewFilter reads the values of the flags. Verdicts and reasons may be in any case; one
// that does not exist is an error, which names those that do.
func NewFilter(pools, podNamespaces, nodes, verdicts, reasons []string) (Filter, error) {
	f := Filter{Pools: pools, PodNamespaces: podNamespaces, Nodes: nodes}
	for _, text := range verdicts {
		v, ok := fold(text, Verdicts())
		if !ok {
			return f, fmt.Errorf("--verdict %q: must be one of %s", text, strings.Join(Verdicts(), ", "))
		}
		var verdict judge.Verdict
		if err := verdict.UnmarshalText([]byte(v)); err != nil {
			return f, fmt.Errorf("--verdict: %w", err)
		}
		f.Verdicts = append(f.Verdicts, verdict)
	}
	known := slices.Concat(judge.ReasonNames(), Kinds())
	for _, text := range reasons {
		r, ok := fold(text, known)
		if !ok {
			return f, fmt.Errorf("--reason %q: must be a reason (%s) or a finding (%s)", text, strings.Join(judge.ReasonNames(), ", "), strings.Join(Kinds(), ", "))
		}
		f.Reasons = append(f.Reasons, r)
	}
	return f, nil
}

// Verdicts are the names of all verdicts.
func Verdicts() []string {
	return []string{judge.InUse.String(), judge.Held.String(), judge.Stale.String()}
}

// Kinds are the names of all findings, what is an outage first.
func Kinds() []string {
	var names []string
	for _, k := range judge.Kinds() {
		names = append(names, string(k))
	}
	return names
}

func fold(text string, known []string) (string, bool) {
	i := slices.IndexFunc(known, func(k string) bool { return strings.EqualFold(k, text) })
	if i < 0 {
		return "", false
	}
	return known[i], true
}

// IsZero reports whether it asks for everything.
func (f Filter) IsZero() bool {
	return len(f.Addresses)+len(f.Pools)+len(f.PodNamespaces)+len(f.Nodes)+len(f.Verdicts)+len(f.Reasons) == 0
}

// Pool reports whether a pool, as "<namespace>/<name>", is asked for.
func (f Filter) Pool(ref string) bool {
	return len(f.Pools) == 0 || slices.ContainsFunc(f.Pools, func(p string) bool {
		_, name, _ := strings.Cut(ref, "/")
		return p == ref || p == name || isOfRange(p, name)
	})
}

// isOfRange reports whether a text is a range, and the name that of a pool of it: of whichever network,
// or a node's slice.
func isOfRange(text, name string) bool {
	r, err := ippool.ParseConfiguredRange(text)
	if err != nil || !strings.Contains(text, "/") {
		return false
	}
	plain := ippool.PoolName("", r)
	return name == plain || strings.HasSuffix(name, "-"+plain)
}

// Item reports whether an item is asked for. A reservation is of the pools that have its
// address.
func (f Filter) Item(it *judge.Item) bool {
	return f.address(it.Address()) && f.itemPool(it) && f.namespace(it.PodRef()) && f.node(it) &&
		(len(f.Verdicts) == 0 || slices.Contains(f.Verdicts, it.Verdict)) &&
		(len(f.Reasons) == 0 || slices.Contains(f.Reasons, it.Reason.String()))
}

func (f Filter) address(a netip.Addr) bool {
	return len(f.Addresses) == 0 || slices.Contains(f.Addresses, a)
}

func (f Filter) itemPool(it *judge.Item) bool {
	if len(f.Pools) == 0 {
		return true
	}
	if it.Pool != nil {
		return f.Pool(it.Pool.Ref())
	}
	return slices.ContainsFunc(it.PoolNames(), func(p types.NamespacedName) bool { return f.Pool(p.String()) })
}

func (f Filter) namespace(podRef string) bool {
	namespace, _, _ := strings.Cut(podRef, "/")
	return len(f.PodNamespaces) == 0 || slices.Contains(f.PodNamespaces, namespace)
}

func (f Filter) node(it *judge.Item) bool {
	if len(f.Nodes) == 0 {
		return true
	}
	is := func(node string) bool { return slices.Contains(f.Nodes, node) }
	e := it.Evidence()
	if it.Node() != "" || e == nil {
		return is(it.Node())
	}
	return slices.ContainsFunc(e.Nodes, is) || slices.ContainsFunc(e.WithoutReport, is)
}

// Finding reports whether a finding is asked for. A finding has no verdict: it is asked
// for by its kind, as a reason, or where none of them is. An address that is
// in use and of no single node may be of any.
func (f Filter) Finding(x *judge.Finding) bool {
	ofAddress := func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err == nil && f.address(a)
	}
	switch {
	case len(f.Addresses) > 0 && !slices.ContainsFunc(strings.Split(x.IP, ","), ofAddress):
		return false
	case len(f.Reasons) > 0 && !slices.Contains(f.Reasons, string(x.Kind)):
		return false
	case len(f.Reasons) == 0 && len(f.Verdicts) > 0:
		return false
	case len(f.Nodes) > 0 && !slices.Contains(f.Nodes, x.Node) && (x.Node != "" || x.Kind != judge.Conflict && x.Kind != judge.Unrecorded):
		return false
	case len(f.Pools) > 0 && !slices.ContainsFunc(strings.Split(x.Pool, ","), f.Pool):
		return false
	}
	return len(f.PodNamespaces) == 0 || slices.ContainsFunc(x.Pods, f.namespace)
}
