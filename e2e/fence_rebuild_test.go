//go:build slow

package e2e

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/agent/cri/critest"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// TestAfterARestoreThePoolsSayBehindTheFenceWhatRuns has agents on made-up nodes whose
// sandboxes are all newer than the backup, and measures how long it takes until each
// address has its entry and its reservation again.
func TestAfterARestoreThePoolsSayBehindTheFenceWhatRuns(t *testing.T) {
	type size struct{ addresses, pools, nodes int }
	sizes := []size{{60, 1, 2}}
	if os.Getenv("IP_RECONCILE_RESTORES") != "" { // to measure
		sizes = []size{{12, 1, 2}, {60, 1, 2}, {5000, 10, 20}}
	} else {
		t.Parallel()
	}
	for _, c := range sizes {
		t.Run(fmt.Sprint(c.addresses), func(t *testing.T) {
			s := newStageWithReports(t)
			cidr := func(pool int) string { return fmt.Sprintf("10.%d.0.0/22", pool+1) }
			for pool := range c.pools {
				check(t, s.CreateNAD(t.Context(), simple(fmt.Sprint("net-", pool), cidr(pool))))
				s.pool(t, strings.ReplaceAll(cidr(pool), "/", "-"), cidr(pool), map[string]any{})
			}
			var nodes []*fakeNode
			for n := range c.nodes {
				node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("worker-%d", n+1)}}
				try(s.Client().CoreV1().Nodes().Create(t.Context(), node, metav1.CreateOptions{})).must(t)
				nodes = append(nodes, newFakeNode(t, node.Name, critest.Containerd))
			}
			restore := s.backup(t)

			each := c.addresses / c.nodes
			for n, node := range nodes {
				var sandboxes []critest.Sandbox
				for i := n * each; i < (n+1)*each; i++ {
					offset := i/c.pools + 1
					sandboxes = append(sandboxes, node.sandbox(t, i, cidr(i%c.pools), fmt.Sprintf("10.%d.%d.%d", i%c.pools+1, offset/256, offset%256)))
				}
				node.Set(sandboxes...)
				node.agent(t, s.Kubeconfig())
			}
			for _, node := range nodes {
				s.reported(t, node.name, "its sandboxes", func(r *v1alpha1.SandboxReport) bool { return len(r.Sandboxes) == each })
			}
			s.outgrows(t, s.revision(t)+200) // what the API server writes at its start comes to less
			replicas := []*server{s.replica(t, s.Kubeconfig(), "--repair"), s.replica(t, s.Kubeconfig(), "--repair")}
			eventually(t, "both replicas to watch", func() bool { return replicas[0].ready() && replicas[1].ready() })
			time.Sleep(2 * time.Second) // for a pulse that sees the newest revision
			equal(t, "entries and reservations", len(s.contents(t)), 0)

			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			fenced := s.fencedAfter(ctx)
			restore()
			answers := time.Now()
			var after time.Duration
			select {
			case after = <-fenced:
			case <-ctx.Done():
				t.Fatal("no fence stands")
			}
			stood := time.Now()
			eventuallyWithin(t, 2*time.Minute, "all to be back", func() bool { return len(s.contents(t)) == 2*c.addresses })
			rebuilt := time.Since(answers)
			s.lowered(t)
			t.Logf("%d addresses in %d pools, of %d nodes: the fence stood %s after the API server's first answer and for some %.0fs; all entries and reservations were back %.1fs after that answer",
				c.addresses, c.pools, c.nodes, after.Round(time.Millisecond), time.Since(stood).Seconds(), rebuilt.Seconds())
			// It is counted after the Leases are given back.
			eventuallyWithin(t, time.Minute, "one fence to have ended because all was settled", func() bool {
				settled := 0.0
				for _, v := range replicas {
					if v.runs() {
						settled += v.metric(`ip_reconcile_fences_total{outcome="Settled"}`)
					}
				}
				return settled == 1
			})
		})
	}
}
