package reconciler_test

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
)

// network is a network of one range.
func network(text string) ippool.Network {
	return ippool.Network{Ranges: []netip.Prefix{netip.MustParsePrefix(text)}, Overlapping: true}
}

// retired asks a reconciler to retire pools of these names, as they are now.
func (s *simulator) retired(ctx context.Context, t *testing.T, r *reconciler.Reconciler, names ...string) (
	*reconciler.Result, []*reconciler.Retirement,
) {
	t.Helper()
	out, all, err := r.Retire(ctx, s.pools(names...))
	check(t, err)
	return out, all
}

// pools are stored pools, by name.
func (s *simulator) pools(names ...string) (all []*ippool.Pool) {
	for _, name := range names {
		all = append(all, ippool.Read[ippool.Pool](s.pool(name)))
	}
	return all
}

// retiring is a reconciler that a person runs.
func (s *simulator) retiring(t *testing.T) *reconciler.Reconciler {
	s.addNAD("elsewhere", network("10.9.0.0/16"))
	r := s.reconciler(t)
	r.Options.ByHand, r.Options.ConfirmAfter = true, 15*time.Minute
	return r
}

func said(all []*reconciler.Retirement) string {
	var texts []string
	for _, x := range all {
		texts = append(texts, strings.TrimSpace(fmt.Sprint(x.Pool.Name, " ", x.State, " ", x.Why())))
	}
	return strings.Join(texts, "; ")
}

func TestRetire_EmptyPool(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.poolOf(bluePool, "10.0.0.0/16")
		s.poolOf(redPool, "10.0.0.0/16")
		r, began := s.retiring(t), time.Now()
		_, all := s.retired(t.Context(), t, r, bluePool)
		same(t, "what became of it", said(all), bluePool+" Retired")
		same(t, "it waited for ADDs in progress", time.Since(began), 2*time.Minute)
		same(t, "the pool", s.pool(bluePool) == nil, true)
		same(t, "another pool", s.pool(redPool) != nil, true)
		same(t, "Leases", fmt.Sprint(s.holds[0].leases), "[whereabouts]")
		same(t, "history", s.records.said(), []string{"Retired kube-system/" + bluePool})
	})
}

// A slice is deleted under its own Lease, too, which is named like it.
func TestRetire_SliceUnderItsOwnLease(t *testing.T) {
	const slice = "worker-9-10.0.0.16-28"
	bubble(t, func(t *testing.T, s *simulator) {
		s.poolOf(slice, "10.0.0.16/28")
		s.nodes = map[string]*podstate.Node{"worker-1": {Name: "worker-1", Ready: true}}
		r := s.retiring(t)
		sliced := network("10.0.0.0/24")
		sliced.Slices, sliced.SliceBits = true, 28
		s.addNAD("sliced", sliced)
		r.Options.ConfirmAfter = 0
		began := time.Now()
		_, all := s.retired(t.Context(), t, r, slice)
		same(t, "what became of it", said(all), slice+" Retired")
		same(t, "the Node was missing for", time.Since(began), 40*time.Second)
		same(t, "Leases", fmt.Sprint(s.holds[0].leases), "[whereabouts "+slice+"]")

		s.poolOf(slice, "10.0.0.16/28")
		s.busy = map[string]int{slice: 100}
		_, all = s.retired(t.Context(), t, r, slice)
		same(t, "while an ADD has its Lease", all[0].State, reconciler.PoolKept)
		same(t, "the pool", s.pool(slice) != nil, true)
	})
}

func TestRetire_LeftoversAreReleasedFirst(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 3)
		r := s.retiring(t)
		out, all := s.retired(t.Context(), t, r, bluePool)
		same(t, "what became of it", said(all), bluePool+" Retired")
		same(t, "released with their reservations", len(out.Released), 6)
		same(t, "what is left", len(s.stored()), 0)
		same(t, "the pool", s.pool(bluePool) == nil, true)
		same(t, "history", len(s.records.said()), 4)
	})
}

// Nothing at all is written into a pool that is kept.
func TestRetire_Kept(t *testing.T) {
	for name, c := range map[string]struct {
		set  func(s *simulator)
		says string
	}{
		"in use": {func(s *simulator) {
			s.entry(bluePool, 7, "default/web", "box-7", true)
			s.pod("web", "u", 7)
		}, "1 in use"},
		"a definition leads to it": {func(s *simulator) { s.aNetwork() }, "leads to it"},
		"everything is paused":     {func(s *simulator) { s.paused = true }, "everything is paused"},
		"a definition cannot be read": {func(s *simulator) {
			s.addNAD("bad", ippool.Network{})
			s.breakNAD("bad")
		}, "cannot be read"},
		"somebody carries an address":    {func(s *simulator) { s.pod("web", "u", 7) }, "carries 10.0.0.7"},
		"it was created again meanwhile": {func(s *simulator) { s.recreate(bluePool) }, "created again"},
	} {
		bubble(t, func(t *testing.T, s *simulator) {
			s.leaks(bluePool, 1)
			r := s.retiring(t)
			asked := s.pools(bluePool)
			c.set(s)
			before := s.stored()
			_, all, err := r.Retire(t.Context(), asked)
			check(t, err)
			if all[0].State != reconciler.PoolKept || !strings.Contains(all[0].Why(), c.says) {
				t.Errorf("%s: %s", name, said(all))
			}
			same(t, name+": stored", s.stored(), before)
			same(t, name+": writes", len(s.made("patch", "delete", "deletepool")), 0)
			same(t, name+": history", s.records.said(), []string{"Refused kube-system/" + bluePool})
		})
	}
}

