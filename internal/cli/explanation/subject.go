package explanation

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Kind is what a Subject is.
type Kind string

const (
	Address Kind = "Address"
	Pod     Kind = "Pod"
	Node    Kind = "Node"
	Pool    Kind = "Pool"
)

// Subject is what is explained.
type Subject struct {
	Kind Kind
	// Address is set for the kind Address.
	Address netip.Addr
	// Namespace and Name are those of the object. A pool's namespace is "" for any.
	Namespace, Name string
	// Range picks pools by their range instead of by name. The zero Prefix picks none.
	Range netip.Prefix
}

// ParseSubject parses a subject. The error lists the forms.
func ParseSubject(text string) (Subject, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return Subject{Kind: Address, Address: addr.Unmap().WithZone("")}, nil
	}
	if r, err := ippool.ParseRange(strings.TrimPrefix(text, "pool/")); err == nil {
		return Subject{Kind: Pool, Range: r.Prefix()}, nil
	}
	s, ok := Subject{}, false
	switch kind, name, _ := strings.Cut(text, "/"); kind {
	case "node":
		s, ok = Subject{Kind: Node, Name: name}, name != "" && !strings.Contains(name, "/")
	case "pool":
		s, ok = Subject{Kind: Pool, Name: name}, name != ""
		if namespace, rest, both := strings.Cut(name, "/"); both {
			s.Namespace, s.Name = namespace, rest
			ok = namespace != "" && rest != "" && !strings.Contains(rest, "/")
		}
	default: // also the podref of a phantom pod
		ref, err := ippool.ParsePodRef(strings.TrimPrefix(text, "pod/"))
		s, ok = Subject{Kind: Pod, Namespace: ref.Namespace, Name: ref.Name}, err == nil
	}
	if !ok {
		return Subject{}, fmt.Errorf("%q: must be an IP address (10.0.0.7), a pod (default/web-0, pod/default/web-0), "+
			"a node (node/worker-1) or a pool (pool/10.0.0.0-24, or its range 10.0.0.0/24)", text)
	}
	return s, nil
}

func (s Subject) String() string {
	switch {
	case s.Kind == Address:
		return s.Address.String()
	case s.Kind == Node:
		return "node/" + s.Name
	case s.Kind == Pod:
		return "pod/" + s.ref()
	case s.Range.IsValid():
		return s.Range.String()
	case s.Namespace == "":
		return "pool/" + s.Name
	}
	return "pool/" + s.ref()
}

func (s Subject) ref() string { return s.Namespace + "/" + s.Name }

func (s Subject) isPool(p *ippool.Pool) bool {
	if s.Range.IsValid() {
		return p.Problem == "" && p.Range.Prefix() == s.Range
	}
	return p.Name == s.Name && (s.Namespace == "" || p.Namespace == s.Namespace)
}

// Has reports whether a record is about an address, a pod or a pool. Records do not name nodes.
func (s Subject) Has(r *audit.Record) bool {
	addr, _ := netip.ParseAddr(r.IP)
	owner, _ := ippool.ParsePodRef(r.PodRef)
	return s.Is(addr, owner, r.Pool)
}

// Is reports whether an address, the pod that it is recorded for or its pool is the subject.
func (s Subject) Is(addr netip.Addr, owner ippool.PodRef, pool string) bool {
	switch s.Kind {
	case Address:
		return addr == s.Address
	case Pod:
		return owner.Namespace == s.Namespace && owner.Name == s.Name
	case Pool:
		namespace, name, _ := strings.Cut(pool, "/")
		return s.Range.Contains(addr) || name != "" && name == s.Name && (s.Namespace == "" || namespace == s.Namespace)
	}
	return false
}

// pick picks the parts of a judgement that are about a subject, with the pools of the items.
func pick(j *judge.Judgement, s Subject, pods []document.ExplainedPod) *report.Filter {
	items, refs := map[judge.ID]bool{}, map[string]bool{}
	f := &report.Filter{
		HasPool: func(ref string) bool { return refs[ref] },
		Has:     func(it *judge.Item) bool { return items[it.ID()] },
	}
	for _, p := range j.Observation.Pools {
		refs[p.Ref()] = s.Kind == Pool && s.isPool(p) || s.Kind == Address && p.Problem == "" &&
			p.Range.Contains(s.Address)
	}
	is := func(*judge.Item) bool { return true }
	switch s.Kind {
	case Address:
		j = j.About(s.Address)
		f.HasFinding = func(x *judge.Finding) bool { return slices.Contains(strings.Split(x.IP, ","), s.Address.String()) }
	case Pod:
		is, f.HasFinding = ofPod(s, pods)
	case Node:
		is, f.HasFinding = report.Filter{Nodes: []string{s.Name}}.Item, ofNode(j, s.Name)
	case Pool:
		is = func(it *judge.Item) bool {
			isPicked := func(p types.NamespacedName) bool { return refs[p.String()] }
			return it.Pool != nil && refs[it.Object()] || it.Pool == nil && slices.ContainsFunc(it.PoolNames(), isPicked)
		}
		f.HasFinding = func(x *judge.Finding) bool { return slices.ContainsFunc(strings.Split(x.Pool, ","), f.HasPool) }
	}
	holds := map[string]bool{} // nodes that hold an item because they are not Ready
	if has := f.HasFinding; has != nil {
		f.HasFinding = func(x *judge.Finding) bool { return has(x) || x.Kind == judge.NodeNotReady && holds[x.Node] }
	}
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		if !is(it) {
			continue
		}
		if ev := it.Evidence(); ev != nil && it.Verdict == judge.Held {
			for _, node := range ev.NotReady {
				holds[node] = true
			}
		}
		items[it.ID()] = true
		if shared := it.SharesVerdictOf(); shared != nil {
			items[shared.ID()] = true // it shares the gates, too
		}
		for _, p := range it.PoolNames() {
			refs[p.String()] = refs[p.String()] || s.Kind != Pool
		}
	}
	return f
}

// ofPod picks the items of a pod and of phantom pods of its name, the items of others for addresses that the pod
// carries, and the findings that name it.
func ofPod(s Subject, pods []document.ExplainedPod) (func(*judge.Item) bool, func(*judge.Finding) bool) {
	var carried []string
	for _, p := range pods {
		carried = append(carried, p.Carries...)
		for _, b := range p.Sandboxes {
			carried = append(carried, b.Addresses...)
		}
	}
	return func(it *judge.Item) bool {
			return s.Is(it.Address(), it.Owner(), "") || slices.Contains(carried, it.Text())
		}, func(f *judge.Finding) bool {
			isPod := func(p string) bool { return p == s.ref() || strings.HasPrefix(p, s.ref()+"_") }
			return slices.ContainsFunc(f.Pods, isPod) || !f.NamesAll() && slices.Contains(carried, f.IP)
		}
}

func ofNode(j *judge.Judgement, name string) func(*judge.Finding) bool {
	here := map[string]bool{} // the node's pods, and the ids of its sandboxes
	for _, s := range sandboxes(j.Observation) {
		here[s.ID] = here[s.ID] || s.Node == name
	}
	for _, p := range j.Observation.Pods {
		here[p.String()] = p.Node == name
	}
	return func(f *judge.Finding) bool {
		isHere := func(x string) bool { return here[x] }
		return f.Node == name ||
			f.Node == "" && (!f.NamesAll() || slices.ContainsFunc(slices.Concat(f.ContainerIDs, f.Pods), isHere))
	}
}
