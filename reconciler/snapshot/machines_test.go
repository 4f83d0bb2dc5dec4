package snapshot_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

const claimedPool = `{apiVersion: whereabouts.cni.cncf.io/v1alpha1, kind: IPPool, metadata: {namespace: kube-system,
  name: 10.0.0.0-24, resourceVersion: "1"}, spec: {range: 10.0.0.0/24, allocations: {"5": {id: c5,
  podref: default/launcher-1, ifname: net1, ipamclaimref: default/vm.net1}}}}`

// The folder is what 'oc adm inspect' writes of a namespace.
func TestRead_Machines(t *testing.T) {
	claim := func(name string) string {
		return `{apiVersion: k8s.cni.cncf.io/v1alpha1, kind: IPAMClaim, metadata: {namespace: default, name: ` + name +
			`}, spec: {network: wb, interface: net1}, status: {ips: [10.0.0.5/24], ownerPod: launcher-1}}`
	}
	const guest = `{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstance, metadata: {namespace: default, name: vm},
  spec: {networks: [{name: net, multus: {networkName: wb}}]}, status: {interfaces: [{name: net, ipAddress: 10.0.0.5}]}}`
	const folderOf = "namespaces/default/k8s.cni.cncf.io/ipamclaims/"
	for _, c := range []struct {
		says   string
		files  map[string]string
		reason judge.Reason
	}{
		{"the claim exists", map[string]string{folderOf + "vm.net1.yaml": claim("vm.net1")}, judge.Claimed},
		{"another claim exists", map[string]string{folderOf + "other.yaml": claim("other")}, judge.ClaimGone},
		{"no claim was exported", nil, judge.ClaimUnknown},
		{"no claim of the namespace was exported", map[string]string{"claim.yaml": strings.Replace(claim("vm.net1"),
			"namespace: default", "namespace: b", 1)}, judge.ClaimUnknown},
		{"the claim cannot be decoded", map[string]string{folderOf + "vm.net1.yaml": `{apiVersion: k8s.cni.cncf.io/v1alpha1,
  kind: IPAMClaim, metadata: {namespace: default, name: vm.net1, labels: 7, uid: 7}}`}, judge.Claimed},
		{"a guest has the address", map[string]string{folderOf + "other.yaml": claim("other"),
			"namespaces/default/kubevirt.io/virtualmachineinstances/vm.yaml": guest}, judge.GuestAddress},
	} {
		t.Run(c.says, func(t *testing.T) {
			files := map[string]string{"pool.yaml": claimedPool,
				"pod.yaml": "{apiVersion: v1, kind: Pod, metadata: {namespace: default, name: web}, spec: {nodeName: w}}",
				"node.yaml": "{apiVersion: v1, kind: Node, metadata: {name: w}, " +
					"status: {conditions: [{type: Ready, status: 'True'}]}}"}
			for name, text := range files {
				files[name] = "---\n" + text
			}
			for name, text := range c.files {
				files[name] = "---\n" + text
			}
			o := observe(t, open(t, folder(t, files)))
			it := judge.Judge(o, nil, judge.Policy{}).Allocations[0]
			if it.Reason != c.reason {
				t.Errorf("%s, %s: %s (unreadable %v)", it.Verdict, it.Reason, it.Message(), o.Unreadable)
			}
		})
	}
}

// A bundle has what judging reads of machines.
func TestEncode_Machines(t *testing.T) {
	for says, part := range map[string]judgetest.Part{
		"a claim": judgetest.All(judgetest.IPAMClaim("vm.net1", "10.0.0.6"), judgetest.RawReservation("10.0.0.9",
			time.Hour, map[string]any{"podref": "default/web-9", "ipamclaimref": "default/vm.net1"})),
		"another claim":         judgetest.IPAMClaim("other", "10.0.0.5"),
		"claims are unread":     judgetest.IPAMClaimsUnread("forbidden"),
		"a guest":               judgetest.All(judgetest.IPAMClaim("other"), judgetest.Guest("vm", "default/wb", "10.0.0.5")),
		"an odd reference":      judgetest.IPAMClaim("odd"),
		"a migrating machine":   migration("migration-1"),
		"a machine of two pods": migration(""),
	} {
		pool := judgetest.ClaimedPool
		if says == "an odd reference" {
			pool = judgetest.PoolClaimedBy("odd")
		}
		o := judgetest.Observe(pool, judgetest.Node("worker-1"), judgetest.NAD("wb",
			judgetest.WhereaboutsConfig("10.0.0.0/24", "")), part)
		again, _ := bundled(t, o, snapshot.Encoder{Labels: labels})
		if got, want := said(judge.Judge(again, nil, judge.Policy{})), said(judge.Judge(o.Observation, nil,
			judge.Policy{})); !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\n%s", says, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
		again, _ = bundled(t, o, snapshot.Encoder{Labels: labels, Rename: renamed})
		if got, want := saidWithoutNames(judge.Judge(again, nil, judge.Policy{})), saidWithoutNames(judge.Judge(
			o.Observation, nil, judge.Policy{})); !slices.Equal(got, want) {
			t.Errorf("%s, renamed:\n%s\n%s", says, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func migration(uid string) judgetest.Part {
	return judgetest.All(judgetest.Pod("launcher-1", judgetest.UID("a"), judgetest.Carrying("10.0.0.5"),
		judgetest.Launcher("vmi-1", "")), judgetest.Pod("launcher-2", judgetest.UID("b"), judgetest.OnNode("worker-2"),
		judgetest.Carrying("10.0.0.5"), judgetest.Launcher("vmi-1", uid)))
}
