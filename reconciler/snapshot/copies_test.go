package snapshot_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// podCopy is a copy of the pod default/a at a resourceVersion, with an address.
func podCopy(version, address, phase string) string {
	return fmt.Sprintf(`apiVersion: v1
kind: Pod
metadata: {namespace: default, name: a, uid: pod-a, resourceVersion: %q, annotations: {k8s.v1.cni.cncf.io/network-status: '[{"name":"default/wb","interface":"net1","ips":["%s"]}]'}}
spec: {nodeName: w1}
status: {phase: %s}
`, version, address, phase)
}

// 'oc adm inspect' reads a running pod twice. Where the copies differ, the addresses of all of them are held.
func TestCopies_OfAPod(t *testing.T) {
	running, moved, failed := podCopy("9", "10.0.0.5", "Running"), podCopy("10", "10.0.0.6", "Running"), podCopy("11",
		"10.0.0.5", "Failed")
	unreadable := "apiVersion: v1\nkind: Pod\nmetadata: {namespace: default, name: a}\nspec: {containers: 5}\n" +
		"status: {phase: Failed}\n"
	for title, c := range map[string]struct {
		copies []string
		first  judge.Verdict // on 10.0.0.5; the pod is live, and 10.0.0.6 is held in any case
	}{
		"of two versions":          {[]string{running, podCopy("10", "10.0.0.5", "Running")}, judge.InUse},
		"of two addresses":         {[]string{running, moved}, judge.Held},
		"of two phases":            {[]string{running, failed}, judge.Held},
		"of three contents":        {[]string{failed, running, moved}, judge.Held},
		"one that cannot be read":  {[]string{failed, unreadable}, judge.Held},
		"a third settles no doubt": {[]string{running, moved, moved}, judge.Held},
	} {
		for range 2 {
			files := map[string]string{"pool.yaml": strings.Replace(onePool, "default/b", "default/a", 1)}
			for i, text := range c.copies {
				files[string(rune('a'+i))+".yaml"] = text
			}
			o := observe(t, open(t, folder(t, files)))
			equal(t, title+": there is a note", len(o.Unreadable) > 0, c.first == judge.Held)
			items := judgetest.AssessAlone(o, facts.Policy{}).Allocations
			equal(t, title+": "+items[0].Text(), items[0].Verdict, c.first)
			equal(t, title+": "+items[1].Text(), items[1].Verdict, judge.Held)
			slices.Reverse(c.copies)
		}
	}
}

// An entry of a pod that is gone is kept where any copy of another pod carries its address.
func TestCopies_AddressesOfAllCountAsCarried(t *testing.T) {
	running, moved, last := podCopy("9", "10.0.0.5", "Running"), podCopy("10", "10.0.0.6", "Running"), podCopy("11",
		"10.0.0.7", "Running")
	unreadable := "apiVersion: v1\nkind: Pod\nmetadata: {namespace: default, name: a}\nspec: {containers: 5}\n"
	unbound := "apiVersion: v1\nkind: Pod\nmetadata: {namespace: default, name: a, uid: pod-a}\nstatus: {phase: Pending}\n"
	for title, copies := range map[string][]string{
		"the first": {moved, running}, "the last": {running, moved}, "the first of three": {moved, running, last},
		"before one that cannot be read": {moved, running, unreadable}, "after one": {unreadable, moved, running},
		"before one without a node": {moved, running, unbound}, "after one without": {unbound, moved, running},
	} {
		files := map[string]string{"pool.yaml": onePool, "node.yaml": readyNode}
		for i, text := range copies {
			files[string(rune('a'+i))+".yaml"] = text
		}
		for _, it := range judgetest.AssessAlone(observe(t, open(t, folder(t, files))), facts.Policy{}).Allocations {
			if it.Verdict == judge.Stale {
				t.Errorf("%s: %s is Stale", title, it.Text())
			}
		}
	}
}

// A copy that cannot be read may carry any address, whatever another copy has.
func TestCopies_OneThatCannotBeReadMayCarryAnyAddress(t *testing.T) {
	elsewhere := podCopy("9", "10.0.0.7", "Running")
	undecodable := "apiVersion: v1\nkind: Pod\nmetadata: {namespace: default, name: a}\nspec: {containers: 5}\n"
	noStatus := strings.Replace(elsewhere, `[{"name"`, `{{[{"name"`, 1)
	for title, copies := range map[string][]string{"alone": {undecodable}, "undecodable": {elsewhere, undecodable},
		"without a readable status": {elsewhere, noStatus}, "of three": {elsewhere, undecodable, elsewhere}} {
		for range 2 {
			files := map[string]string{"node.yaml": readyNode,
				"pool.yaml": strings.ReplaceAll(onePool, "default/a", "default/c")}
			for i, text := range copies {
				files[string(rune('a'+i))+".yaml"] = text
			}
			for _, it := range judgetest.AssessAlone(observe(t, open(t, folder(t, files))), facts.Policy{}).Allocations {
				if it.Verdict != judge.Held {
					t.Errorf("%s: %s is %s: %s", title, it.Text(), it.Verdict, it.Message())
				}
			}
			slices.Reverse(copies)
		}
	}
}

