//go:build !slow && !cluster

package e2e

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// changedPools is the document of `pools --new-range` and `pools --unused`.
type changedPools struct {
	Notes []string
	Pools []struct {
		Pool, DeleteCommand string
		NewRange            struct {
			OtherPool bool
			Outside   []struct{ IP, PodRef string }
		}
	}
}

func (s *stage) changedPools(t *testing.T, code int, args ...string) (d changedPools) {
	t.Helper()
	out := s.product(t, append([]string{"pools"}, args...)...)
	out.exits(t, code)
	check(t, json.Unmarshal([]byte(out.stdout), &d))
	return d
}

// redefine replaces a NetworkAttachmentDefinition.
func (s *stage) redefine(t *testing.T, n harness.Network) {
	t.Helper()
	check(t, s.Dynamic().Resource(harness.NADs).Namespace(n.Namespace).Delete(t.Context(), n.Name, metav1.DeleteOptions{}))
	check(t, s.CreateNAD(t.Context(), n))
}

func TestPools_NewRange(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	old := simple("net", "10.7.0.0/24")
	check(t, s.CreateNAD(t.Context(), old))
	first := s.up(t, "worker-1", "one", old)
	s.up(t, "worker-1", "two", old)
	s.up(t, "worker-1", "three", old)

	t.Run("a smaller part of the same pool", func(t *testing.T) {
		span := "10.7.0.1-10.7.0.2/24"
		p := s.changedPools(t, 1, "10.7.0.0-24", "--new-range", span).Pools[0].NewRange
		equal(t, "outside", fmt.Sprint(p.Outside), "[{10.7.0.3 default/three}]")
		equal(t, "another pool", p.OtherPool, false)
		equal(t, "outside of what excludes one",
			fmt.Sprint(s.changedPools(t, 1, "10.7.0.0/24", "--new-range", "10.7.0.0/24", "--new-exclude", "10.7.0.2/31").
				Pools[0].NewRange.Outside), "[{10.7.0.2 default/two} {10.7.0.3 default/three}]")
		// What whereabouts makes of it: it is full, until an address inside is released.
		changed := simple("net", span)
		s.redefine(t, changed)
		s.waits(t, "four", changed)
		first.del(t)
		equal(t, "the next address", s.up(t, "worker-1", "five", changed).ips, []string{"10.7.0.1"})
	})

	t.Run("another pool, which has none of the allocations", func(t *testing.T) {
		d := s.changedPools(t, 0, "10.7.0.0-24", "--new-range", "10.7.0.0/29")
		equal(t, "outside", len(d.Pools[0].NewRange.Outside), 0)
		equal(t, "another pool", d.Pools[0].NewRange.OtherPool, true)
		changed := simple("net", "10.7.0.0/29")
		s.redefine(t, changed)
		// Only the reservations keep the ADD from the addresses of the others.
		equal(t, "the next address", s.up(t, "worker-1", "six", changed).ips, []string{"10.7.0.4"})
		equal(t, "allocations of the new pool", s.usage(t, "10.7.0.0-29").Used, 1)
	})
}

func TestPools_Unused(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1")
	kept, dropped := simple("kept", "10.7.0.0/24"), simple("dropped", "10.8.0.0/24")
	check(t, s.CreateNAD(t.Context(), kept))
	check(t, s.CreateNAD(t.Context(), dropped))
	s.up(t, "worker-1", "one", kept).del(t)
	two := s.up(t, "worker-1", "two", dropped)
	equal(t, "unused while both are defined", len(s.changedPools(t, 0, "--unused").Pools), 0)
	nads := s.Dynamic().Resource(harness.NADs).Namespace("default")
	check(t, nads.Delete(t.Context(), "dropped", metav1.DeleteOptions{}))
	equal(t, "unused while it has an allocation", len(s.changedPools(t, 0, "--unused").Pools), 0)
	two.del(t)

	d := s.changedPools(t, 0, "--unused")
	if len(d.Pools) != 1 || d.Pools[0].Pool != "kube-system/10.8.0.0-24" {
		t.Fatalf("unused: %+v", d)
	}
	// An ADD by a configuration on a node, between the list and the command.
	s.patch(t, harness.IPPools, "10.8.0.0-24",
		fmt.Sprintf(`{"spec":{"allocations":{"1":{"id":%q,"podref":"default/two","ifname":"net1"}}}}`, noID))
	if out, err := s.tryShell(t, d.Pools[0].DeleteCommand); err == nil || !strings.Contains(out, "request is invalid") {
		t.Errorf("the command about a pool with an allocation: %v: %s", err, out)
	}
	s.patch(t, harness.IPPools, "10.8.0.0-24", `{"spec":{"allocations":{"1":null}}}`)

	bad := network("bad", harness.IPAM{})
	check(t, s.CreateNAD(t.Context(), bad))
	d = s.changedPools(t, 0, "--unused")
	if len(d.Pools) > 0 || !strings.Contains(strings.Join(d.Notes, " "), "default/bad") {
		t.Errorf("with a definition that cannot be read: %+v", d)
	}
	check(t, nads.Delete(t.Context(), "bad", metav1.DeleteOptions{}))

	s.shell(t, s.changedPools(t, 0, "--unused").Pools[0].DeleteCommand)
	equal(t, "unused at the end", len(s.changedPools(t, 0, "--unused").Pools), 0)
	_, err := s.of(harness.IPPools).Get(t.Context(), "10.8.0.0-24", metav1.GetOptions{})
	if err == nil {
		t.Error("the pool exists still")
	}
	try(s.of(harness.IPPools).Get(t.Context(), "10.7.0.0-24", metav1.GetOptions{})).must(t)
}
