//go:build !slow && !cluster

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// TestRelease_ByHand releases what is stale, and refuses the rest.
func TestRelease_ByHand(t *testing.T) {
	t.Parallel()
	s := newStageWithReports(t, "worker-1")
	agent := s.agent(t, "worker-1")
	ended, runs := s.up(t, "worker-1", "ended", blue), s.up(t, "worker-1", "runs", blue)
	paused := s.up(t, "worker-1", "paused", simple("red", "10.3.0.0/24"))
	for _, p := range []*pod{ended, runs, paused} {
		p.forceDelete(t)
	}
	agent.writeReport(t, ended.stopped(), runs.listed(v1alpha1.SandboxReady), paused.stopped())
	s.patch(t, harness.IPPools, "10.3.0.0-24", pausing("true"))
	before := s.contents(t)

	kept := s.product(t, "release", runs.ips[0], paused.ips[0], "--yes")
	kept.exits(t, 1)
	contains(t, "what is said", kept.stderr, "Nothing that was selected can be released")
	s.checkReleased(t, before)

	out := s.beginProduct(t, "release", ended.ips[0], runs.ips[0], "--yes", "--kubeconfig", s.Kubeconfig()).wait()
	equal(t, "exit code", out.code, 1) // one of them runs
	contains(t, "the screen", out.stdout, "container id     "+ended.sandbox.ID[:13], "RELEASED (1)", "PhantomPod",
		"crictl stopp")
	contains(t, "the log", out.stderr, "msg=Released", "address="+ended.ips[0], "isOverridden=false")
	s.checkReleased(t, before, stored(ended)...)
	s.product(t, "release", ended.ips[0], "--yes").exits(t, 1) // it is released already
}

// TestRelease_Override: without agents nothing shows whether a pod runs on a node that is not Ready.
func TestRelease_Override(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	lost, other := s.up(t, "worker-2", "lost", blue), s.up(t, "worker-2", "other", blue)
	check(t, s.nodes["worker-2"].SetReady(t.Context(), false))
	lost.forceDelete(t)
	other.forceDelete(t)
	before := s.contents(t)
	out := s.product(t, "release", "--on-node", "worker-2", "--yes")
	out.exits(t, 1)
	s.checkReleased(t, before)
	const because = "the machine was scrapped"
	out = s.product(t, "release", lost.ips[0], "--yes", "--override", "NodeUnreachable", "--because", because)
	out.exits(t, 0)
	contains(t, "the log", out.stderr, "isOverridden=true", `because="`+because+`"`)
	contains(t, "the message", out.Released[0].Message, "a person asserts")
	s.checkReleased(t, before, stored(lost)...)
}

// TestRelease_RacedByItsPod releases 100 leaks by hand while their pods come back, each with a real ADD: an ADD takes
// over the allocation of its pod's name.
func TestRelease_RacedByItsPod(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	for name, flags := range map[string][]string{"under the Lease": nil, "without the Lease": {"--without-lease"}} {
		s.play(t, name, func(t *testing.T) {
			const rounds, leaks = 5, 10
			entries, others := map[string]any{}, map[string]any{}
			for i := 1; i <= rounds*leaks; i++ {
				ip, podRef := fmt.Sprint("10.1.0.", i), fmt.Sprint("default/web-", i)
				entries[fmt.Sprint(i)] = entry(podRef, fmt.Sprint("box-", i))
				s.reservation(t, ip, podRef, 0)
			}
			for i := 1; i <= 3*rounds*leaks; i++ { // so that the breaker does not refuse
				others[fmt.Sprint(i)] = entry("default/other", noID)
			}
			s.pool(t, "10.1.0.0-24", "10.1.0.0/24", entries)
			s.pool(t, "10.9.0.0-24", "10.9.0.0/24", others)
			pods, released, tries := make([]*pod, rounds*leaks), 0, 1
			if len(flags) > 0 {
				tries = 5
			}
			for round := range rounds {
				args := append([]string{"release", "--yes", "-o", "json", "--kubeconfig", s.Kubeconfig()}, flags...)
				var adds errgroup.Group
				adds.SetLimit(4)
				for i := round * leaks; i < (round+1)*leaks; i++ {
					args = append(args, fmt.Sprint("10.1.0.", i+1))
				}
				release := s.beginProduct(t, args...)
				for i := round * leaks; i < (round+1)*leaks; i++ {
					adds.Go(func() (err error) {
						pods[i], err = s.returns(t, "worker-2", fmt.Sprint("web-", i+1), blue, tries)
						return err
					})
				}
				err, out := adds.Wait(), release.wait()
				check(t, err)
				if out.code > 1 {
					t.Fatalf("exit code %d: %s", out.code, out.stderr)
				}
				released += len(out.Released)
			}
			t.Logf("%d of %d places released", released, 2*len(pods))
			all, users := s.contents(t), map[string]string{}
			for _, p := range pods {
				places := stored(p)
				want := fmt.Sprintf(`{"id":"%s","ifname":"net1","podref":"default/%s"}`, p.sandbox.ID, p.Name)
				equal(t, p.Name, all[places[0]], want)
				if all[places[1]] == "" || users[p.ips[0]] != "" {
					t.Errorf("%s of %s has no reservation, or is %s's, too", p.ips[0], p.Name, users[p.ips[0]])
				}
				users[p.ips[0]] = p.Name
			}
		})
	}
}

