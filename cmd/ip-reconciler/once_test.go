package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/servecmd"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

const pool = `apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: IPPool
metadata: {name: 10.1.0.0-24, namespace: kube-system, resourceVersion: "7", uid: pool-uid}
spec: {range: 10.1.0.0/24, allocations: {%s}}
---
apiVersion: v1
kind: Pod
metadata: {name: whereabouts, namespace: kube-system, uid: pod-uid}
`

const reservation = `apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: OverlappingRangeIPReservation
metadata: {name: 10.1.0.5, namespace: kube-system, resourceVersion: "8", uid: res-uid, creationTimestamp: "1999-12-31T00:00:00Z"}
spec: {podref: default/gone, ifname: net1}
`

const leak = `"5": {id: c05, podref: default/gone, ifname: net1}`

// leaks are so many entries whose pods are gone.
func leaks(n int) string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprintf(`"%d": {id: c%d, podref: default/gone-%d, ifname: net1}`, i+1, i, i))
	}
	return strings.Join(all, ", ")
}

// A cluster is a snapshot that can be written to, in which time passes, and which fails as a test says.
type cluster struct {
	objects                      []*unstructured.Unstructured
	looks                        int
	failFrom                     int // the look from which on none can be made; 0 for never
	errHold, errPatch, errDelete error
	beginsTo                     func(look int)
}

// add reads documents of YAML.
func (c *cluster) add(t *testing.T, text string) {
	t.Helper()
	for document := range strings.SplitSeq(text, "---\n") {
		u := &unstructured.Unstructured{}
		if err := yaml.Unmarshal([]byte(document), &u.Object); err != nil {
			t.Fatal(err)
		}
		c.objects = append(c.objects, u)
	}
}

func (c *cluster) text() string {
	var all strings.Builder
	for _, u := range c.objects {
		text, _ := u.MarshalJSON()
		all.Write(text)
	}
	return all.String()
}

func (c *cluster) List(ctx context.Context) (*judge.Observation, error) {
	c.looks++
	if c.beginsTo != nil {
		c.beginsTo(c.looks)
	}
	if c.failFrom > 0 && c.looks >= c.failFrom {
		return nil, errors.New("the API server cannot be reached")
	}
	return c.Relist(ctx, nil)
}

func (c *cluster) Relist(ctx context.Context, _ *judge.Observation) (*judge.Observation, error) {
	s, err := snapshot.OpenStream("the cluster", strings.NewReader(c.text()), time.Now(), "kube-system")
	if err != nil {
		return nil, err
	}
	o, err := s.List(ctx)
	o.Static = false
	return o, err
}

func (c *cluster) GetLive(context.Context, *judge.Observation, reconciler.LiveKeys) (*judge.Live, error) {
	return &judge.Live{}, nil
}

func (c *cluster) Hold(ctx context.Context, _ string, _ []string, work func(context.Context, *reconciler.Hold) error) error {
	if c.errHold != nil {
		return c.errHold
	}
	return work(ctx, &reconciler.Hold{})
}

func (c *cluster) at(kind, name string) int {
	return slices.IndexFunc(c.objects, func(u *unstructured.Unstructured) bool { return u.GetKind() == kind && u.GetName() == name })
}

func (c *cluster) PatchPool(_ context.Context, p *ippool.Pool, patch []byte) (string, error) {
	if c.errPatch != nil {
		return "", c.errPatch
	}
	i := c.at("IPPool", p.Name)
	patched, err := judgetest.ApplyPatch(c.objects[i], patch)
	if err == nil {
		c.objects[i] = patched
	}
	return p.ResourceVersion, err
}

func (c *cluster) DeleteReservation(_ context.Context, r *ippool.Reservation) error {
	if c.errDelete != nil {
		return c.errDelete
	}
	i := c.at("OverlappingRangeIPReservation", r.Name)
	c.objects = slices.Delete(c.objects, i, i+1)
	return nil
}

func (c *cluster) CreatePool(context.Context, *unstructured.Unstructured) (string, error) {
	return "", errors.ErrUnsupported
}

func (c *cluster) CreateReservation(context.Context, *unstructured.Unstructured) error {
	return errors.ErrUnsupported
}

