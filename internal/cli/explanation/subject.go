package explanation

import (
	"fmt"
	"net/netip"
	"strings"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// Kind is what a Subject is.
type Kind string

const (
	Address Kind = "Address"
	Pod     Kind = "Pod"
	Node    Kind = "Node"
	Pool    Kind = "Pool"
)

// Subject is what is asked about.
type Subject struct {
	Kind Kind
	// Address is that of an Address.
	Address netip.Addr
	// Namespace and Name are those of the object; a pool's namespace is "" for any.
	Namespace, Name string
	// Range picks pools by their range, instead of by name; the zero Prefix for none.
	Range netip.Prefix
}

// forms are what ParseSubject takes.
const forms = "an IP address (10.0.0.7), a pod (default/web-0, pod/default/web-0), a node (node/worker-1) " +
	"or a pool (pool/10.0.0.0-24, or its range 10.0.0.0/24)"

// ParseSubject reads what a user asks about. The error names what there is.
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
	default: // also the podref of a phantom that a pool records
		ref, err := ippool.ParsePodRef(strings.TrimPrefix(text, "pod/"))
		s, ok = Subject{Kind: Pod, Namespace: ref.Namespace, Name: ref.Name}, err == nil
	}
	if !ok {
		return Subject{}, fmt.Errorf("%q is not something that can be explained: that is %s", text, forms)
	}
	return s, nil
}

// String is the subject as it can be asked about again.
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

// isPool reports whether a pool is the subject.
func (s Subject) isPool(p *ippool.Pool) bool {
	if s.Range.IsValid() {
		return p.Problem == "" && p.Range.Prefix() == s.Range
	}
	return p.Name == s.Name && (s.Namespace == "" || p.Namespace == s.Namespace)
}
