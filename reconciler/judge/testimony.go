package judge

import (
	"errors"
	"fmt"
	"slices"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// Testimony is the evidence on an item as it was judged: all that the table reads, in a form that can be stored and
// judged again. A field that is absent in JSON is false, or empty.
type Testimony struct {
	Evidence
	// Phase is the phase of the pod's life: none, Pending, live, terminating or finished.
	Phase string `json:"phase"`
	// Sandbox is the state of the sandbox, as in check.
	Sandbox string `json:"sandbox"`
	// Ownership says whether the pod is the sandbox's: Unknown, ItsPod or NotItsPod.
	Ownership string `json:"ownership"`
	// Pod has what was read of the pod; absent where no pod has the name.
	Pod *PodTestimony `json:"pod,omitempty"`
}

// PodTestimony is what judging reads of a pod.
type PodTestimony struct {
	Node string `json:"node,omitempty"`
	// NetworkStatus is Missing, Unreadable or Readable.
	NetworkStatus string `json:"networkStatus"`
	// StoppedByKubelet: kubelet reported that every container stopped.
	StoppedByKubelet bool `json:"stoppedByKubelet,omitempty"`
}

// maxWithoutReport is how many nodes without a report a testimony names: a row asks only for the one of the pod.
const maxWithoutReport = 2

// Testimony is the evidence by which the item was judged.
func (it *Item) Testimony() *Testimony { return it.evidenceSource().Evidence().testimony() }

func (e *Evidence) testimony() *Testimony {
	t := &Testimony{Evidence: *e, Phase: e.Phase.String(), Sandbox: e.Sandbox.String(), Ownership: e.Ownership.String()}
	t.WithoutReport = slices.Clone(e.WithoutReport[:min(len(e.WithoutReport), maxWithoutReport)])
	t.Evidence.Pod, t.mentions, t.Nodes, t.goneNodes = nil, nil, nil, nil // a record must not keep an observation alive
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
	return judge(&e), nil
}

// named sets v to the value that is printed as word. last is the greatest value.
func named[T interface {
	~int
	fmt.Stringer
}](v *T, word string, last T) error {
	for *v = 0; *v <= last; *v++ {
		if (*v).String() == word {
			return nil
		}
	}
	return fmt.Errorf("unknown word %q in the evidence", word)
}
