// Package fill writes a cluster's pods, pools and reservations directly to etcd, which takes seconds where the API
// server would take many minutes. The objects are as large as real ones, and always the same.
package fill

import (
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// A Content is the content of a cluster.
type Content struct {
	// Pods have an address each. Pending of them, evenly spread, have no network-status yet.
	Pods, Pending int
	// Stale allocations, with their reservations, belong to pods that do not exist.
	Stale int
	// Pools have the same number of allocations each.
	Pools int
	// Nodes run the pods.
	Nodes int
	// Reports is whether every node has a SandboxReport, in which the sandboxes of the stale allocations are gone.
	Reports bool
	// NoGrace gives the pods no grace period: a pod with one may outlive its object by it, so its address is held that
	// long.
	NoGrace bool
	// Made is the time of this state, in whole seconds.
	Made time.Time

	vouching sync.Mutex // a report and its Lease go together
	mu       sync.Mutex
	gone     map[int]bool // sandboxes that reports list as gone
}

// Entries is the number of allocations in all pools.
func (c *Content) Entries() int { return c.Pods + c.Stale }

// An Entry is an allocation with its reservation and its pool.
type Entry struct {
	Pool, Key       int
	IP              string
	Namespace, Name string // of the pod
	UID             types.UID
	Node            int
	Sandbox         string // the container id
	Stale, Pending  bool
}

// PodRef is the entry's owner as whereabouts writes it.
func (e *Entry) PodRef() string { return e.Namespace + "/" + e.Name }

// Entry is the allocation of an index from 0. Those of a pool follow one another.
func (c *Content) Entry(i int) *Entry {
	n := c.Entries()
	pool := i * c.Pools / n
	first := (pool*n + c.Pools - 1) / c.Pools
	key := i - first + 1
	e := &Entry{
		Pool: pool, Key: key, IP: fmt.Sprintf("10.%d.%d.%d", pool, key>>8, key&255),
		Namespace: namespaces[i%len(namespaces)], Name: podName(i), UID: uid("pod", i),
		Node: i % c.Nodes, Sandbox: sandboxID(i), Stale: oneOf(i, c.Stale, n),
	}
	e.Pending = !e.Stale && oneOf(i+n/2, c.Pending, c.Pods)
	return e
}

// oneOf reports whether i is among those of n that are chosen, evenly spread.
func oneOf(i, chosen, n int) bool { return (i+1)*chosen/n > i*chosen/n }

// PoolName is whereabouts' name of a pool.
func PoolName(pool int) string { return fmt.Sprintf("10.%d.0.0-16", pool) }

// PoolRange is its range.
func PoolRange(pool int) string { return fmt.Sprintf("10.%d.0.0/16", pool) }

// NodeName is as long as the node names of clouds.
func NodeName(node int) string {
	return fmt.Sprintf("ip-10-240-%d-%d.eu-central-1.compute.internal", node>>8, node&255)
}

var (
	namespaces = []string{
		"payments", "checkout", "inventory-production", "observability", "platform-ingress", "streaming-eu-central",
		"machine-learning-serving", "customer-identity", "billing-reports", "default",
	}
	apps = []string{
		"ledger-projection-worker", "api-gateway", "session-cache", "order-fulfilment-consumer", "telemetry-collector",
		"packet-core-user-plane", "media-transcoder", "fraud-scoring-model", "stateful-index-writer",
		"notification-dispatcher",
		"price-catalogue-sync",
	}
)

// Namespaces are the namespaces of the pods.
func Namespaces() []string { return namespaces }

func app(i int) string { return apps[i%len(apps)] }

// hashed is short, like the hash of a pod template.
func hashed(what string, i int) string {
	sum := sha1.Sum(fmt.Appendf(nil, "%s-%d", what, i))
	return hex.EncodeToString(sum[:])
}

func replicaSet(i int) string { return app(i) + "-" + hashed("template", i/20)[:10] }

// podName ends as the API server generates names, and is unique.
func podName(i int) string {
	const letters = "bcdfghjklmnpqrstvwxz2456789"
	suffix := make([]byte, 5)
	for k, rest := 0, i; k < len(suffix); k++ {
		suffix[k], rest = letters[rest%len(letters)], rest/len(letters)
	}
	return replicaSet(i) + "-" + string(suffix)
}

func sandboxID(i int) string {
	sum := sha256.Sum256(fmt.Appendf(nil, "sandbox-%d", i))
	return hex.EncodeToString(sum[:])
}

func uid(what string, i int) types.UID {
	h := hashed("uid-"+what, i)
	return types.UID(h[:8] + "-" + h[8:12] + "-4" + h[13:16] + "-8" + h[17:20] + "-" + h[20:32])
}

// age is the creation time of the i-th object: within the day before.
func (c *Content) age(i int) metav1.Time {
	return metav1.NewTime(c.Made.Add(-time.Hour - time.Duration(i%86400)*time.Second))
}

func written(manager, subresource string, at metav1.Time, fields string) metav1.ManagedFieldsEntry {
	return metav1.ManagedFieldsEntry{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: "v1", Time: &at,
		FieldsType: "FieldsV1", FieldsV1: metav1.NewFieldsV1(fields), Subresource: subresource,
	}
}
