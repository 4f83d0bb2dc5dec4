package judge

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Testimony is all that judging reads of the evidence on an item, in a form that can be stored and judged again. A
// field that is absent in JSON is false, or empty.
type Testimony struct {
	Evidence
	Phase     string        `json:"phase"`         // none, Pending, live, terminating or finished
	Sandbox   string        `json:"sandbox"`       // as in check
	Ownership string        `json:"ownership"`     // Unknown, ItsPod or NotItsPod
	Pod       *PodTestimony `json:"pod,omitempty"` // absent where no pod has the name
}

// PodTestimony is what judging reads of a pod.
type PodTestimony struct {
	Node             string `json:"node,omitempty"`
	NetworkStatus    string `json:"networkStatus"`              // Missing, Unreadable or Readable
	StoppedByKubelet bool   `json:"stoppedByKubelet,omitempty"` // kubelet reported that every container stopped
}

// Testimony is the evidence by which the item was judged. Two of the nodes without a report suffice: a row asks only
// whether the pod's node is the only one.
func (it *Item) Testimony() *Testimony { return it.evidenceSource().Evidence().testimony() }

func (e *Evidence) testimony() *Testimony {
	t := &Testimony{Evidence: *e, Phase: e.Phase.String(), Sandbox: e.Sandbox.String(), Ownership: e.Ownership.String()}
	t.WithoutReport = slices.Clone(e.WithoutReport[:min(len(e.WithoutReport), 2)])
	// A record must not keep an observation alive.
	t.Evidence.Pod, t.rival, t.Nodes, t.NotReady = nil, nil, nil, nil
	if p := e.Pod; p != nil {
		t.Pod = &PodTestimony{p.Node, p.Status.String(), p.StoppedByKubelet}
	}
	return t
}

// Judge judges the evidence again. A word that this version does not know is an error.
func (t *Testimony) Judge() (Decision, error) {
	e := t.Evidence
	errs := []error{named(&e.Phase, t.Phase, podstate.Finished), named(&e.Sandbox, t.Sandbox, NoSource),
		named(&e.Ownership, t.Ownership, NotItsPod)}
	if p := t.Pod; p != nil {
		e.Pod = &podstate.Pod{Node: p.Node, StoppedByKubelet: p.StoppedByKubelet}
		errs = append(errs, named(&e.Pod.Status, p.NetworkStatus, podstate.StatusReadable))
	}
	if err := errors.Join(errs...); err != nil {
		return Decision{}, err
	}
	return decide(&e), nil
}

// named sets v to the value of a word. last is the greatest value.
func named[T interface {
	~int | ~int8
	fmt.Stringer
}](v *T, word string, last T) error {
	for *v = 0; *v <= last; *v++ {
		if (*v).String() == word {
			return nil
		}
	}
	return fmt.Errorf("unknown word %q in the evidence", word)
}
