package reconciler_test

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// heard makes a node's report that is fresh at every call.
func (s *simulator) heard(report *v1alpha1.SandboxReport) {
	s.mu.Lock()
	defer s.mu.Unlock()
	report.ObservedAt.Time = time.Now()
	s.reports = []*podstate.Report{{SandboxReport: report, Renewed: time.Now(), LeaseRenewed: time.Now(), Written: time.Now()}}
}

func goneOn(node string, gone ...v1alpha1.Gone) *v1alpha1.SandboxReport {
	report := &v1alpha1.SandboxReport{Gone: gone}
	report.Name = node
	return report
}

// poolOf makes a pool without entries.
func (s *simulator) poolOf(name, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	u := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "whereabouts.cni.cncf.io/v1alpha1", "kind": "IPPool",
		"spec": map[string]any{"range": text, "allocations": map[string]any{}},
	}}
	u.SetNamespace("kube-system")
	u.SetName(name)
	s.store(s.pools, u)
}
