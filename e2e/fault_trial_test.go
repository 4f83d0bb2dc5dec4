//go:build slow

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// A faultTrial starts and ends pods by the real plugin, some without their DEL, while the product works under a fault.
// Agents, if there are any, report what runs. The trial knows every address in use, every version of the pools, and by
// the audit log who wrote it.
type faultTrial struct {
	*stage
	*ledger
	networks            []*stormNetwork
	pools, reservations *history
	agents              []*agent // none without a fault: the storm

	since uint64 // the revision from which on the operations on pools are recorded

	mu         sync.Mutex
	content    map[string][]any // of the agents' reports, beside the ledger's
	operations []*operation

	adds, failedADDs, dels, released, longestADD atomic.Int64
}

// A stormNetwork knows the names of whereabouts' objects for it.
type stormNetwork struct {
	harness.Network
	scope       string // its network_name
	pool        func(node string) string
	reservation func(address string) string
}

func theNames(n harness.Network) *stormNetwork {
	scope, _ := n.IPAM["network_name"].(string)
	prefix := scope
	if prefix != "" {
		prefix += "-"
	}
	return &stormNetwork{n, scope,
		func(string) string { return prefix + strings.ReplaceAll(n.IPAM["range"].(string), "/", "-") },
		func(address string) string { return prefix + address }}
}

// newFaultTrial begins a trial on two nodes.
func newFaultTrial(t *testing.T, s *stage, withAgents bool, networks ...*stormNetwork) *faultTrial {
	t.Helper()
	r := &faultTrial{stage: s, ledger: &ledger{live: map[string]*holding{}}, networks: networks,
		content: map[string][]any{}}
	for _, n := range networks {
		check(t, s.CreateNAD(t.Context(), n.Network))
	}
	try(s.programs()).must(t)
	r.pools, r.reservations = s.record(t, harness.IPPools), s.record(t, harness.Reservations)
	ctx, cancel := context.WithCancel(context.Background())
	var working sync.WaitGroup
	for _, node := range []string{"worker-1", "worker-2"} {
		if !withAgents {
			continue
		}
		a := s.agent(t, node)
		a.change(func() { a.patient = true })
		r.agents = append(r.agents, a)
		working.Go(func() { r.report(ctx, a) })
	}
	t.Cleanup(func() { cancel(); working.Wait() })
	return r
}

// report makes an agent report what runs on its node, soon after a change.
func (r *faultTrial) report(ctx context.Context, a *agent) {
	last := "nothing"
	for tick := time.NewTicker(300 * time.Millisecond); ; {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			content := r.runsOn(a.node)
			if now := fmt.Sprint(content); now != last && a.write(content...) == nil {
				last = now
			}
		}
	}
}

// runsOn are the sandboxes that run on a node, as a runtime lists them.
func (r *faultTrial) runsOn(node string) (content []any) {
	r.mu.Lock()
	content = append(content, r.content[node]...)
	r.mu.Unlock()
	r.ledger.mu.Lock()
	defer r.ledger.mu.Unlock()
	gone := 0
	for _, h := range slices.Backward(r.ledger.all) {
		switch {
		case h.node != node || h.until != 0 && !h.closed:
		case h.closed:
			if gone++; gone <= 200 { // an agent forgets the oldest
				content = append(content, v1alpha1.Gone{ID: h.id, UID: h.uid})
			}
		default:
			content = append(content, v1alpha1.Sandbox{
				ID: h.id, Namespace: "default", Name: h.podRef[len("default/"):], UID: h.uid, State: v1alpha1.SandboxReady,
				Addresses: []v1alpha1.Address{{IP: h.address, IfName: h.ifName, Network: h.network.Name,
					Range: fmt.Sprint(h.network.IPAM["range"])}},
			})
		}
	}
	return content
}

// A life is one pod with its sandbox.
type life struct {
	pod      *corev1.Pod
	sandbox  *harness.Sandbox
	node     *harness.Node
	added    []harness.Attachment
	holdings []*holding
}

// An ending is how a pod ends.
type ending int

const (
	graceful ending = iota // deletionTimestamp, DEL, then the object is removed
	sudden                 // DEL, then the object is removed
	leaked                 // the sandbox ends without a DEL, and the object is deleted by force
)