// breakNAD makes a definition unreadable.
func (s *simulator) breakNAD(name string) {
	for n, nad := range s.nads {
		if n.Name == name {
			nad.Problem, nad.Networks = "it cannot be parsed", nil
		}
	}
}

// recreate deletes a pool and creates it again.
func (s *simulator) recreate(name string) {
	var content *unstructured.Unstructured
	s.changePool(name, func(u *unstructured.Unstructured) { content = u.DeepCopy() })
	s.changePool(name, nil)
	content.SetUID("")
	content.SetResourceVersion("")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(content)
}

// A dry run writes nothing, takes no Lease, and has no history.
func TestRetire_DryRun(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		r := s.retiring(t)
		r.Options.DryRun = true
		out, all := s.retired(t.Context(), t, r, bluePool)
		same(t, "state", all[0].State, reconciler.PoolWould)
		same(t, "would be released", len(out.Refused), 2)
		same(t, "holds", len(s.holds), 0)
		same(t, "history", len(s.records.said()), 0)
	})
}

var retireFaults = map[string]fault{
	"ADD": {before: func(s *simulator) {
		s.pod("new", "n", 1)
		s.fill(bluePool, "1", map[string]any{"id": "box-new", "podref": "default/new", "ifname": "net1"})
	}},
	"ADD of a pod that nobody sees": {before: func(s *simulator) {
		s.fill(bluePool, "1", map[string]any{"id": "box-new", "podref": "default/new", "ifname": "net1"})
	}},
	"definition": {before: func(s *simulator) { s.addNAD("wb", network("10.0.0.0/16")) }},
	"paused": {before: func(s *simulator) {
		s.changePool(bluePool, func(u *unstructured.Unstructured) {
			u.SetAnnotations(map[string]string{ippool.PausedAnnotation: ""})
		})
	}},
	"finalizer": {before: func(s *simulator) {
		s.changePool(bluePool, func(u *unstructured.Unstructured) { u.SetFinalizers([]string{"example.com/x"}) })
	}},
	"recreated": {before: func(s *simulator) { s.recreate(bluePool) }},
}

// Each step of a retirement with each fault. An ADD that happens at any of them keeps its allocation. The golden file
// has what is stored afterwards, and the result.
func TestRetire_StepsAndFaults(t *testing.T) {
	all := maps.Clone(faults)
	maps.DeleteFunc(all, func(name string, f fault) bool {
		return strings.Contains(name, "reservation") || strings.Contains(name, "entry")
	})
	maps.Copy(all, retireFaults)
	var lines []string
	for _, step := range []string{"hold", "refresh", "fresh", "deletepool", "clear"} {
		for _, name := range slices.Sorted(maps.Keys(all)) {
			f, isWrite := all[name], step == "deletepool"
			if f.ofWrite && !isWrite || f.ofHold && step != "hold" || step == "clear" && (f.err != nil || f.before != nil) {
				continue
			}
			inBubble(t, step+" "+name, func(t *testing.T, s *simulator) {
				s.poolOf(bluePool, "10.0.0.0/16")
				ctx, end := context.WithCancel(t.Context())
				defer end()
				r := s.retiring(t)
				asked := s.pools(bluePool)
				s.inject(step, f, end)
				_, out, err := r.Retire(ctx, asked)
				check(t, err)
				is := "deleted"
				if p := s.pool(bluePool); p != nil {
					is = fmt.Sprintf("%d entries", len(s.entries(bluePool)))
				}
				lines = append(lines, fmt.Sprintf("%-10s  %-29s  %s, %s, %d holds", step, name, is, out[0].State, len(s.holds)))
				if out[0].State == reconciler.PoolRetired && is != "deleted" && name != "recreated" {
					t.Errorf("it is said to be retired, and has %s: %v", is, s.calls)
				}
				if strings.HasPrefix(name, "ADD") && s.entries(bluePool)["1"] == nil {
					t.Errorf("the allocation of an ADD is lost: %v", s.calls)
				}
				if len(s.holds) > 15 {
					t.Errorf("it took %d holds", len(s.holds))
				}
			})
		}
	}
	golden(t, "retire_steps.txt", lines)
}

// A delete that is answered late, when an ADD has created the pool again, ends nothing.
func TestRetire_LateDelete(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.poolOf(bluePool, "10.0.0.0/16")
		removal, err := ippool.NewRemoval(s.pools(bluePool)[0])
		check(t, err)
		s.fill(bluePool, "1", map[string]any{"id": "box-new", "podref": "default/new", "ifname": "net1"})
		err = s.Hold(t.Context(), "kube-system", []string{"whereabouts"}, func(ctx context.Context, h apply.Session) error {
			return h.DeletePool(ctx, removal)
		})
		same(t, "the entry", s.entries(bluePool)["1"] != nil, true)
		same(t, "refused", err != nil, true)
	})
}
