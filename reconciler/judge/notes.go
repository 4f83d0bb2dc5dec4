package judge

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// taintsNote names the nodes that would be proven dead, if a restore of etcd had not made their taints doubtful.
func (j *Judgement) taintsNote() string {
	var nodes []string
	for name, n := range j.Observation.Nodes {
		if n.IsDead() && j.x.past.DoubtsTaint(n) {
			nodes = append(nodes, name)
		}
	}
	if len(nodes) == 0 {
		return ""
	}
	slices.Sort(nodes)
	return fmt.Sprintf("the out-of-service taint of %s was there when etcd had been restored and may be the backup's, so that it proves nothing: remove it from a node that runs; "+
		"of one that is shut down set it again, as another: kubectl --context=CONTEXT taint --overwrite node %s %s=after-restore:NoExecute", AtMost(nodes, namesShown), nodes[0], corev1.TaintNodeOutOfService)
}

// AtMost lists the first n names for a sentence, and says how many more there are.
func AtMost(names []string, n int) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// foreignFloor is how many allocations of unknown pods are no sign of another cluster.
const foreignFloor = 20

// unknownPods are the allocations of which nothing but the entry is known: there is no pod, and no report has
// had the sandbox.
func (j *Judgement) unknownPods() (n int) {
	for _, it := range j.Allocations {
		if it.Verdict == Stale && it.Reason == PodGone && !it.Proven {
			n++
		}
	}
	return n
}

// Notes are what an operator should know of how it was observed.
func (j *Judgement) Notes() []string {
	var notes []string
	if j.WithoutAgents {
		edited := ""
		if j.x.policy.TrustNetworkStatus {
			edited = ", or an address that a pod's own user edited out of its network-status,"
		}
		notes = append(notes, "no node agent reports: a phantom pod on a Ready node"+edited+" cannot be told from a leak; unconfirmed releases rest on the API alone")
	}
	if n := j.unknownPods(); n >= foreignFloor && 4*n >= j.Total {
		notes = append(notes, fmt.Sprintf("%d of %d allocations are of pods that this cluster does not have, and no node reports their sandboxes: "+
			"if another cluster uses the same pools, stop this reconciler. It would release the addresses of the other cluster, which is not supported", n, j.Total))
	}
	if text := j.Restore.Text(); text != "" {
		notes = append(notes, text)
	}
	if note := j.taintsNote(); note != "" {
		notes = append(notes, note)
	}
	return append(notes, j.Observation.Warnings...)
}
