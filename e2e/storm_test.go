//go:build slow

package e2e

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// The storm: in each wave pods of the last one end and as many come. Each named
// pod ends and comes back at once with a new UID on the other node, like a
// StatefulSet's.
const (
	stormWaves = 6
	stormPlain = 30
	stormNamed = 12
	atOnce     = 24 // how many pods come or go at a time
)

// A stormNetwork knows the names that whereabouts gives its objects.
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

// slicedNetwork gives each node a pool and a Lease of its own.
func slicedNetwork(t *testing.T, s *stage, name string) *stormNetwork {
	t.Helper()
	s.slices(t, name, "worker-1", "10.4.1.0/24", "worker-2", "10.4.2.0/24")
	names := theNames(network(name, harness.IPAM{"range": "10.4.0.0/16", "node_slice_size": "/24"}))
	names.pool = func(node string) string { return node + "-10.4." + strings.TrimPrefix(node, "worker-") + ".0-24" }
	return names
}

// A storm is a stage with its pods and what is counted.
type storm struct {
	*stage
	*ledger
	networks              []*stormNetwork
	pools, reservations   *history
	pods                  int
	adds, dels            atomic.Int64
	failedADDs            atomic.Int64 // each of which was made again, for a new sandbox
	runs, freed, freedRes int          // by the command
}

// A life is one pod with its sandbox.
type life struct {
	pod      *corev1.Pod
	sandbox  *harness.Sandbox
	node     *harness.Node
	added    []harness.Attachment
	holdings []*holding
}

// An ending is how a pod goes.
type ending int

const (
	stays    ending = iota // until the storm is over
	graceful               // deletionTimestamp, DEL, then the object goes
	sudden                 // DEL, then the object goes
	leaked                 // the sandbox ends without a DEL, and the object is deleted by force
)

// revision is etcd's, now.
func (s *storm) revision(ctx context.Context) (uint64, error) {
	list, err := s.of(harness.IPPools).List(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return 0, err
	}
	return strconv.ParseUint(list.GetResourceVersion(), 10, 64)
}

// come brings a pod up in kubelet's order: the object, the ADDs, the status.
func (s *storm) come(ctx context.Context, node *harness.Node, name string, networks []*stormNetwork) (*life, error) {
	l := &life{node: node}
	var err error
	// With a grace period a run would wait for a minute more than that before it
	// frees what a pod of this name left, whatever --confirm-after says.
	l.pod, err = s.Client().CoreV1().Pods("default").Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: corev1.PodSpec{NodeName: node.Name, TerminationGracePeriodSeconds: ptr.To(int64(0)),
			Containers: []corev1.Container{{Name: "main", Image: "e2e.invalid/none"}}},
	}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		status, failed, err := s.attach(ctx, l, networks)
		switch {
		case err != nil:
			return nil, err
		case failed == nil:
			l.pod, err = s.SetRunning(ctx, l.pod, status...)
			return l, err
		case attempt == 5 || ctx.Err() != nil:
			return nil, failed
		}
		s.failedADDs.Add(1)
	}
}

// attach makes a sandbox with its ADDs. Where one of them fails it ends the sandbox as kubelet does, and returns why
// the ADD failed: kubelet tries again with a new sandbox.
func (s *storm) attach(ctx context.Context, l *life, networks []*stormNetwork) (
	status []harness.NetworkStatus, failed, err error,
) {
	l.added, l.holdings = nil, nil
	if l.sandbox, err = l.node.NewSandbox(); err != nil {
		return nil, nil, err
	}
	for i, n := range networks {
		a := harness.Attachment{
			Sandbox: l.sandbox, Namespace: "default", Pod: l.pod.Name, UID: string(l.pod.UID),
			IfName: fmt.Sprint("net", i+1), Network: n.Network,
		}
		result, failed := l.node.Add(ctx, a)
		if failed != nil {
			_ = l.node.Del(ctx, a) // what it leaves is a leak
			return nil, failed, s.endSandbox(ctx, l)
		}
		s.adds.Add(1)
		h := &holding{
			network: n, pool: n.pool(l.node.Name), id: l.sandbox.ID, ifName: a.IfName, podRef: "default/" + l.pod.Name,
			address: harness.Addresses(result)[0].String(),
		}
		h.reservation = n.reservation(h.address)
		if h.from, err = s.revision(ctx); err != nil {
			return nil, nil, err
		}
		s.begin(h)
		l.added, l.holdings = append(l.added, a), append(l.holdings, h)
		status = append(status, a.Status(result))
	}
	return status, nil, nil
}