func TestOnePassEndsWithTheExitCodesOfV05(t *testing.T) {
	const waits = 15 * time.Minute
	cases := []struct {
		name, cluster string
		fails         cluster
		stopAt        int // look at which the pass is told to end
		code          int
		took          time.Duration // at least
		says          []string
	}{
		{name: "nothing is stale", cluster: fmt.Sprintf(pool, ""), code: exitDone,
			says: []string{"starting reconciler run", "no IP addresses to cleanup", "reconciler run succeeded"}},
		{name: "a leak is freed when it is confirmed", cluster: fmt.Sprintf(pool, leak) + "---\n" + reservation, code: exitDone, took: waits,
			says: []string{"waiting before the next pass", "successfully cleanup IPs: [10.1.0.5]", "removed stale overlappingIP allocation [kube-system/10.1.0.5]", "reconciler run succeeded"}},
		{name: "a reservation alone", cluster: fmt.Sprintf(pool, "") + "---\n" + reservation, code: exitDone, took: waits,
			says: []string{"no IP addresses to cleanup", "removed stale overlappingIP allocation [kube-system/10.1.0.5]"}},
		{name: "no look", cluster: fmt.Sprintf(pool, leak), fails: cluster{failFrom: 1}, code: exitNotObserved,
			says: []string{"reconciler run failed: the API server cannot be reached"}},
		{name: "no look any more", cluster: fmt.Sprintf(pool, leak), fails: cluster{failFrom: 3}, code: exitNotObserved,
			says: []string{"could not read the cluster again", "reconciler run failed: 1 allocations and reservations seem stale"}},
		{name: "no right to patch", cluster: fmt.Sprintf(pool, leak), fails: cluster{errPatch: reconciler.ErrForbidden}, code: exitAllocations, took: waits,
			says: []string{"not released", "reconciler run failed: 1 allocations and 0 reservations"}},
		{name: "no right to delete a reservation that has an allocation", cluster: fmt.Sprintf(pool, leak) + "---\n" + reservation,
			fails: cluster{errDelete: reconciler.ErrForbidden}, code: exitAllocations, took: waits},
		{name: "no right to delete a reservation", cluster: fmt.Sprintf(pool, "") + "---\n" + reservation,
			fails: cluster{errDelete: reconciler.ErrForbidden}, code: exitReservations, took: waits,
			says: []string{"reconciler run failed: 1 reservations"}},
		{name: "no right to the Lease", cluster: fmt.Sprintf(pool, leak), fails: cluster{errHold: reconciler.ErrLeaseForbidden}, code: exitAllocations, took: waits},
		{name: "the Lease is always taken", cluster: fmt.Sprintf(pool, leak), fails: cluster{errHold: reconciler.ErrLeaseBusy}, code: exitAllocations, took: waits},
		{name: "the pool always changes", cluster: fmt.Sprintf(pool, leak), fails: cluster{errPatch: reconciler.ErrConflict}, code: exitAllocations, took: waits},
		{name: "the breaker", cluster: fmt.Sprintf(pool, leaks(30)), code: exitAllocations, took: waits, says: []string{"mass release refused"}},
		{name: "a paused pool", cluster: strings.Replace(fmt.Sprintf(pool, leak), "metadata: {", `metadata: {annotations: {ip-reconcile.dev/paused: "true"}, `, 1), code: exitDone,
			says: []string{"reconciler run succeeded"}},
		{name: "told to end while it waits", cluster: fmt.Sprintf(pool, leak), stopAt: 3, code: exitDone,
			says: []string{"reconciler run failed: it was told to end"}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			c.fails.add(t, c.cluster)
			before := c.fails.text()
			synctest.Test(t, func(t *testing.T) {
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				c.fails.beginsTo = func(look int) {
					if look == c.stopAt {
						stop()
					}
				}
				var logs bytes.Buffer
				o, f := &servecmd.Options{}, pflag.NewFlagSet("", pflag.ContinueOnError)
				o.Add(f, "debug")
				r, err := o.Reconciler(slog.New(slog.NewTextHandler(&logs, &slog.HandlerOptions{Level: slog.LevelDebug})))
				if err != nil {
					t.Fatal(err)
				}
				r.Source, r.Writer = &c.fails, &c.fails
				began := time.Now()
				if code := makePass(ctx, r); code != c.code {
					t.Errorf("exit code %d, want %d", code, c.code)
				}
				if took := time.Since(began); took < c.took || c.took == 0 && took > 10*time.Minute {
					t.Errorf("it took %s, want %s at least", took, c.took)
				}
				for _, want := range c.says {
					if !strings.Contains(logs.String(), want) {
						t.Errorf("the log does not have %q", want)
					}
				}
				text := c.fails.text()
				freed := c.code == exitDone && c.took > 0
				if freed && strings.Contains(text, "default/gone") {
					t.Errorf("what should have been freed is still there:\n%s", text)
				}
				if !freed && text != before {
					t.Errorf("the cluster was changed:\n%s", text)
				}
				if t.Failed() {
					t.Logf("the log:\n%s", logs.String())
				}
			})
		})
	}
}
