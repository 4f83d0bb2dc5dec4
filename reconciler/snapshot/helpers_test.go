package snapshot_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

const home = "ip-reconcile" // the reconciler's own namespace

var noon = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

// tester is what *testing.T and *rapid.T have in common.
type tester interface {
	Helper()
	Fatalf(format string, args ...any)
	Errorf(format string, args ...any)
}

// folder writes files, by their path in the folder, and returns the folder.
func folder(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		write(t, filepath.Join(dir, name), text)
	}
	return dir
}

func write(t tester, path, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatalf("%v", err)
	}
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatalf("%v", err)
	}
}

func open(t tester, dir string) *snapshot.Snapshot {
	t.Helper()
	f, err := snapshot.Open(dir, noon, home)
	if err != nil {
		t.Fatalf("open: %v", err)
	}
	return f
}

func observe(t tester, f *snapshot.Snapshot) *facts.Observation {
	t.Helper()
	o, err := f.List(context.Background())
	if err != nil {
		t.Fatalf("observe: %v", err)
	}
	return o
}

// observeFile opens a folder of one file beside a pool, and observes it.
func observeFile(t *testing.T, text string) *facts.Observation {
	t.Helper()
	return observe(t, open(t, folder(t, map[string]string{"pool.yaml": onePool, "other.yaml": text})))
}

func poolNamed(t tester, o *facts.Observation, name string) *ippool.Pool {
	t.Helper()
	for _, p := range o.Pools {
		if p.Name == name {
			return p
		}
	}
	t.Fatalf("no pool %s", name)
	return nil
}

func reservationNamed(t tester, o *facts.Observation, name string) *ippool.Reservation {
	t.Helper()
	for _, r := range o.Reservations.Or(nil) {
		if r.Name == name {
			return r
		}
	}
	t.Fatalf("no reservation %s", name)
	return nil
}

func equal[T comparable](t tester, what string, got, want T) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got %v, want %v", what, got, want)
	}
}

func name(namespace, name string) types.NamespacedName {
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// onePool is a pool as 'kubectl get ippool -o yaml' writes one.
const onePool = `apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: IPPool
metadata:
  creationTimestamp: "2026-01-01T00:00:00Z"
  generation: 9
  name: 10.0.0.0-24
  namespace: kube-system
  resourceVersion: "1234"
  uid: 6f7d1f2c-8f0e-4a3e-9f4e-2f0c0f5f9a10
spec:
  allocations:
    "5":
      id: c5
      ifname: net1
      podref: default/a
    "6":
      id: c6
      ifname: net1
      podref: default/b
  range: 10.0.0.0/24
`

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