// returns creates a pod again and attaches it. An ADD that fails is followed by a DEL, and repeated in another sandbox,
// as kubelet does. Without the Lease one may fail: it finds no reservation and creates one, while the release, which
// has read by then that the allocation is the ADD's, recreates the deleted one.
func (s *stage) returns(t testing.TB, node, name string, network harness.Network, tries int) (*pod, error) {
	ctx := context.Background()
	object, err := s.CreatePod(ctx, "default", name, node, network)
	if err != nil {
		return nil, err
	}
	p, failed := &pod{Pod: object, s: s, node: s.nodes[node]}, error(nil)
	for range tries {
		sandbox, err := p.node.NewSandbox()
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { sandbox.Close() })
		p.sandbox = sandbox
		a := harness.Attachment{Sandbox: p.sandbox, Namespace: p.Namespace, Pod: name, UID: string(p.UID), IfName: "net1",
			Network: network}
		if failed = p.add(a); failed == nil {
			return p, nil
		}
		if err := errors.Join(p.node.Del(ctx, a), sandbox.Close()); err != nil {
			return nil, err
		}
	}
	return nil, failed
}

// once calls happen at the first request for which is holds.
func once(is func(r *http.Request) bool, happen func()) func(r *http.Request) {
	happen = sync.OnceFunc(happen)
	return func(r *http.Request) {
		if is(r) {
			happen()
		}
	}
}

// asks matches requests by their method and a part of their path.
func asks(method, part string) func(r *http.Request) bool {
	return func(r *http.Request) bool { return r.Method == method && strings.Contains(r.URL.Path, part) }
}

// has checks that 10.1.0.1 on blue is a pod's: the allocation and the reservation.
func (s *stage) has(t *testing.T, p *pod) (reservationUID string) {
	t.Helper()
	stored := s.contents(t)
	uid, reservation, _ := strings.Cut(stored["reservation 10.1.0.1"], " ")
	equal(t, "the entry", stored["10.1.0.0-24 1"], fmt.Sprintf(`{"id":"%s","ifname":"net1","podref":"default/%s"}`,
		p.sandbox.ID, p.Name))
	equal(t, "the reservation", reservation, fmt.Sprintf(`{"ifname":"net1","podref":"default/%s"}`, p.Name))
	return uid
}

