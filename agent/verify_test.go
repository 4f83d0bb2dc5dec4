package agent_test

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Helm never upgrades a CustomResourceDefinition, and what changes a report on its way leaves a content that matches
// no Lease.
func TestStore_PartlyStoredReportIsNotConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		refuses, drops string
		want           []string
	}{
		"an older CustomResourceDefinition": {refuses: "machine", want: []string{`unknown field "machine"`, "sandboxreports.ip-reconcile.dev", "deploy/crds"}},
		"something that drops a field":      {drops: "machine", want: []string{"stored a changed SandboxReport"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			s.unknown, s.drops = c.refuses, c.drops
			a := s.api()
			s.fine(a.Publish(t.Context(), aReport("a"))) // that has nothing new
			before := s.objects[leasePath]
			full := aReport("a", "b")
			full.Machine = v1alpha1.Machine{SystemUUID: "uuid-1", MachineID: "machine-1"}
			for range 3 {
				err := a.Publish(t.Context(), full)
				for _, want := range c.want {
					if err == nil || !strings.Contains(err.Error(), want) {
						t.Errorf("%v lacks %q", err, want)
					}
				}
				equal(t, "the Lease", s.objects[leasePath], before)
			}
			s.unknown, s.drops = "", ""
			s.fine(a.Publish(t.Context(), full))
			s.confirmed(full)
		})
	}
}
