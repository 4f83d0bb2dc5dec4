package agent_test

import (
	"context"
	"fmt"
	"log/slog"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// crowd are 250 sandboxes that have stopped, of which the first 100 are so.
func crowd(n *aNode, so func(*critest.Sandbox)) []critest.Sandbox {
	all := make([]critest.Sandbox, 250)
	for i := range all {
		all[i] = web(fmt.Sprintf("%03x", i))
		all[i].NotReady, all[i].Closed = true, true
		if i < 100 {
			so(&all[i])
		}
	}
	n.runs(all...)
	return all
}

// memoryStore is a Store that remembers.
type memoryStore struct {
	store
	reports chan *v1alpha1.SandboxReport
}

func (k memoryStore) Publish(_ context.Context, r *v1alpha1.SandboxReport) error {
	k.reports <- r.DeepCopy()
	return nil
}

func (k memoryStore) Renew(context.Context) error { return nil }

func TestAHundredHungShimsOf250CostOnlyThemselves(t *testing.T) {
	for name, so := range map[string]func(*critest.Sandbox){
		"that hang":         func(s *critest.Sandbox) { s.Hung = true },
		"that hang wholly":  func(s *critest.Sandbox) { s.Hung, s.Deaf = true, true },
		"that were killed":  func(s *critest.Sandbox) { s.Away = true },
		"that are not told": func(s *critest.Sandbox) { s.Broken = true },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode(t, critest.Containerd)
			all := crowd(n, so)
			k := memoryStore{store: store{scene: &scene{T: t, began: time.Now()}}, reports: make(chan *v1alpha1.SandboxReport, 9)}
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan struct{})
			a := &agent.Agent{Node: "worker-1", Inspector: n.NodeInspector, Store: k, Health: agent.NewHealth(slog.New(slog.DiscardHandler), prometheus.NewRegistry()),
				Identity: func(context.Context, *v1alpha1.SandboxReport) (agent.Identity, error) {
					return agent.Identity{BootID: "boot-1"}, nil
				}}
			began := time.Now()
			go func() { a.Run(ctx); close(ended) }()
			r := <-k.reports
			if took := time.Since(began); took > 40*time.Second {
				t.Errorf("the report took %s", took)
			}
			closed := map[string]int{}
			for i := range r.Sandboxes {
				closed[networkState(r.Sandboxes[i].NetworkClosed)]++
			}
			equal(t, "networks", closed, map[string]int{"not known": 100, "closed": 150})
			if err := a.Health.Alive(); err != nil {
				t.Error(err)
			}
			stop()
			<-ended
			equal(t, "unread", len(n.Unreadable()), 100)
			n.runs(all[100:]...)
			n.inspect()
			equal(t, "unread when they are gone", len(n.Unreadable()), 0)
		})
	}
}
