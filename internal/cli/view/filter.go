package view

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/suggest"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Filter picks items and findings. An empty field picks all. The values of one field are alternatives. A pool is
// "<namespace>/<name>", a name or a range. A pod namespace is that of a recorded pod. A node is one where the sandbox
// or the pod may be. A reason is that of a verdict, or the kind of a finding.
type Filter struct {
	Addresses     []netip.Addr    `json:"-"`
	Pools         []string        `json:"pools,omitempty"`
	PodNamespaces []string        `json:"podNamespaces,omitempty"`
	Nodes         []string        `json:"nodes,omitempty"`
	Verdicts      []judge.Verdict `json:"verdicts,omitempty"`
	Reasons       []string        `json:"reasons,omitempty"`
	// ProvenOnly picks proven items only.
	ProvenOnly bool `json:"provenOnly,omitempty"`
	// Has, HasPool and HasFinding report what else an item, a pool or a finding must be; nil for nothing.
	Has        func(*judge.Item) bool       `json:"-"`
	HasPool    func(ref string) bool        `json:"-"`
	HasFinding func(*findings.Finding) bool `json:"-"`
}

// Parse reads the values of flags into the filter. Verdicts and the reasons, which the filter has, may be in any case.
// The error for an unknown word says which one is meant, or lists the known ones.
func (f *Filter) Parse(addresses, verdicts []string) (err error) {
	f.Verdicts, err = words("verdict", verdicts, allVerdicts, "must be one of "+strings.Join(Verdicts(), ", "))
	if err != nil {
		return err
	}
	names, kinds := judge.ReasonNames(), Kinds()
	must := fmt.Sprintf("must be a reason (%s) or a finding (%s)", strings.Join(names, ", "), strings.Join(kinds, ", "))
	if f.Reasons, err = words("reason", f.Reasons, slices.Concat(names, kinds), must); err != nil {
		return err
	}
	for _, text := range addresses {
		addr, err := netip.ParseAddr(text)
		if err != nil {
			return fmt.Errorf("--address %q: must be an IP address", text)
		}
		f.Addresses = append(f.Addresses, addr.Unmap())
	}
	return nil
}

func mayMean[T ~string](typed string, known []T) string {
	return suggest.Question("", suggest.Words(typed, texts(known)...))
}

func words[T ~string](flag string, texts []string, known []T, must string) ([]T, error) {
	found := []T{}
	for _, text := range texts {
		i := slices.IndexFunc(known, func(k T) bool { return strings.EqualFold(string(k), strings.TrimSpace(text)) })
		if i < 0 {
			return nil, fmt.Errorf("--%s %q%s", flag, text, cmp.Or(mayMean(text, known), ": "+must))
		}
		found = append(found, known[i])
	}
	return found, nil
}

var allVerdicts = []judge.Verdict{judge.InUse, judge.Held, judge.Stale}

// Verdicts returns the names of all verdicts.
func Verdicts() []string { return texts(allVerdicts) }

// Kinds returns the names of all findings. Outages come first.
func Kinds() []string { return texts(findings.Kinds()) }

func texts[T ~string](words []T) (all []string) {
	for _, word := range words {
		all = append(all, string(word))
	}
	return all
}

func among[T comparable](asked []T, value T) bool {
	return len(asked) == 0 || slices.Contains(asked, value)
}

func anyOf[A, T any](asked []A, values []T, is func(T) bool) bool {
	return len(asked) == 0 || slices.ContainsFunc(values, is)
}

// IsZero reports whether the filter picks everything.
func (f Filter) IsZero() bool {
	return len(f.Addresses)+len(f.Pools)+len(f.PodNamespaces)+len(f.Nodes)+len(f.Verdicts)+len(f.Reasons) == 0 &&
		!f.ProvenOnly && f.Has == nil
}

// Pool reports whether the filter picks a pool, which is named "<namespace>/<name>".
func (f Filter) Pool(ref string) bool { return (f.HasPool == nil || f.HasPool(ref)) && f.isPool(ref) }

func (f Filter) isPool(ref string) bool {
	_, name, _ := strings.Cut(ref, "/")
	is := func(asked string) bool { return asked == ref || asked == name || isOfRange(asked, name) }
	return len(f.Pools) == 0 || slices.ContainsFunc(f.Pools, is)
}

// isOfRange reports whether text is a range and name is that of its pool, in any network and of any node's slice.
func isOfRange(text, name string) bool {
	r, err := ippool.ParseConfiguredRange(text)
	if err != nil || !strings.Contains(text, "/") {
		return false
	}
	plain := ippool.PoolName("", r)
	return name == plain || strings.HasSuffix(name, "-"+plain)
}

// Item reports whether the filter picks an item. A reservation belongs to the pools that have its address.
func (f Filter) Item(it *judge.Item) bool {
	return among(f.Addresses, it.Address()) && f.itemPool(it) && f.namespace(it.PodRef()) &&
		among(f.Verdicts, it.Verdict) && among(f.Reasons, it.Reason.String()) && (!f.ProvenOnly || it.Proven) &&
		(f.Has == nil || f.Has(it)) && (len(f.Nodes) == 0 || f.node(it))
}

func (f Filter) itemPool(it *judge.Item) bool {
	if it.Pool != nil {
		return f.isPool(it.Pool.Ref())
	}
	return anyOf(f.Pools, it.PoolNames(), func(p types.NamespacedName) bool { return f.isPool(p.String()) })
}

func (f Filter) namespace(podRef string) bool {
	namespace, _, _ := strings.Cut(podRef, "/")
	return among(f.PodNamespaces, namespace)
}

func (f Filter) node(it *judge.Item) bool {
	is := func(node string) bool { return among(f.Nodes, node) }
	e := it.Evidence()
	if it.Node() != "" || e == nil {
		return is(it.Node())
	}
	return anyOf(f.Nodes, e.Nodes, is) || slices.ContainsFunc(e.WithoutReport, is)
}

// Finding reports whether the filter picks a finding. A finding has no verdict: the reasons of the filter pick it by
// its kind. It is of a node if any of its pods and sandboxes is there, or may be.
func (f Filter) Finding(x *findings.Finding) bool {
	ofAddress := func(text string) bool {
		a, err := netip.ParseAddr(text)
		return err == nil && among(f.Addresses, a)
	}
	if x.IsRest() { // what it stands for may be anywhere
		return f.kind(x.Kind)
	}
	isNode := func(node string) bool { return slices.Contains(f.Nodes, node) }
	return (f.HasFinding == nil || f.HasFinding(x)) && anyOf(f.Addresses, strings.Split(x.IP, ","), ofAddress) &&
		anyOf(f.Pools, strings.Split(x.Pool, ","), f.isPool) &&
		(!x.NamesAll() || anyOf(f.PodNamespaces, x.Pods, f.namespace)) &&
		(len(f.Nodes) == 0 || x.MayBeOn(isNode)) && f.kind(x.Kind)
}

func (f Filter) kind(k findings.Kind) bool {
	return among(f.Reasons, string(k)) && (len(f.Verdicts) == 0 || len(f.Reasons) > 0)
}
