package sim

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// The steps that only plans of drawRemovals have.
const (
	removed    = "a kind of objects is withheld from the product"
	registered = "a Node is deleted and registered again"
)

// drawRemovals makes steps of some plans take evidence away for a time. It has a random source of its own, so that all
// other plans are as without it.
func (p *Plan) drawRemovals() {
	r := rand.New(rand.NewPCG(p.Seed, 0x7265_6d6f_7665))
	if r.IntN(8) > 0 {
		return
	}
	for range 1 + r.IntN(3) {
		x := &p.Steps[r.IntN(len(p.Steps))]
		if kinds()[x.Kind].weight == 0 {
			continue // a story of another draw
		}
		x.Kind, x.A, x.B = kindOf(removed), r.IntN(30), r.IntN(30)
		if r.IntN(4) == 0 {
			x.Kind = kindOf(registered)
		}
	}
}

// withheld is how the LISTs and watches of a kind are answered that the product does not get whole.
type withheld struct{ resource, how string }

// withheldKinds and waysToWithhold are those of the step. Only custom resources can be not served.
var (
	withheldKinds = []string{fakeapi.Nodes, fakeapi.NADs, fakeapi.Reports, fakeapi.Leases,
		fakeapi.Reservations, fakeapi.Pools, fakeapi.Pods}
	waysToWithhold = []string{"forbidden", "not served", "remainingItemCount", "continue", "no resourceVersion"}
)

// withhold keeps a kind from the product for some passes.
func (s *Simulation) withhold(a, b int) {
	x := &withheld{withheldKinds[a%len(withheldKinds)], waysToWithhold[b%len(waysToWithhold)]}
	if x.how == "not served" && (x.resource == fakeapi.Nodes || x.resource == fakeapi.Pods ||
		x.resource == fakeapi.Leases) {
		x.how = "forbidden"
	}
	s.withheld = x
	s.count("withheld " + x.how)
	s.say("%s: %s for the product", x.resource, x.how)
	s.api.Cut(func(q *fakeapi.Request) bool { return q.Resource == x.resource })
	s.after(time.Duration(1+b)*s.plan.Every/8, func() {
		if s.withheld == x {
			s.withheld = nil
			s.say("%s are whole again", x.resource)
		}
	})
}

// registerAgain deletes the Node object of a node that runs. Its kubelet registers it again within seconds.
func (s *Simulation) registerAgain(n *node, a int) {
	if s.away || !n.up || !n.kubelet || !n.reaches() {
		return
	}
	s.api.Delete(fakeapi.At(fakeapi.Nodes, "", n.name))
	s.say("Node %s is deleted, and its kubelet runs", n.name)
	n.registers = true
	s.after(time.Duration(1+a%20)*time.Second, func() { s.register(n) })
}

// register is the end of registerAgain. A node that is cut off has registered before: who deletes the Node object of
// one that cannot says that the machine is gone, and is believed (docs/explain/safety.md).
func (s *Simulation) register(n *node) {
	if n.registers && n.up {
		s.publishNode(n)
	}
	n.registers = false
}

// withholds answers a call of the product for a kind that is withheld; false for others.
func (s *Simulation) withholds(w *call) bool {
	x := s.withheld
	switch {
	case x == nil || !w.client.product || w.Method != http.MethodGet:
		return false
	case w.Resource == "discovery" && x.how == "not served":
		s.deliver(w, withDate(s, s.discoveredWithout(w, x.resource)))
		return true
	case w.Resource != x.resource || w.Name != "":
		return false
	case w.Resource == fakeapi.Leases && w.Namespace == kubeSystem:
		return false // whereabouts' own
	}
	isWatch := w.Query.Get("watch") != ""
	switch x.how {
	case "forbidden":
		s.deliver(w, withDate(s, fakeapi.Failure(http.StatusForbidden, metav1.StatusReasonForbidden,
			w.Resource+" is forbidden")))
	case "not served":
		s.deliver(w, withDate(s, fakeapi.Failure(http.StatusNotFound, metav1.StatusReasonNotFound,
			"the server could not find the requested resource")))
	default:
		if isWatch {
			return false
		}
		a := s.serve(w)
		a.Body, w.versions = cutPage(a.Body, x.how), nil
		s.deliver(w, a)
	}
	return true
}

// discoveredWithout is the answer of discovery that lacks a resource.
func (s *Simulation) discoveredWithout(w *call, resource string) fakeapi.Answer {
	content := fakeapi.Decode(s.api.Discovery(w.Request).Body)
	_, plural, _ := strings.Cut(resource, "/")
	var rest []any
	all, _ := content["resources"].([]any)
	for _, r := range all {
		if r.(map[string]any)["name"] != plural {
			rest = append(rest, r)
		}
	}
	if all != nil {
		content["resources"] = rest
	}
	return fakeapi.OK(content)
}

// cutPage is a LIST without its last object.
func cutPage(body []byte, how string) []byte {
	list := fakeapi.Decode(body)
	items, _ := list["items"].([]any)
	list["items"] = items[:max(len(items)-1, 0)]
	switch metadata := section(list, "metadata"); how {
	case "remainingItemCount":
		metadata["remainingItemCount"] = 1
	case "continue":
		metadata["continue"] = "over"
	case "no resourceVersion":
		delete(metadata, "resourceVersion")
	}
	text, err := json.Marshal(list)
	if err != nil {
		panic(fmt.Sprintf("encode a page: %v", err))
	}
	return text
}