// TestRace_PodComesBack leaks 10.1.0.1 of web and recreates web at every moment of the release. ADD
// finds the allocation by name, takes it over, and keeps a reservation that exists. Without the Lease ADDs may run at
// any moment: what the Lease makes rare must be safe all the same.
func TestRace_PodComesBack(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	for _, moment := range []struct {
		name      string
		is        func(r *http.Request) bool
		answered  bool // after the request; else before
		recreated bool // the reservation in the end is not the one that ADD kept or created
	}{
		{"before the live read", asks(http.MethodGet, "/ippools/10.1.0.0-24"), false, false},
		{"between the live read and the first write", asks(http.MethodGet, "/pods/web"), true, true},
		{"just before its reservation is deleted", asks(http.MethodDelete, "/overlappingrangeipreservations/"), false, true},
		{"just after that, so that ADD makes its own", asks(http.MethodPatch, "/ippools/"), false, false},
	} {
		s.play(t, moment.name, func(t *testing.T) {
			s.up(t, "worker-1", "web", blue).leak(t)
			var web *pod
			var addLeft string // the reservation, by its UID, when ADD returned
			back := once(moment.is, func() {
				web = s.pending(t, "worker-2", "web", blue)
				addLeft = s.has(t, web)
			})
			l, kubeconfig := s.link(t)
			if moment.answered {
				l.suffers(faults{answered: back})
			} else {
				l.suffers(faults{refuse: func(r *http.Request) int { back(r); return 0 }})
			}
			out := s.productAs(t, kubeconfig, "run", "--confirm-after", "0", "--without-lease")
			equal(t, "put back", s.has(t, web) != addLeft, moment.recreated)
			equal(t, "released", places(out.Released), "")
		})
	}
}

// TestRace_TwoRunsAtOnce: an operator can run the command while a CronJob does.
func TestRace_TwoRunsAtOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	for name, flags := range map[string][]string{"under the Lease": nil, "without the Lease": {"--without-lease"}} {
		s.play(t, name, func(t *testing.T) {
			live := s.up(t, "worker-1", "live", blue)
			var leaks []string
			for _, name := range []string{"a", "b", "c", "d"} {
				leaks = append(leaks, stored(s.up(t, "worker-2", name, blue).leak(t))...)
			}
			before := s.contents(t)
			var judged sync.WaitGroup // both have, when each begins to act
			judged.Add(2)
			var both [2]*outcome
			var running errgroup.Group
			for i := range both {
				begins := once(func(r *http.Request) bool {
					return asks(http.MethodGet, "/ippools/")(r) || strings.HasSuffix(r.URL.Path, "/leases/whereabouts")
				}, func() { judged.Done(); judged.Wait() })
				through := s.onRequest(t, begins)
				running.Go(func() error {
					both[i] = s.productAs(t, through, slices.Concat([]string{"run", "--confirm-after", "0"}, flags)...)
					return nil
				})
			}
			check(t, running.Wait())
			s.checkReleased(t, before, leaks...)
			s.has(t, live)
			entries := 0
			for _, out := range both {
				out.exits(t, 0)
				for _, i := range out.Released {
					if i.Reservation == "" {
						entries++
					}
				}
			}
			equal(t, "entries released by both", entries, 4)
		})
	}
}

// TestRace_PodsDuringARun starts a pod after each answer that a run gets, up to
// twelve. The plugin waits for the Lease, so none starts while the run holds it.
func TestRace_PodsDuringARun(t *testing.T) {
	t.Parallel()
	s := newStage(t, "worker-1", "worker-2")
	s.up(t, "worker-1", "leaked", blue).leak(t)
	var came []*pod
	var mu sync.Mutex // reads come several at once
	l, kubeconfig := s.link(t)
	l.suffers(faults{answered: func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.Method == http.MethodGet && len(came) < 12 && !strings.Contains(r.URL.Path, "lease") {
			came = append(came, s.up(t, "worker-2", fmt.Sprintf("new-%d", len(came)), blue))
		}
	}})
	out := s.productAs(t, kubeconfig, "run", "--confirm-after", "0")
	equal(t, "released", places(out.Released), "10.1.0.0-24 10.1.0.1, reservation 10.1.0.1")
	all := s.contents(t)
	for _, p := range came {
		for _, place := range stored(p) {
			if all[place] == "" {
				t.Errorf("%s of %s, which came meanwhile, was released", place, p.Name)
			}
		}
	}
	if len(came) == 0 {
		t.Error("no pod came meanwhile")
	}
}
