package snapshot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

const podA = `apiVersion: v1
kind: Pod
metadata: {namespace: default, name: a, uid: pod-a, annotations: {k8s.v1.cni.cncf.io/network-status: '[{"name":"default/wb","interface":"net1","ips":["%s"]}]'}}
spec: {nodeName: w1}
status: {phase: %s}
`

// Two copies of one object that do not agree: neither tells what there is, and what one of
// them speaks for is not free.
func TestTwoCopiesThatDifferAreReportedAndTheMoreCarefulOneCounts(t *testing.T) {
	t.Run("of a pod", func(t *testing.T) {
		for _, copies := range [][2]string{
			{fmt.Sprintf(podA, "10.0.0.7", "Running"), fmt.Sprintf(podA, "10.0.0.5", "Running")},
			{fmt.Sprintf(podA, "10.0.0.5", "Running"), fmt.Sprintf(podA, "10.0.0.5", "Failed")},
			{fmt.Sprintf(podA, "10.0.0.5", "Failed"), fmt.Sprintf(podA, "10.0.0.5", "Running")},
		} {
			o := observeCopies(t, copies[0], copies[1])
			saysUnreadable(t, o.Unreadable, "Pod default/a", "a.yaml", "b.yaml", "differ")
			judged := 0
			for _, it := range judge.Judge(o, nil, judge.Policy{}).Allocations {
				if it.PodRef() == "default/a" {
					judged++
					equal(t, "verdict on "+it.Text(), it.Verdict, judge.Held)
				}
			}
			equal(t, "entries of the pod", judged, 2)
		}
	})
	t.Run("of a node", func(t *testing.T) {
		node := "apiVersion: v1\nkind: Node\nmetadata: {name: w1}\nstatus: {nodeInfo: {bootID: %s}, conditions: [{type: Ready, status: \"True\"}]}\n---\n"
		o := observeFile(t, fmt.Sprintf(node, "one")+fmt.Sprintf(node, "two"))
		saysUnreadable(t, o.Unreadable, "Node /w1")
		if n := o.Nodes["w1"]; n.Ready || n.BootID != "" || n.Dead() {
			t.Errorf("got %+v", n)
		}
	})
	t.Run("of a report", func(t *testing.T) {
		report := "apiVersion: ip-reconcile.dev/v1alpha1\nkind: SandboxReport\nmetadata: {name: w1}\nobservedAt: \"2026-11-20T11:59:30Z\"\nbootID: %s\n---\n"
		o := observeFile(t, fmt.Sprintf(report, "one")+fmt.Sprintf(report, "two"))
		saysUnreadable(t, o.Unreadable, "SandboxReport /w1")
		if len(o.Reports) != 1 || o.Reports[0].Fresh(o.Now) {
			t.Errorf("got %d reports", len(o.Reports))
		}
	})
	t.Run("of a definition", func(t *testing.T) {
		definition := "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\nmetadata: {namespace: default, name: wb}\nspec: {config: '{\"ipam\":{\"type\":\"whereabouts\",\"range\":\"10.%d.0.0/24\"}}'}\n---\n"
		o := observeFile(t, fmt.Sprintf(definition, 1)+fmt.Sprintf(definition, 2))
		saysUnreadable(t, o.Unreadable, "NetworkAttachmentDefinition default/wb")
		if n := o.NADs[name("default", "wb")]; n.Problem == "" || len(n.Networks) > 0 {
			t.Errorf("got %+v", n)
		}
	})
}

func TestANamespaceWithAllocationsAndWithoutPodsIsANote(t *testing.T) {
	pool := strings.Replace(onePool, "default/b", "blue/b", 1)
	o := observe(t, open(t, folder(t, map[string]string{"pool.yaml": pool, "a.yaml": fmt.Sprintf(podA, "10.0.0.5", "Running")})))
	if !slices.ContainsFunc(o.Warnings, func(text string) bool {
		return strings.Contains(text, "namespace blue") && strings.Contains(text, "1 allocation")
	}) {
		t.Errorf("it does not say that the folder has no pod of blue: %q", o.Warnings)
	}
	if slices.ContainsFunc(o.Warnings, func(text string) bool { return strings.Contains(text, "namespace default") }) {
		t.Errorf("it says that the folder has no pod of default: %q", o.Warnings)
	}
}