// Nothing says which of two contents is right, and one of them may make stale what the other has in use.
func TestCopies_ThatDifferAreRefused(t *testing.T) {
	const kube, ours = "metadata: {namespace: kube-system, name: x, resourceVersion: \"VERSION\"}\n",
		"metadata: {name: ip-reconcile, annotations: {a: CONTENT}}\n"
	for kind, text := range map[string]string{
		"IPPool": "apiVersion: whereabouts.cni.cncf.io/v1alpha1\nkind: IPPool\n" + kube +
			"spec: {range: 10.0.1.0/24, allocations: {\"5\": {id: c-CONTENT, podref: default/a}}}\n",
		"OverlappingRangeIPReservation": "apiVersion: whereabouts.cni.cncf.io/v1alpha1\n" +
			"kind: OverlappingRangeIPReservation\n" + kube + "spec: {podref: default/CONTENT}\n",
		"NetworkAttachmentDefinition": "apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\n" +
			strings.Replace(kube, "VERSION", "1", 1) +
			"spec: {config: '{\"ipam\":{\"type\":\"whereabouts\",\"range\":\"10.CONTENT.0.0/24\"}}'}\n",
		"Node": "apiVersion: v1\nkind: Node\nmetadata: {name: w1, resourceVersion: \"VERSION\"}\n" +
			"status: {nodeInfo: {bootID: \"CONTENT\"}}\n",
		"SandboxReport": "apiVersion: ip-reconcile.dev/v1alpha1\nkind: SandboxReport\n" +
			"metadata: {name: w1, resourceVersion: \"VERSION\"}\nobservedAt: \"2026-11-20T11:59:30Z\"\nbootID: \"CONTENT\"\n",
		"Namespace": "apiVersion: v1\nkind: Namespace\n" +
			strings.Replace(ours, "a: CONTENT", "a: \"CONTENT\"", 1),
	} {
		fill := func(version, content string) string {
			return strings.NewReplacer("VERSION", version, "CONTENT", content).Replace(text)
		}
		files := map[string]string{"pool.yaml": onePool, "a.yaml": fill("1", "1"), "b.yaml": fill("2", "1")}
		if o := observe(t, open(t, folder(t, files))); len(o.Unreadable) > 0 {
			t.Errorf("%s of two versions: %q", kind, o.Unreadable)
		}
		files["b.yaml"] = fill("2", "2")
		_, err := open2(t, files)
		if err == nil || !strings.Contains(err.Error(), kind+" ") || !strings.Contains(err.Error(), "a.yaml and ") ||
			!strings.Contains(err.Error(), "b.yaml differ") {
			t.Errorf("%s of two contents: %v", kind, err)
		}
	}
}

func TestNotes_NamespaceWithoutPods(t *testing.T) {
	pool := strings.Replace(onePool, "default/b", "blue/b", 1)
	o := observe(t, open(t, folder(t, map[string]string{"pool.yaml": pool,
		"a.yaml": podCopy("9", "10.0.0.5", "Running")})))
	if !slices.ContainsFunc(o.Warnings, func(text string) bool {
		return strings.Contains(text, "namespace blue") && strings.Contains(text, "1 allocation")
	}) {
		t.Errorf("it does not say that the folder has no pod of blue: %q", o.Warnings)
	}
	if slices.ContainsFunc(o.Warnings, func(text string) bool { return strings.Contains(text, "namespace default") }) {
		t.Errorf("it says that the folder has no pod of default: %q", o.Warnings)
	}
	if !slices.Equal(o.LackingPods, []string{"blue"}) {
		t.Errorf("it lacks the pods of %q", o.LackingPods)
	}
	o = observe(t, open(t, folder(t, map[string]string{"a.yaml": podCopy("9", "10.0.0.5", "Running"),
		"pool.yaml": strings.Replace(onePool, "default/b", "blue/b", 1), "reservation.yaml": `
apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: OverlappingRangeIPReservation
metadata: {name: 10.0.0.9, namespace: kube-system}
spec: {podref: red/db-0}`})))
	if !slices.Equal(o.LackingPods, []string{"blue", "red"}) {
		t.Errorf("with a reservation it lacks the pods of %q", o.LackingPods)
	}
}