// endSandbox makes the DELs of a sandbox and ends it.
func (s *storm) endSandbox(ctx context.Context, l *life) error {
	for i, a := range l.added {
		now, err := s.revision(ctx)
		if err != nil {
			return err
		}
		s.end(l.holdings[i], now)
		if err := l.node.Del(ctx, a); err != nil {
			return err
		}
		s.dels.Add(1)
	}
	return l.sandbox.Close()
}

func (s *storm) leave(ctx context.Context, l *life, how ending) error {
	if l == nil || how == stays {
		return nil
	}
	if how == graceful {
		if err := s.DeletePod(ctx, l.pod, 30); err != nil {
			return err
		}
	}
	for i, a := range l.added {
		now, err := s.revision(ctx)
		if err != nil {
			return err
		}
		s.end(l.holdings[i], now)
		if how == leaked {
			continue
		}
		if err := l.node.Del(ctx, a); err != nil {
			return err
		}
		s.dels.Add(1)
	}
	// Without node agents nothing could tell a sandbox that outlives its pod
	// object from a leak, so the sandbox ends first.
	return errors.Join(l.sandbox.Close(), s.DeletePod(ctx, l.pod, 0))
}

// TestAStormOfPodsLosesNoAddressAndLeaksNone lets the real plugin and the real
// command work side by side, and reads in the history of the pools whether an
// address was ever free while it was in use.
func TestAStormOfPodsLosesNoAddressAndLeaksNone(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Minute)
	defer cancel()
	s := &storm{stage: newStage(t, "worker-1", "worker-2").withRaceDetector(), ledger: &ledger{live: map[string]*holding{}}}
	// red has the addresses of blue: only their network names tell them apart.
	red := network("red", harness.IPAM{"range": "10.1.0.0/24", "network_name": "red"})
	s.networks = []*stormNetwork{theNames(simple("blue", "10.1.0.0/24")), theNames(red), slicedNetwork(t, s.stage, "sliced")}
	for _, n := range s.networks {
		check(t, s.CreateNAD(ctx, n.Network))
	}
	s.pools, s.reservations = try(record(ctx, s.of(harness.IPPools))).must(t), try(record(ctx, s.of(harness.Reservations))).must(t)

	try(raced()).must(t)
	began := time.Now()
	stop := s.loop(ctx, t)
	for wave, tasks := range s.waves() {
		var g errgroup.Group
		g.SetLimit(atOnce)
		for _, task := range tasks {
			g.Go(func() error { return task(ctx) })
		}
		check(t, g.Wait())
		if freed, bare := s.audit(ctx, t); len(freed)+len(bare) > 0 {
			t.Errorf("after wave %d: %v", wave, errors.Join(append(freed, bare...)...))
			break
		}
	}
	stop()
	took := time.Since(began)
	last := s.run(t, "--allow-mass-release", "--trust-network-status") // everything has come to rest: this one finishes
	s.count(t, last)
	freed, bare := s.audit(ctx, t)
	leaks := try(s.leaks(ctx, s.of(harness.IPPools), s.of(harness.Reservations))).must(t)
	t.Logf("%d pods, %d ADDs, %d DELs, %d pool versions; %d runs of the command freed %d addresses, and %d reservations with them, %d addresses wrongly; %d leaks left, %d live sandboxes; %d leaked entries were taken over by a successor first; %.1fs",
		s.pods, s.adds.Load(), s.dels.Load(), s.pools.size(), s.runs, s.freed, s.freedRes, len(freed), len(leaks), len(s.live), s.pools.takenOver(), took.Seconds())
	t.Logf("%d ADDs failed and were made again", s.failedADDs.Load())
	last.exits(t, 0)
	for _, err := range append(freed, bare...) {
		t.Error(err)
	}
	for _, text := range leaks {
		t.Error(text)
	}
	if s.pods < 200 || s.freed < 30 || len(s.live) == 0 {
		t.Error("the storm was too small to show anything")
	}
}

