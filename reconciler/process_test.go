package reconciler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan/plantest"
)

// process is a reconciler that receives one observation after the other. Its plans count as executed.
type process struct {
	t *testing.T
	plantest.Want
	*Reconciler
	next *Observed
	skew time.Duration // of the machine's clock
	// versions are those of Leases, by node, which only tests of them lower.
	versions map[string]string
}

var quarter, atOnce = plan.Options{ConfirmAfter: 15 * time.Minute}, plan.Options{} // atOnce waits for no confirmation

// unconfirmed and proven make the usual allocation Stale.
var unconfirmed, proven = All(UsualPool, ReportingWorker()), All(UsualPool, ReportingWorker(Gone("box-1", UsualUID)))

func newProcess(t *testing.T, opts plan.Options) *process {
	p := &process{t: t, Want: plantest.Want{T: t}, versions: map[string]string{}}
	p.Reconciler = &Reconciler{Source: p, Options: opts, Clock: clocktesting.NewFakeClock(Now),
		Log: slog.New(slog.DiscardHandler), Process: &Process{},
		PodsComplete: true} // most tests observe only one allocation
	p.Process.Known.IDs = func(n int) string { return fmt.Sprintf("%s-%d", p.identity(), n) }
	return p
}

// storing waits for no confirmation, and stores restores.
func storing(t *testing.T) *process {
	p := newProcess(t, atOnce)
	p.RestoreStore = &memoryStore{}
	return p
}

// wantDetail checks what the gate of the first refused item says.
func wantDetail(t *testing.T, made *plan.Plan, wants ...string) {
	t.Helper()
	for _, want := range wants {
		if text := made.Refused[0].Detail; !strings.Contains(text, want) {
			t.Errorf("the gate says %q, want %q", text, want)
		}
	}
}

// identity is another one for each process.
func (p *process) identity() string { return fmt.Sprintf("restore-%p", p) }

// versionAt is the version of a Lease that was renewed at a time: etcd's revision grows by one each second.
func versionAt(renewed time.Time) string {
	return strconv.FormatInt(5_000_000_000+int64(renewed.Sub(Now)/time.Second), 10)
}

// acknowledged lets an operator acknowledge the restore that the process knows.
func (p *process) acknowledged() Part {
	return func(o *Observed) { o.Acknowledged = p.Process.Known.ID() }
}

func (p *process) List(context.Context) (*facts.Observation, error) { return p.next.Observation, nil }

// Relist reads the same again, without the sign of a restore.
func (p *process) Relist(_ context.Context, o *facts.Observation) (*facts.Observation, error) {
	again := *o
	again.Restored, again.Now = "", p.Clock.Now().Add(-p.skew)
	return &again, nil
}

func (p *process) GetLive(context.Context, *facts.Observation, facts.LiveKeys) (*facts.Live, error) {
	return &facts.Live{}, nil
}

// pass observes, judges and plans at a time after the start, and releases nothing. A pass that shows a restore is
// followed by another one, which reads by what version reports are since.
func (p *process) pass(after time.Duration, parts ...Part) *plan.Plan {
	p.t.Helper()
	before := p.Process.Known.ID()
	made := p.passOnce(after, parts...)
	if last := p.next; p.Process.Known.ID() != before && !p.next.Watched {
		p.passOnce(after, append(slices.Clone(parts), func(o *Observed) { o.Restored, o.MissingReports = "", nil })...)
		p.next = last
	}
	return made
}

// seesRestore makes a pass, and a minute later the one that shows a restore of etcd.
func (p *process) seesRestore(parts ...Part) *plan.Plan {
	p.t.Helper()
	p.pass(0, All(parts...), revision(100))
	return p.pass(minute, All(parts...), revision(90))
}

// waits is a pass that refuses everything Stale because of a restore.
func (p *process) waits(says string, after time.Duration, parts ...Part) *plan.Plan {
	p.t.Helper()
	made := p.pass(after, parts...)
	p.WantRefused(says, plan.EtcdRestored, made)
	return made
}

// releases is a pass that releases everything Stale.
func (p *process) releases(says string, after time.Duration, parts ...Part) {
	p.t.Helper()
	p.WantReleased(says, p.pass(after, parts...))
}

// passOnce is one pass.
func (p *process) passOnce(after time.Duration, parts ...Part) *plan.Plan {
	p.t.Helper()
	p.next = Observe(append([]Part{At(Now.Add(after))}, parts...)...)
	for _, r := range p.next.Reports.Or(nil) {
		if r.LeaseVersion == "" && !r.LeaseRenewedAt.IsZero() {
			r.LeaseVersion = max(p.versions[r.Name], versionAt(r.LeaseRenewedAt))
			p.versions[r.Name] = r.LeaseVersion
		}
	}
	ReadByQuorum(p.next.Observation)
	p.Clock.(*clocktesting.FakeClock).SetTime(p.next.Now.Add(p.skew))
	j, err := p.Check(p.t.Context())
	if err != nil {
		p.t.Fatal(err)
	}
	p.saveRestore(p.t.Context(), p.next.Now)
	p.next.Past = p.Process.Known
	return p.plan(j.Judgement)
}

// restarted returns the next process, which remembers nothing.
func (p *process) restarted() *process {
	next := newProcess(p.t, p.Options)
	next.RestoreStore = p.RestoreStore
	return next
}

// memoryStore is a StateStore in memory.
type memoryStore struct {
	text      string
	err       error
	noWriting bool
}

func (s *memoryStore) Update(_ context.Context, change func(string) (string, error)) error {
	if s.err != nil {
		return s.err
	}
	text, err := change(s.text)
	if err == nil && s.noWriting && text != s.text {
		return errors.New("etcdserver: request timed out")
	}
	if err == nil {
		s.text = text
	}
	return err
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
