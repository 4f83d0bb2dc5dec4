package podstate_test

import (
	"runtime"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// A tenant may write 256 KiB of annotations into each pod, and a pass keeps all pods in memory.
func TestPod_MemoryOfHostileAnnotations(t *testing.T) {
	const length, pods = 256 << 10, 40
	for what, text := range map[string]string{
		"entries without anything": "[" + strings.Repeat("{},", length/3) + "{}]",
		"addresses":                `[{"ips":[` + strings.Repeat(`"1.1.1.1",`, length/10) + `"1.1.1.1"]}]`,
		"an address in each entry": "[" + strings.Repeat(`{"ips":["1.1.1.1"]},`, length/20) + "{}]",
		"interfaces":               "[" + strings.Repeat(`{"ips":[],"name":"a/b"},`, length/24) + "{}]",
		"nested lists":             strings.Repeat("[", length),
		"the field again":          `[{` + strings.Repeat(`"ips":["1.1.1.1"],`, length/18) + `"a":1}]`,
	} {
		var before, after runtime.MemStats
		kept := make([]*podstate.Pod, pods)
		runtime.GC()
		runtime.ReadMemStats(&before)
		for i := range kept {
			kept[i] = podstate.ReadPod(pod(status(text), func(o *corev1.Pod) {
				o.Status.Phase = corev1.PodPending
				o.Annotations["k8s.v1.cni.cncf.io/networks"] = strings.Repeat("a,", length/2)
			}))
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		if each := (int64(after.HeapAlloc) - int64(before.HeapAlloc)) / pods; each > 32<<10 {
			t.Errorf("%s: %d bytes are kept of a pod", what, each)
		}
		runtime.KeepAlive(kept)
	}
}