// audit checks everything that happened so far.
func (s *storm) audit(ctx context.Context, t *testing.T) (freed, bare []error) {
	t.Helper()
	now := try(s.revision(ctx)).must(t)
	check(t, errors.Join(s.pools.catchUp(ctx), s.reservations.catchUp(ctx)))
	freed, bare, unwritten := s.check(s.pools, s.reservations, now)
	for _, h := range unwritten { // no request of whereabouts fails here
		bare = append(bare, fmt.Errorf("no version of the pool had an entry for %s when its ADD returned", h))
	}
	return freed, bare
}

// waves are what happens, a slice of tasks that are done at once for each wave.
func (s *storm) waves() [][]func(context.Context) error {
	dice := rand.New(rand.NewPCG(1, 2)) // the same pods each time; their timing differs anyway
	nodes := []*harness.Node{s.nodes["worker-1"], s.nodes["worker-2"]}
	var mu sync.Mutex
	lives := map[string]*life{}
	get := func(name string) *life {
		mu.Lock()
		defer mu.Unlock()
		return lives[name]
	}
	come := func(name string, node *harness.Node, networks []*stormNetwork) func(context.Context) error {
		s.pods++
		return func(ctx context.Context) error {
			l, err := s.come(ctx, node, name, networks)
			mu.Lock()
			lives[name] = l
			mu.Unlock()
			return err
		}
	}
	var waves [][]func(context.Context) error
	var named [stormNamed][]*stormNetwork
	for i := range named {
		named[i] = s.pick(dice)
	}
	for wave := range stormWaves {
		var tasks []func(context.Context) error
		for i := range stormPlain {
			before, how := fmt.Sprintf("plain-%d-%d", wave-1, i), []ending{stays, graceful, sudden, sudden, leaked}[dice.IntN(5)]
			tasks = append(tasks, come(fmt.Sprintf("plain-%d-%d", wave, i), nodes[i%2], s.pick(dice)),
				func(ctx context.Context) error { return s.leave(ctx, get(before), how) })
		}
		for i := range stormNamed {
			name, how := fmt.Sprint("named-", i), []ending{graceful, sudden, leaked, leaked}[dice.IntN(4)]
			next := come(name, nodes[(wave+i)%2], named[i])
			tasks = append(tasks, func(ctx context.Context) error {
				if err := s.leave(ctx, get(name), how); err != nil {
					return err
				}
				return next(ctx)
			})
		}
		dice.Shuffle(len(tasks), func(i, j int) { tasks[i], tasks[j] = tasks[j], tasks[i] })
		waves = append(waves, tasks)
	}
	return waves
}

// pick gives a pod one network, or two every third time.
func (s *storm) pick(dice *rand.Rand) []*stormNetwork {
	i := dice.IntN(len(s.networks))
	if dice.IntN(3) > 0 {
		return s.networks[i : i+1]
	}
	return []*stormNetwork{s.networks[i], s.networks[(i+1+dice.IntN(len(s.networks)-1))%len(s.networks)]}
}

// loop runs the command over and over until the returned function is called,
// which waits for the run under way.
func (s *storm) loop(ctx context.Context, t *testing.T) (stop func()) {
	done, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			select {
			case <-done:
				return
			default:
				s.count(t, s.run(t, "--allow-mass-release", "--trust-network-status"))
			}
		}
	}()
	return func() { close(done); <-ended }
}

// count adds up what a run says it freed, none of which may be a live sandbox's.
func (s *storm) count(t *testing.T, out *outcome) {
	s.runs++
	if out.code == 2 {
		t.Errorf("a run could not read the cluster: %s", out.stderr)
	}
	for _, i := range out.Released {
		switch {
		case i.Reservation != "":
			s.freedRes++
		case s.isLive(i.ContainerID):
			t.Errorf("freed although its sandbox lives: %+v", i)
		default:
			s.freed++
		}
	}
}