// traffic starts and ends pods until it is stopped. Then every third starts one that stays. Half come back by name,
// like a StatefulSet's.
func (r *faultTrial) traffic(t *testing.T, seed uint64, actors int) (stop func()) {
	ctx, cancel := context.WithCancel(t.Context())
	var acting sync.WaitGroup
	for i := range actors {
		acting.Go(func() {
			dice := rand.New(rand.NewPCG(seed, uint64(i)))
			name, networks := fmt.Sprint("named-", i), r.pick(dice)
			for n := 0; ctx.Err() == nil || i%3 == 0; n++ {
				stays := ctx.Err() != nil
				if i%2 == 1 {
					name, networks = fmt.Sprintf("plain-%d-%d", i, n), r.pick(dice)
				}
				l := r.come(t.Context(), r.nodes[[]string{"worker-1", "worker-2"}[dice.IntN(2)]], name, networks)
				if stays {
					return
				}
				if l != nil {
					r.leave(t.Context(), l, []ending{graceful, sudden, leaked, leaked}[dice.IntN(4)])
				}
			}
		})
	}
	return func() { cancel(); acting.Wait() }
}

// pick gives a pod one network or, where there are several, two every third time.
func (r *faultTrial) pick(dice *rand.Rand) []*stormNetwork {
	i, others := dice.IntN(len(r.networks)), len(r.networks)-1
	if others == 0 || dice.IntN(3) > 0 {
		return r.networks[i : i+1]
	}
	return []*stormNetwork{r.networks[i], r.networks[(i+1+dice.IntN(others))%len(r.networks)]}
}

// again retries an action until it succeeds: the API server may be down.
func again(ctx context.Context, do func() error) {
	for do() != nil && ctx.Err() == nil {
		time.Sleep(100 * time.Millisecond)
	}
}

// now is etcd's revision.
func (r *faultTrial) now(ctx context.Context) (uint64, error) {
	list, err := r.of(harness.IPPools).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(list.GetResourceVersion(), 10, 64)
}

// come starts a pod in kubelet's order: the object, the ADDs, the status. It retries while the API server is down. If
// an ADD fails it returns nil: the pod is gone, and the remains of the ADD are a leak.
func (r *faultTrial) come(ctx context.Context, node *harness.Node, name string, networks []*stormNetwork) *life {
	l := &life{node: node}
	pods := r.Client().CoreV1().Pods("default")
	again(ctx, func() (err error) {
		// With a grace period a run would hold the address of a pod of this name for a minute longer.
		l.pod, err = pods.Create(ctx, &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Name: name},
			Spec: corev1.PodSpec{NodeName: node.Name, TerminationGracePeriodSeconds: ptr.To(int64(0)),
				Containers: []corev1.Container{{Name: "main", Image: "e2e.invalid/none"}}},
		}, metav1.CreateOptions{})
		if apierrors.IsAlreadyExists(err) { // an answer was lost
			l.pod, err = pods.Get(ctx, name, metav1.GetOptions{})
		}
		return err
	})
	again(ctx, func() (err error) { l.sandbox, err = node.NewSandbox(); return err })
	var status []harness.NetworkStatus
	for i, n := range networks {
		a := harness.Attachment{
			Sandbox: l.sandbox, Namespace: "default", Pod: name, UID: string(l.pod.UID), IfName: fmt.Sprint("net", i+1),
			Network: n.Network,
		}
		h := &holding{
			network: n, pool: n.pool(node.Name), id: l.sandbox.ID, ifName: a.IfName, node: node.Name, uid: string(l.pod.UID),
			podRef: "default/" + name,
		}
		again(ctx, func() (err error) { h.called, err = r.now(ctx); return err })
		o := r.called(adds, a, h.pool, "", h.called)
		began := time.Now()
		result, err := node.Add(ctx, a)
		if err != nil {
			r.failedADDs.Add(1)
			r.leave(ctx, l, sudden)
			return nil
		}
		r.adds.Add(1)
		r.longestADD.Store(max(r.longestADD.Load(), int64(time.Since(began))))
		h.address = harness.Addresses(result)[0].String()
		h.reservation = n.reservation(h.address)
		again(ctx, func() (err error) { h.from, err = r.now(ctx); return err })
		r.answered(o, key(h.address), h.from)
		r.begin(h)
		l.added, l.holdings, status = append(l.added, a), append(l.holdings, h), append(status, a.Status(result))
	}
	again(ctx, func() (err error) { _, err = r.SetRunning(ctx, l.pod, status...); return err })
	return l
}

