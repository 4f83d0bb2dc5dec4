package explain

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
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
	// Kind is "" for a name that may be one of a pool, a node or a pod, and for a container ID: see Resolve.
	Kind Kind
	// Address is set for the kind Address.
	Address netip.Addr
	// Namespace and Name are those of the object. A pool's namespace is "" for any. That of a pod is "" until Resolve
	// has found the only pod of the name.
	Namespace, Name string
	// Range picks pools by their range instead of by name. The zero Prefix picks none.
	Range netip.Prefix
	// ContainerID picks what is recorded for one sandbox of a pod; "" picks all of the pod.
	ContainerID string

	isLoose bool // a pod by NAMESPACE/NAME, which may be a pool
}

// kindNames are the names of kinds as kubectl takes and prints them, without the API group.
var kindNames = map[string]Kind{
	"node": Node, "nodes": Node, "no": Node, "sandboxreport": Node, "sandboxreports": Node,
	"pool": Pool, "pools": Pool, "ippool": Pool, "ippools": Pool,
	"pod": Pod, "pods": Pod, "po": Pod,
	"overlappingrangeipreservation": Address, "overlappingrangeipreservations": Address,
}

// KindNamed returns the kind of a name that kubectl takes for it, as of nodes or po; "" for any other name.
func KindNamed(name string) Kind {
	kind, group, _ := strings.Cut(name, ".")
	if !isKnownGroup(group) {
		return ""
	}
	return kindNames[kind]
}

// NameOf returns the name that follows the name of a kind, as in node/worker-1. Any other text is returned as it is.
func NameOf(kind Kind, text string) string {
	first, name, _ := strings.Cut(text, "/")
	if name != "" && KindNamed(first) == kind {
		return name
	}
	return text
}

const subjectForms = "must be an IP address (10.0.0.7), a pod (default/web-0, pod/default/web-0, pod/web-0), " +
	"a node (node/worker-1), a pool (pool/10.0.0.0-24, or its range 10.0.0.0/24) or the container ID of a sandbox"

// ParseSubject parses a subject. The error lists the forms.
func ParseSubject(text string) (Subject, error) { return ParseSubjectIn("", text) }

// ParseSubjectIn parses a subject. A name without a namespace is that of a pod in the namespace, if that is given.
// An address with the length of its network, as 'ip addr' prints it, is that address.
func ParseSubjectIn(namespace, text string) (Subject, error) {
	if addr, err := netip.ParseAddr(text); err == nil {
		return Subject{Kind: Address, Address: addr.Unmap().WithZone("")}, nil
	}
	if p, err := netip.ParsePrefix(text); err == nil && p != p.Masked() {
		return Subject{Kind: Address, Address: p.Addr().Unmap()}, nil
	}
	if r, err := ippool.ParseRange(strings.TrimPrefix(text, "pool/")); err == nil {
		return Subject{Kind: Pool, Range: r.Prefix()}, nil
	}
	first, rest, hasSlash := strings.Cut(text, "/")
	kind, group, _ := strings.Cut(first, ".")
	s, ok := Subject{}, false
	switch id := idOf(text); {
	case !hasSlash && namespace == "" && id != "":
		return Subject{ContainerID: id}, nil
	case !hasSlash && namespace == "":
		// Nobody names an object in digits and dots: that is half an address.
		s, ok = Subject{Name: text}, isName(text) && strings.Trim(text, "0123456789.") != ""
	case hasSlash && id != "":
		return Subject{ContainerID: id}, nil
	case !hasSlash:
		s, ok = podNamed(namespace, text)
		s.isLoose = true
	case kindNames[kind] != "" && isKnownGroup(group):
		s, ok = ofKind(kindNames[kind], namespace, rest)
	default:
		s, ok = podNamed("", text)
		s.isLoose = true
	}
	if !ok {
		return Subject{}, fmt.Errorf("%q: %s", text, subjectForms)
	}
	return s, nil
}

func isName(text string) bool {
	_, err := ippool.ParsePodRef("a/" + text)
	return err == nil && !strings.Contains(text, "_")
}

// isKnownGroup reports whether a group of an API has kinds of kindNames.
func isKnownGroup(group string) bool {
	return slices.Contains([]string{"", ippool.PoolResource.Group, v1alpha1.Resource().Group}, group)
}

// ofKind returns the subject of a kind that was named. rest follows the kind.
func ofKind(kind Kind, namespace, rest string) (s Subject, ok bool) {
	switch kind {
	case Address: // the name of a reservation
		addr, err := netip.ParseAddr(rest)
		return Subject{Kind: Address, Address: addr}, err == nil
	case Node:
		return Subject{Kind: Node, Name: rest}, rest != "" && !strings.Contains(rest, "/")
	case Pod:
		if namespace == "" && isName(rest) {
			return Subject{Kind: Pod, Name: rest}, true
		}
		return podNamed(namespace, rest)
	}
	s, ok = Subject{Kind: Pool, Name: rest}, rest != ""
	if namespace, name, both := strings.Cut(rest, "/"); both {
		s.Namespace, s.Name = namespace, name
		ok = namespace != "" && name != "" && !strings.Contains(name, "/")
	}
	return s, ok
}

// podNamed returns the pod of a name, which has its namespace before a slash or is in the given one. The podref of a
// phantom pod, which has the UID, too, names the pod.
func podNamed(namespace, text string) (Subject, bool) {
	if namespace != "" && !strings.Contains(text, "/") {
		text = namespace + "/" + text
	}
	ref, err := ippool.ParsePodRef(text)
	return Subject{Kind: Pod, Namespace: ref.Namespace, Name: ref.Name}, err == nil
}

