package sim

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/clock"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
	"github.com/ip-reconcile/ip-reconcile/reconciler/serve"
)

// replica is one process of the product.
type replica struct {
	as      *client
	started time.Time
	cancel  context.CancelFunc
	nudged  chan struct{} // of capacity 1: another pass begins at once
	passes  int
	stopped bool // as SIGTERM does: it finishes what it has begun
	// restored is when etcd was last restored, as the process knows.
	restored func() time.Time
	synced   func() bool // reports whether the watch caches of serve are
	knewAt   time.Time   // when etcd first went and they were
}

// nudge requests a pass while something is in progress, when the pass would find it.
func (s *Simulation) nudge(percent int) {
	if !s.chance(percent) || len(s.replicas) == 0 {
		return
	}
	r := s.replicas[s.rng.IntN(len(s.replicas))]
	s.after(s.between(0, 3*time.Second), func() {
		if r != nil {
			wake(r.nudged)
		}
	})
}

// kill ends a process as SIGKILL does: requests that it sent may still arrive.
func (r *replica) kill() {
	r.as.killed.Store(true)
	r.cancel()
}

// stop ends a process as SIGTERM does: it undoes what it has half done.
func (r *replica) stop() {
	r.stopped = true
	r.cancel()
}

// startReplica starts the product: serve, or repeated runs with one memory, like a CronJob.
func (s *Simulation) startReplica(i int) {
	s.starts++
	s.count("started")
	as := s.newClient(fmt.Sprintf("ip-reconcile-%d", i), nil)
	as.product = true
	ctx, cancel := context.WithCancel(s.ctx)
	r := &replica{as: as, started: time.Now(), cancel: cancel, nudged: make(chan struct{}, 1)}
	s.replicas[i] = r
	if s.plan.Upstream {
		s.startUpstream(ctx, r)
		return
	}
	cluster, rec, err := s.reconciler(as, fmt.Sprintf("ip-reconcile/%d-%d", i, s.starts))
	if err != nil {
		s.fail("set up the reconciler: %v", err)
		return
	}
	r.restored = func() time.Time {
		at, _ := rec.Process.Known.Last()
		return at
	}
	rec.Leases, rec.BreakerStore, rec.RestoreStore, rec.PassStore = cluster, cluster.BreakerStore(),
		cluster.RestoreStore(), cluster.PassStore()
	if s.plan.Serve {
		s.serveReplica(ctx, r, cluster, rec)
		return
	}
	s.start(func() {
		for ctx.Err() == nil {
			began := time.Now()
			as.versions.beginPass()
			out, _, err := rec.Pass(ctx, nil)
			if err == nil {
				as.versions.endPass()
			}
			s.passed(r, began, out, err)
			select {
			case <-ctx.Done():
			case <-time.After(s.plan.Every):
			case <-r.nudged:
			}
		}
	})
}

// reconciler creates a reconciler with an identity and the client of an account.
func (s *Simulation) reconciler(as *client, identity string) (*kube.Cluster, *reconciler.Reconciler, error) {
	as.identity = identity
	log := s.log()
	cluster, err := kube.New(as.config(), kube.Settings{Namespace: ownNamespace, LeaseNamespace: leaseNamespace,
		Identity: identity, Jitter: s.jitter(), Log: log})
	if err != nil {
		return nil, nil, err
	}
	process := &reconciler.Process{}
	process.Known.IDs = s.restoreIDs(identity)
	return cluster, &reconciler.Reconciler{
		Options: s.options(), Clock: clock.RealClock{}, Jitter: s.jitter(), Log: log, Process: process,
		Source: cluster, OnOutcome: as.checkRecord,
	}, nil
}

// restoreIDs are the IDs that a process gives to restores: random ones would differ when a history is played again.
func (s *Simulation) restoreIDs(identity string) func(int) string {
	return func(n int) string { return fmt.Sprintf("%s-%d-%d", identity, n, time.Since(s.began).Milliseconds()) }
}

