package findings_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// A definition is cut or deleted while its pods run. Nothing that was found may vanish without a word.
func TestUnknownDefinitions(t *testing.T) {
	recorded := Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/a", "box-1", "net1"))
	broken := NAD("wb", "{")
	a, b := Pod("a", Carrying("10.0.0.5")), Pod("b", Carrying("10.0.0.5"))
	on := func(network string) Part { return Pod("b", CarryingOn(network, "net1", "10.0.0.5")) }
	requests := Requesting("wb")
	good := NAD("good", WhereaboutsConfig("10.0.0.0/24", ""))
	for _, c := range []struct {
		says                 string
		malformed, conflicts int
		parts                []Part
	}{
		{"a definition that cannot be parsed, with a pod", 1, 0, []Part{recorded, broken, a}},
		{"it has the pods of a conflict", 1, 1, []Part{recorded, broken, a, b}},
		{"no pool records the address for either", 1, 1, []Part{empty, broken, a, b}},
		{"a running pod requests it without having it", 1, 0, []Part{empty, broken, Pod("c", requests)}},
		{"a Pending pod requests it", 1, 0, []Part{empty, broken, Pod("c", Phase("Pending"), requests)}},
		{"a pod that is not scheduled requests it", 0, 0, []Part{empty, broken, Pod("c", OnNode(""), requests)}},
		{"a finished pod names it", 0, 0, []Part{empty, broken, Pod("c", Phase("Failed"), Carrying("10.0.0.5"))}},
		{"no pod names it", 0, 0, []Part{recorded, broken, UsualPod()}},
		{"a definition that was deleted: the pool records the address", 0, 0, []Part{recorded, good, a}},
		{"it was deleted, and no pool records the address", 1, 0, []Part{empty, good, a}},
		{"the pod is younger than its ADD may take", 0, 0, []Part{empty, good, Pod("a", Carrying("10.0.0.5"),
			MadeAgo(time.Minute))}},
		{"no pool has the address in its range", 0, 0, []Part{Pool("10.9.0.0-24", "10.9.0.0/24"), a, b}},
		{"a range without a pool has it", 1, 0, []Part{good, a}},
		{"it was deleted, and its pods have one address", 1, 1, []Part{recorded, good, a, b}},
		{"another one was deleted: its network may be one that is not whereabouts'", 1, 0, []Part{recorded, good,
			Pod("a", CarryingOn("default/good", "net1", "10.0.0.5")), on("default/gone")}},
		{"no definition was read", 1, 1, []Part{recorded, a, b}},
		{"it is configured on the nodes, and the pool records the address", 0, 0, []Part{recorded, NAD("wb", ""), a}},
		{"it is configured on the nodes, and no pod has an address", 0, 0, []Part{empty, NAD("wb", ""), Pod("c", requests)}},
		{"it is configured on the nodes, and its pods have one address", 1, 1, []Part{recorded, NAD("wb", ""), a, b}},
		{"the other one is on a network that is known", 1, 1, []Part{recorded, good, broken,
			Pod("a", CarryingOn("default/good", "net1", "10.0.0.5")), b}},
		{"the network of the default interface is no definition", 0, 0, []Part{recorded, good, Pod("a",
			CarryingOn("default/good", "net1", "10.0.0.5")), on("cbr0")}},
		{"the other one's definition has another IPAM", 1, 0, []Part{empty, broken, b,
			NAD("local", `{"ipam":{"type":"host-local"}}`), Pod("a", CarryingOn("default/local", "net1", "10.0.0.5"))}},
		{"the other one is finished", 1, 0, []Part{recorded, broken, a, Pod("b", Phase("Failed"), Carrying("10.0.0.5"))}},
		{"a report shows that one has another address", 1, 0, []Part{recorded, broken, a, Pod("b", UID("uid-b"),
			Carrying("10.0.0.5")), ReportingWorker(Sandbox("box-2", "uid-b", OfPod("b"), WithAddress("10.0.0.6", "")))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			malformed, conflicts := FindingsOf(findings.MalformedFinding, c.parts...), FindingsOf(findings.Conflict, c.parts...)
			if len(malformed) != c.malformed || len(conflicts) != c.conflicts {
				t.Errorf("got %+v\n%+v\nwant %d and %d", malformed, conflicts, c.malformed, c.conflicts)
			}
		})
	}
	t.Run("they say what is unknown", func(t *testing.T) {
		f := FindingsOf(findings.Conflict, recorded, broken, a, b)[0]
		if !slices.Equal(f.Pods, []string{"default/a", "default/b"}) || f.IP != "10.0.0.5" ||
			!strings.Contains(f.Message, "the network of default/a and default/b is unknown: "+
				"NetworkAttachmentDefinition default/wb cannot be read") {
			t.Errorf("got %+v", f)
		}
	})
	t.Run("at most ten pods are named", func(t *testing.T) {
		parts := []Part{empty, broken}
		for i := range 12 {
			parts = append(parts, Pod(fmt.Sprintf("c-%02d", i), Carrying(fmt.Sprint("10.0.0.", i+1))))
		}
		f := FindingsOf(findings.MalformedFinding, parts...)
		if len(f) != 1 || len(f[0].Pods) != 10 || !strings.Contains(f[0].Message, "default/c-09 and 2 more") ||
			!strings.HasPrefix(f[0].Message, "NetworkAttachmentDefinition default/wb cannot be read") {
			t.Errorf("got %+v", f)
		}
	})
}