// idOf returns the container ID that a text is, or the beginning of one that crictl prints; "" for any other text.
func idOf(text string) string {
	_, id, hasRuntime := strings.Cut(text, "://")
	if !hasRuntime {
		id = text
	}
	if len(id) < 12 || strings.Trim(id, "0123456789abcdef") != "" {
		return ""
	}
	return id
}

func (s Subject) String() string {
	switch {
	case s.Kind == "":
		return s.Name + s.ContainerID
	case s.Kind == Address:
		return s.Address.String()
	case s.Kind == Node:
		return "node/" + s.Name
	case s.Kind == Pod && s.Namespace != "":
		return "pod/" + s.ref()
	case s.Kind == Pod:
		return "pod/" + s.Name
	case s.Range.IsValid():
		return s.Range.String()
	case s.Namespace == "":
		return "pool/" + s.Name
	}
	return "pool/" + s.ref()
}

// IsBare reports whether a subject is a name alone: what has it is known from a judgement only.
func (s Subject) IsBare() bool {
	return s.Kind == "" && s.ContainerID == "" || s.Kind == Pod && s.Namespace == ""
}

func (s Subject) ref() string { return s.Namespace + "/" + s.Name }

func (s Subject) isPool(p *ippool.Pool) bool {
	if s.Range.IsValid() {
		return p.Problem == "" && p.Range.Prefix() == s.Range
	}
	return p.Name == s.Name && (s.Namespace == "" || p.Namespace == s.Namespace)
}

// Has reports whether a record is about an address, a pod, a pool or a sandbox. Records do not name nodes. A name of
// which the kind is unknown is that of every kind.
func (s Subject) Has(r *audit.Record) bool {
	addr, _ := netip.ParseAddr(r.IP)
	owner, _ := ippool.ParsePodRef(r.PodRef)
	switch {
	case s.ContainerID != "":
		return strings.HasPrefix(r.ContainerID, s.ContainerID)
	case s.Kind == "":
		_, pool, _ := strings.Cut(r.Pool, "/")
		return s.Name == owner.Name || s.Name == pool
	case s.IsBare():
		return s.Name == owner.Name
	}
	return s.Is(addr, owner, r.Pool) || s.isLoose && r.Pool == s.ref()
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

// Selects returns what reports whether an item is of a resolved subject.
func (s Subject) Selects(j *findings.Assessment) func(*judge.Item) bool {
	switch {
	case s.Kind == Node:
		return view.Filter{Nodes: []string{s.Name}}.Item
	case s.Kind == Pool:
		refs := map[string]bool{}
		for _, p := range j.Observation.Pools {
			refs[p.Ref()] = s.isPool(p)
		}
		isPicked := func(p types.NamespacedName) bool { return refs[p.String()] }
		return func(it *judge.Item) bool {
			return it.Pool != nil && refs[it.Object()] || it.Pool == nil && slices.ContainsFunc(it.PoolNames(), isPicked)
		}
	case s.ContainerID != "":
		return func(it *judge.Item) bool { return it.ContainerID() == s.ContainerID }
	}
	return func(it *judge.Item) bool { return s.Is(it.Address(), it.Owner(), "") }
}

// pick picks the parts of a judgement that are about a subject, with the pools of the items.
func pick(
	j *findings.Assessment, s Subject, pods []view.ExplainedPod, boxes []view.ExplainedSandbox,
) *view.Filter {
	items, refs := map[judge.ID]bool{}, map[string]bool{}
	f := &view.Filter{
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
		f.HasFinding = func(x *findings.Finding) bool {
			return slices.Contains(strings.Split(x.IP, ","), s.Address.String()) ||
				x.Kind == findings.UnsupportedRangeFinding && refs[x.Pool]
		}
	case Pod:
		is, f.HasFinding = ofPod(s, pods)
	case Node:
		is, f.HasFinding = view.Filter{Nodes: []string{s.Name}}.Item, ofNode(j, s.Name, boxes)
	case Pool:
		is = s.Selects(j)
		f.HasFinding = func(x *findings.Finding) bool { return slices.ContainsFunc(strings.Split(x.Pool, ","), f.HasPool) }
	}
	holds := map[string]bool{} // nodes that hold an item because they are not Ready
	if has := f.HasFinding; has != nil {
		f.HasFinding = func(x *findings.Finding) bool { return has(x) || x.Kind == findings.NodeNotReady && holds[x.Node] }
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
func ofPod(s Subject, pods []view.ExplainedPod) (func(*judge.Item) bool, func(*findings.Finding) bool) {
	var carried []string
	for _, p := range pods {
		carried = append(carried, p.Carries...)
		for _, b := range p.Sandboxes {
			carried = append(carried, b.Addresses...)
		}
	}
	return func(it *judge.Item) bool {
			return s.Is(it.Address(), it.Owner(), "") || slices.Contains(carried, it.Text())
		}, func(f *findings.Finding) bool {
			isPod := func(p string) bool { return p == s.ref() || strings.HasPrefix(p, s.ref()+"_") }
			return slices.ContainsFunc(f.Pods, isPod) || !f.NamesAll() && slices.Contains(carried, f.IP)
		}
}

func ofNode(j *findings.Assessment, name string, boxes []view.ExplainedSandbox) func(*findings.Finding) bool {
	here := map[string]bool{} // the node's pods, and the ids of its sandboxes
	for _, s := range boxes {
		here[s.ID] = here[s.ID] || s.Node == name
	}
	for _, p := range j.Observation.Pods {
		here[p.String()] = p.Node == name
	}
	return func(f *findings.Finding) bool {
		isHere := func(x string) bool { return here[x] }
		return f.Node == name ||
			f.Node == "" && (!f.NamesAll() || slices.ContainsFunc(slices.Concat(f.ContainerIDs, f.Pods), isHere))
	}
}
