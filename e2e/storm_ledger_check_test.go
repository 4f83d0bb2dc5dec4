//go:build slow

package e2e

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// TestTheLedgerTellsAReleaseFromAnEntryThatWasNeverWritten has one sandbox of revision 5 to 20, and
// what its pool was meanwhile.
func TestTheLedgerTellsAReleaseFromAnEntryThatWasNeverWritten(t *testing.T) {
	t.Parallel()
	with := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"allocations": map[string]any{
		"1": map[string]any{"id": "a", "ifname": "net1", "podref": "default/web"}}}}}
	without := &unstructured.Unstructured{Object: map[string]any{}}
	reserved := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"podref": "default/web"}}}
	for situation, c := range map[string]struct {
		pool, reservation      []version
		freed, bare, unwritten int
	}{
		"it has the entry all the time":                    {pool: []version{{3, with}}},
		"its DEL":                                          {pool: []version{{3, with}, {21, without}}},
		"the entry is removed while it lives":              {pool: []version{{3, with}, {9, without}}, freed: 1},
		"the entry is removed before ADD's return is seen": {pool: []version{{3, with}, {4, without}}, freed: 1},
		"the pool is deleted":                              {pool: []version{{3, with}, {9, nil}}, freed: 1},
		"no version ever has it":                           {pool: []version{{3, without}, {9, without}}, unwritten: 1},
		"its reservation is removed while it lives":        {pool: []version{{3, with}}, reservation: []version{{9, nil}}, bare: 1},
		"there is no pool":                                 {unwritten: 1},
		"a repair writes it":                               {pool: []version{{3, without}, {9, with}}, unwritten: 1},
		"a repair writes it, and it is removed again":      {pool: []version{{3, without}, {9, with}, {12, without}}, freed: 1, unwritten: 1},
	} {
		t.Run(situation, func(t *testing.T) {
			l := &ledger{all: []*holding{{pool: "p", reservation: "r", id: "a", ifName: "net1", podRef: "default/web", address: "10.1.0.1", from: 5, until: 20}}}
			freed, bare, unwritten := l.check(&history{of: map[string][]version{"p": c.pool}}, &history{of: map[string][]version{"r": append([]version{{4, reserved}}, c.reservation...)}}, 30)
			if len(freed) != c.freed || len(bare) != c.bare || len(unwritten) != c.unwritten {
				t.Errorf("%d freed, %d bare, %d unwritten, want %d, %d, %d: %v %v", len(freed), len(bare), len(unwritten), c.freed, c.bare, c.unwritten, freed, bare)
			}
		})
	}
}