// leave ends a pod. The sandbox ends before the object is removed: without node agents nothing distinguishes a sandbox
// that outlives its pod object from a leak.
func (r *faultTrial) leave(ctx context.Context, l *life, how ending) {
	if how == graceful {
		again(ctx, func() error { return absentIsDone(r.DeletePod(ctx, l.pod, 30)) })
	}
	for i, a := range l.added {
		var now uint64
		again(ctx, func() (err error) { now, err = r.now(ctx); return err })
		h := l.holdings[i]
		r.end(h, now)
		r.answered(r.called(ends, a, h.pool, "", now), key(h.address), now)
		if how == leaked {
			continue
		}
		o := r.called(dels, a, h.pool, key(h.address), now)
		if l.node.Del(ctx, a) == nil {
			r.dels.Add(1)
			again(ctx, func() (err error) { now, err = r.now(ctx); return err })
			r.answered(o, o.key, now)
		}
	}
	_ = l.sandbox.Close()
	r.ledger.mu.Lock()
	for _, h := range l.holdings {
		h.closed = true
	}
	r.ledger.mu.Unlock()
	again(ctx, func() error { return absentIsDone(r.DeletePod(ctx, l.pod, 0)) })
}

func absentIsDone(err error) error {
	if apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	return err
}

// runs repeats the command until it is stopped. A run may fail, but none may report the release of an address in use.
func (r *faultTrial) runs(t *testing.T, kubeconfig string, more ...string) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-done:
				return
			default:
			}
			out := r.productAs(t, kubeconfig, append([]string{"run", "--confirm-after", "0", "--allow-mass-release",
				"--request-timeout", "5s", "--max-wait", "2m"}, more...)...)
			if len(r.agents) == 0 && out.code == 2 {
				t.Errorf("a run could not read the cluster: %s", out.stderr)
			}
			for _, i := range out.Released {
				if i.Reservation != "" {
					continue
				}
				if r.released.Add(1); r.isLive(i.ContainerID) {
					t.Errorf("released although its sandbox lives: %+v", i)
				}
			}
		}
	}()
	return func() { close(done); <-ended }
}

// settle waits until nothing is stale and no change is half done. A reservation without an allocation counts as in use
// for its first 2 min.
func (r *faultTrial) settle(t *testing.T) (left []string) {
	t.Helper()
	within(5*time.Minute, time.Second, func() bool {
		var err error
		left, err = r.leaks(t.Context(), r.of(harness.IPPools), r.of(harness.Reservations))
		left = slices.DeleteFunc(left, func(l string) bool { return strings.Contains(l, " 10.9.") }) // see mending
		return err == nil && len(left) == 0
	})
	return left
}

// verdict checks the whole trial and returns what the documentation quotes.
func (r *faultTrial) verdict(t *testing.T, left []string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	now := try(r.now(ctx)).must(t)
	check(t, errors.Join(r.pools.catchUp(ctx), r.reservations.catchUp(ctx)))
	freed, bare, unwritten := r.check(r.pools, r.reservations, now)
	writes := try(r.AuditLog().Next()).must(t)
	released, strayed := ours(r.pools, writes)
	operations, illegal := r.checkOperations(writes, unwritten)
	for _, err := range slices.Concat(freed, bare, strayed, illegal) {
		t.Error(err)
	}
	if len(r.agents) == 0 && len(unwritten) > 0 { // no request of whereabouts fails there
		t.Errorf("no version of their pools had entries for %v when their ADDs returned", unwritten)
	}
	for _, l := range left {
		t.Error(l)
	}
	if len(freed)+len(bare)+len(left) > 0 {
		for _, w := range writes {
			t.Log(w)
		}
	}
	return fmt.Sprintf("%d ADDs (%d failed, %d without an entry by whereabouts, the longest took %.1fs), %d DELs, %d "+
		"released, %d wrong, %d remaining, %d operations in order",
		r.adds.Load(), r.failedADDs.Load(), len(unwritten), time.Duration(r.longestADD.Load()).Seconds(), r.dels.Load(),
		released, len(freed)+len(bare)+len(strayed)+len(illegal), len(left), operations)
}
