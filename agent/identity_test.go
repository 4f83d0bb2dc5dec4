package agent_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

var (
	machine   = v1alpha1.Machine{SystemUUID: "uuid-1", MachineID: "machine-1"}
	clone     = v1alpha1.Machine{SystemUUID: "uuid-2", MachineID: "machine-1"}
	nodes     = schema.GroupResource{Resource: "nodes"}
	forbidden = apierrors.NewForbidden(nodes, "worker-1", errors.New("denied"))
	noNode    = apierrors.NewNotFound(nodes, "worker-1")
)

func TestConfirmer_Identity(t *testing.T) {
	here := agent.Identity{BootID: "boot-1", Machine: machine}
	of := func(bootID string) *v1alpha1.SandboxReport {
		return &v1alpha1.SandboxReport{BootID: bootID, Machine: machine}
	}
	for name, c := range map[string]struct {
		node   agent.Identity
		err    error
		before *v1alpha1.SandboxReport
		want   agent.Identity
		says   string // the error
	}{
		"the Node has its boot id": {node: here, before: of(""), want: here},
		"the Node has another boot id": {node: agent.Identity{BootID: "boot-0", Machine: machine},
			before: of("boot-1"), says: `boot id "boot-0"`},
		"the Node has none yet":               {before: of("boot-1"), says: `boot id ""`},
		"the Node has none, nor had before":   {before: of("")},
		"the API server is unreachable":       {err: errors.New("away"), before: of("boot-1"), says: "away"},
		"forbidden, a report of this boot":    {err: forbidden, before: of("boot-1"), want: here},
		"forbidden, a report of another boot": {err: forbidden, before: of("boot-0"), says: "denied"},
		"forbidden, no report":                {err: forbidden, before: of("")},
		"no such Node, a report of this boot": {err: noNode, before: of("boot-1"), want: here},
		"no such Node, no report":             {err: noNode, before: of("")},
	} {
		t.Run(name, func(t *testing.T) {
			asked := 0
			x := &agent.Confirmer{Node: "worker-1", BootID: "boot-1", Get: func(context.Context) (agent.Identity, error) {
				asked++
				return c.node, c.err
			}}
			for range 3 {
				got, err := x.Identity(t.Context(), c.before)
				if got != c.want || (err != nil) != (c.says != "") || err != nil && !strings.Contains(err.Error(), c.says) {
					t.Fatalf("got %v, %v", got, err)
				}
			}
			want := 3 // one 403, or an earlier report, does not decide for the rest of the process
			if c.node == here {
				want = 1
			}
			equal(t, "calls of Get", asked, want)
		})
	}
}

// A replacement machine with the same name has another boot id, like the same machine after a reboot.
func TestAgent_OtherMachineIsNoReboot(t *testing.T) {
	left := func(s *scene) {
		l := inspection(0, oldSandbox("x"), attachment("c", &yes))
		s.before = roundTrip(t, agent.NextReport(agent.NextReport(nil, inspection(0, sandbox("g"), sandbox("x"))), l))
		s.before.Gone = []v1alpha1.Gone{{ID: "g", UID: "uid-g", Since: at(0)}}
		s.before.Name, s.before.BootID, s.before.Machine = "worker-1", "boot-0", machine
		s.bootID = "boot-1"
	}
	for name, c := range map[string]struct {
		machine v1alpha1.Machine
		gone    string
	}{
		"the same, booted again":  {machine, "c g x"},
		"a clone":                 {clone, ""},
		"which is not known":      {v1alpha1.Machine{}, ""},
		"of which one id differs": {v1alpha1.Machine{SystemUUID: machine.SystemUUID, MachineID: "machine-2"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			runScene(t, func(s *scene) { left(s); s.machine = c.machine }, func(s *scene) {
				equal(t, "gone", goneIDs(s.lastReport()), c.gone)
				equal(t, "sandboxes", len(s.lastReport().Sandboxes), 1)
				equal(t, "attachments", len(s.lastReport().Attachments), 0)
				equal(t, "machine", s.lastReport().Machine, c.machine)
				equal(t, "resumed as this machine's", s.resumes, []bool{c.gone != ""})
				s.change(func() { s.items = nil })
				s.callsDuring(11 * time.Second)
				want := strings.TrimSpace("a " + c.gone)
				equal(t, "gone, when its own sandbox ends", goneIDs(s.lastReport()), want)
			})
		})
	}
}

func TestInspect_OtherMachinesSandboxesAreNeverClosed(t *testing.T) {
	for name, thisMachine := range map[string]bool{"this machine's": true, "another's": false} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t, critest.Containerd)
			listed, cached, neither, runs := web("1a"), web("2b"), web("3c"), web("4d")
			runs.NetNS = n.namespace("runs")
			report := &v1alpha1.SandboxReport{ObservedAt: at(0)}
			for _, b := range []string{listed.ID, cached.ID, neither.ID} {
				report.Sandboxes = append(report.Sandboxes, v1alpha1.Sandbox{ID: b, State: v1alpha1.SandboxReady, NetNS: n.netns +
					"/" + b})
			}
			n.Resume(report, thisMachine)
			listed.NotReady, listed.Closed = true, true // as on a clone of the disk
			n.addCache("wb", cached.ID, "net1", n.netns+"/"+cached.ID, "10.0.0.5/24")
			n.setSandboxes(listed, runs)
			inspection := n.inspect()
			want := "closed"
			if !thisMachine {
				want = "not known"
			}
			for _, s := range inspection.Sandboxes {
				if s.ID == listed.ID {
					equal(t, "that is listed", networkState(s.NetworkClosed), want)
				}
			}
			equal(t, "that is in a cache", networkState(inspection.Attachments[0].NetworkClosed), want)
			equal(t, "that is nowhere is closed", inspection.NamespaceGone[neither.ID], thisMachine)
		})
	}
}