// checkRecord checks that the evidence in the record of an outcome is judged as it was.
func (c *client) checkRecord(o reconciler.Outcome) {
	x := audit.Of(o)
	text, err := json.Marshal(x)
	again := audit.Record{}
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil || again.Evidence == nil {
		if err != nil || x.What == audit.Released {
			c.post(func() { c.s.fail("a record without evidence (%v): %s", err, text) })
		}
		return
	}
	if d, err := again.Evidence.Judge(); err != nil || d.Verdict != x.Verdict || d.Reason.String() != x.Reason ||
		d.Proven != x.Proven {
		c.post(func() { c.s.fail("a record is judged %v again (%v): %s", d, err, text) })
	}
}

func (c *client) config() *rest.Config {
	return &rest.Config{Host: "http://simulation", Transport: c, QPS: -1}
}

// log is the product's logger.
func (s *Simulation) log() *slog.Logger {
	if s.plan.Log != nil {
		return s.plan.Log
	}
	return slog.New(slog.DiscardHandler)
}

func (s *Simulation) options() plan.Options {
	o := plan.Options{ConfirmAfter: s.plan.Confirm, Repair: s.plan.Repair, AllowMassRelease: s.massRelease ||
		s.plan.EachHour != nil} // an hour of a long day has more leaks than the breaker lets through in so small a cluster
	o.UnreachableNodeTimeout, o.TrustNetworkStatus = s.plan.Unreachable, s.plan.Trust
	o.AgentNodes, _ = labels.Parse("kubernetes.io/os=linux")
	return o
}

// check judges once, as the command check does.
func (s *Simulation) check() {
	as := s.newClient("ip-reconcile-check", nil)
	cluster, rec, err := s.reconciler(as, "check")
	if err != nil {
		s.fail("set up a check: %v", err)
		return
	}
	rec.RestoreStore = cluster.RestoreStore()
	s.start(func() {
		out, err := rec.Check(s.ctx)
		as.post(func() {
			if err != nil {
				s.fail("the check failed: %v", err)
				return
			}
			s.last, s.lastAt = out, time.Now()
			s.cover(s.last)
		})
	})
	s.runUntil(time.Now().Add(5 * time.Second))
}

// jitter spreads pauses by a source of its own, which many goroutines use.
func (s *Simulation) jitter() func(time.Duration) time.Duration {
	return func(d time.Duration) time.Duration { return d/2 + d/3 }
}

// passed records the result of a pass.
func (s *Simulation) passed(r *replica, began time.Time, out *reconciler.Result, err error) {
	r.as.post(func() {
		if err != nil {
			s.count("pass failed")
			if s.plan.Log != nil {
				s.say("%s: a pass failed: %v", r.as.name, err)
			}
			return
		}
		r.passes++
		if s.plan.Log != nil {
			s.say("%s: a pass: %d released, %d refused, %d repaired, %d not, %d to repair; %d findings", r.as.name,
				len(out.Released), len(out.Refused), len(out.Repaired), len(out.Unrepaired), out.ToRepair,
				len(out.Assessment.Findings))
		}
		s.count("pass")
		s.checkResult(r, began, out)
		s.last = out
		s.lastAt = time.Now()
		s.cover(out)
	})
}

