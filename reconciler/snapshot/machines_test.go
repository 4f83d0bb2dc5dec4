package snapshot_test

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
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
			it := judgetest.AssessAlone(o, facts.Policy{}).Allocations[0]
			if it.Reason != c.reason {
				t.Errorf("%s, %s: %s (unreadable %v)", it.Verdict, it.Reason, it.Message(), o.Unreadable)
			}
		})
	}
}
