package agent_test

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// Helm never upgrades a CustomResourceDefinition. A report that is changed on its way matches no Lease.
func TestStore_PartlyStoredReportIsNotConfirmed(t *testing.T) {
	for name, c := range map[string]struct {
		refuses, drops string
		want           []string
	}{
		"an older CustomResourceDefinition": {refuses: "machine", want: []string{`unknown field "machine"`,
			"sandboxreports.ip-reconcile.dev", "deploy/crds"}},
		"something that drops a field": {drops: "machine", want: []string{"stored a changed SandboxReport"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := newAPIServer(t)
			s.unknownField, s.dropField = c.refuses, c.drops
			a := s.newStore()
			s.must(a.Publish(t.Context(), reportOf("a"))) // without new fields
			before := s.objects[leasePath]
			full := reportOf("a", "b")
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
			s.unknownField, s.dropField = "", ""
			s.must(a.Publish(t.Context(), full))
			s.expectConfirmed(full)
		})
	}
}