// serveReplica runs serve, assembled as the command does.
func (s *Simulation) serveReplica(ctx context.Context, r *replica, cluster *kube.Cluster, full *reconciler.Reconciler) {
	config, log := r.as.config(), s.log()
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.fail("set up the reconciler: %v", err)
		return
	}
	events := &serve.Events{EventRecorder: &record.FakeRecorder{}, Self: &corev1.ObjectReference{Kind: "Namespace",
		Name: ownNamespace}}
	recorder := &serve.Recorder{Log: log, Metrics: serve.NewMetrics(prometheus.NewRegistry()), Events: events}
	requests := serve.NewRequests()
	context.AfterFunc(ctx, requests.ShutDown)
	source := informers.New(cluster, config, log, func(string) { requests.CachePass() })
	health := serve.NewHealth(source.Synced)
	source.OnRebuild, r.synced, source.RestoreIDs = recorder.CachesRebuilt, source.Synced, full.Process.Known.IDs
	var guard *restore.Guard
	if s.plan.Repair {
		guard = restore.NewGuard(restore.GuardConfig{
			Fence: cluster.Fence(), Detector: source, Timeout: restore.LongestFence, FullPass: requests.FullPass,
			OnEvent: func(e restore.Event) {
				recorder.FenceEvent(e)
				if lowered, isEnd := e.(restore.Lowered); isEnd && lowered.Outcome == restore.Settled {
					r.as.post(s.noteFree)
				}
			},
		})
		full.Fence, source.OnRestore, cluster.OnPeerFence = cluster.Fence(), guard.ReportEvidence, guard.Join
	}
	full.Source = source.Full()
	full.Progress = func(string) { health.Progress() }
	quick := *full
	quick.Source = source
	server := serve.New(serve.Config{
		Full: full, Quick: &quick, Caches: source, Requests: requests, Guard: guard, Recorder: recorder, Health: health,
		Schedule: &schedule.Schedule{Expression: "@every " + s.plan.Every.String(), Changed: recorder.ScheduleChanged,
			Log: log},
	})
	s.start(func() { source.Run(ctx) })
	if guard != nil {
		s.start(func() { guard.Run(ctx) })
	}
	s.start(func() {
		s.lead(ctx, r, core, func(ctx context.Context) {
			if guard != nil {
				guard.Lead()
			}
			health.Lead()
			_ = server.Run(ctx)
		})
	})
}

// notAtOnce keeps two timers from ending at the same time: any of them would be the first.
const notAtOnce = 7 * time.Millisecond

// lead works while the replica has the Lease, with the times of controller-runtime's manager as the command sets them.
// A process that loses the Lease ends; another is started.
func (s *Simulation) lead(ctx context.Context, r *replica, core kubernetes.Interface, work func(context.Context)) {
	lock := resourcelock.LeaseLock{
		LeaseMeta: metaName(ownNamespace, kube.OwnLease), Client: core.CoordinationV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: r.as.name + fmt.Sprint(s.starts)},
	}
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &lock, LeaseDuration: 15 * time.Second, RenewDeadline: 10*time.Second + notAtOnce, RetryPeriod: 2 * time.Second,
		ReleaseOnCancel: true,
		Callbacks:       leaderelection.LeaderCallbacks{OnStartedLeading: work, OnStoppedLeading: func() {}},
	})
	if err != nil {
		r.as.post(func() { s.fail("set up the election: %v", err) })
		return
	}
	elector.Run(ctx)
	r.as.post(func() {
		if ctx.Err() == nil {
			s.replaceReplica(r, "lost the Lease", r.kill)
		}
	})
}

// killReplica kills a process, or stops it.
func (s *Simulation) killReplica(i int, stops bool) {
	r := s.replicas[i%len(s.replicas)]
	switch {
	case r.as.killed.Load() || r.stopped:
	case stops:
		s.count("stopped")
		s.replaceReplica(r, "stopped", r.stop)
	default:
		s.kills++
		s.replaceReplica(r, "killed", r.kill)
	}
}

// replaceReplica ends a process and starts another.
func (s *Simulation) replaceReplica(r *replica, why string, end func()) {
	for i := range s.replicas {
		if s.replicas[i] == r {
			s.say("%s: %s", r.as.name, why)
			end()
			s.after(s.between(time.Second, 5*time.Second), func() {
				if s.replicas[i] == r { // otherwise settle has started another
					s.startReplica(i)
				}
			})
		}
	}
}

// replaceAll ends every process, and starts others after a time. Nobody remembers what they knew.
func (s *Simulation) replaceAll(later time.Duration) {
	s.say("the product is killed for %s", later)
	s.kills++
	for i, r := range s.replicas {
		if !r.as.killed.Load() {
			r.kill()
			s.unlessQuiet(later, func() { s.startReplica(i) })
		}
	}
}
