package informers

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func TestLeases(t *testing.T) {
	b := parallelBench(t)
	equal(t, "without a pool", len(b.source.Leases()), 0)
	slice := aPool("8", "web")
	slice.SetName("worker-1-10.0.0.0-24")
	elsewhere := aPool("9", "web")
	elsewhere.SetNamespace("other")
	b.sets(t, "ippools", aPool("7", "web"))
	b.sets(t, "ippools", slice)
	b.sets(t, "ippools", elsewhere)
	all := b.source.Leases()
	equal(t, "namespaces", len(all), 2)
	equal(t, "of kube-system", len(all["kube-system"]), 2)
	equal(t, "of other", all["other"], []string{"whereabouts"})
	b.source.reset()
	equal(t, "nil without caches", b.source.Leases() == nil, true)
}

// A record of before the first answer of the API server has no time. It is new when that is known.
func TestRestore_BeforeTheFirstAnswer(t *testing.T) {
	b := parallelBench(t)
	b.source.RecordRestore("a pool is older")
	b.source.mu.Lock()
	b.source.restoreTime, b.source.missing["worker-9"] = time.Time{}, time.Time{}
	b.source.mu.Unlock()
	o := b.fullPass(t)
	equal(t, "the next pass", o.Restored, "a pool is older")
	if since, isMissing := o.MissingReports["worker-9"]; !isMissing || since.IsZero() {
		t.Errorf("missing reports: %v", o.MissingReports)
	}
}

func TestRecordRestore(t *testing.T) {
	b := parallelBench(t)
	b.source.RecordRestore("a pool is older")
	equal(t, "rebuilt", b.rebuildReason(), "a pool is older")
	o := b.fullPass(t)
	equal(t, "the next pass", o.Restored, "a pool is older")
	o = b.fullPass(t)
	equal(t, "the pass after it", o.Restored, "")
}

// Two replicas name the same object, and so does a history that is played again.
func TestRestore_NamesTheLastOlderObject(t *testing.T) {
	b := parallelBench(t)
	list := func(version string) (pods []any) {
		for n := range 10 {
			pods = append(pods, aPod(fmt.Sprintf("web-%d", n), version))
		}
		return pods
	}
	for range 5 {
		b.lists(t, "pods", list("9")...)
		b.lists(t, "pods", list("7")...)
		equal(t, "the next pass", b.fullPass(t).Restored, "pods default/web-9 is at resourceVersion 7 after 9")
	}
}

func TestRestartFullPass(t *testing.T) {
	b := parallelBench(t)
	hung := make(chan struct{})
	b.api.onList = func(ctx context.Context, resource string, n int) {
		if resource == "ippools" && n == 1 {
			close(hung)
			<-ctx.Done()
		}
	}
	go func() {
		<-hung
		b.source.RestartFullPass()
	}()
	b.fullPass(t)
	equal(t, "lists of pools", b.api.lists["ippools"], 2)
	b.source.RestartFullPass() // without one
	b.fullPass(t)
}

// A pass that fails has read a pool that is older than in the caches. The next one reports the restore, whatever it
// reads.
func TestFull_FailedPassComparesWithTheCaches(t *testing.T) {
	b := parallelBench(t)
	b.sets(t, "ippools", aPool("70", "default/web-0"))
	b.api.has("ippools", aPool("60", "default/web-0"))
	b.api.denies("pods")
	if _, err := b.full.List(t.Context()); err == nil {
		t.Fatal("the full pass does not fail")
	}
	b.api.denies("")
	b.api.has("ippools", aPool("71", "default/web-0"))
	equal(t, "restored", b.fullPass(t).Restored, "ippools kube-system/10.0.0.0-24 is at resourceVersion 60 after 70")
}

// What was read before it started again may show a restore that nothing shows later.
func TestFull_RestartKeepsVersions(t *testing.T) {
	b := parallelBench(t)
	hung := make(chan struct{})
	b.api.onList = func(ctx context.Context, resource string, n int) {
		if resource == "pods" && n == 1 { // the pools are read before
			close(hung)
			<-ctx.Done()
		}
	}
	b.api.isAt(150)
	go func() {
		<-hung
		b.api.isAt(160)
		b.source.RestartFullPass()
	}()
	var revisions []string
	for _, v := range b.fullPass(t).Versions {
		if v.Object == facts.PoolList {
			revisions = append(revisions, v.ResourceVersion)
		}
	}
	equal(t, "revisions of the lists of pools", revisions, []string{"150", "160"})
}

// A replica that does not lead detects a restore, and makes its first full pass days later.
func TestRecordRestore_ExpiresBeforeTheFirstPass(t *testing.T) {
	b := parallelBench(t)
	offset := time.Duration(0)
	b.api.Now = func() time.Time { return time.Now().Add(offset) }
	_, err := b.source.Ping(t.Context())
	must(t, err)
	b.source.RecordRestore("a pool is older")
	offset = 24 * time.Hour
	_, err = b.source.Ping(t.Context())
	must(t, err)
	if o := b.fullPass(t); o.Restored != "" {
		t.Errorf("the pass at %s reports %q", o.Now, o.Restored)
	}
}

// The rebuild discards the evidence of a restore.
func TestFull_ReportsRestoreBeforeRebuild(t *testing.T) {
	b := benchWithPod(t)
	var reported []string
	b.source.OnRestore = func(why string) {
		reported = append(reported, why)
		if len(b.broken) > 0 {
			t.Errorf("reported after the rebuilds %v", b.broken)
		}
	}
	b.api.isAt(50)
	if o := b.fullPass(t); o.Restored == "" || len(reported) != 1 || reported[0] != o.Restored {
		t.Errorf("reported %q, want %q", reported, o.Restored)
	}
}

// No full pass is made: another replica leads.
func TestRun_SharesARestore(t *testing.T) {
	t.Parallel()
	t.Run("that has lost no node", func(t *testing.T) {
		t.Parallel()
		sharesARestore(t, 0, `"why":"`, aReport("8"))
	})
	t.Run("after which the API server forbids that for a moment", func(t *testing.T) {
		t.Parallel()
		sharesARestore(t, 3, `"why":"`, aReport("8"))
	})
	t.Run("that has lost the report of worker-2", func(t *testing.T) {
		t.Parallel()
		lost := aReport("8")
		lost.SetName("worker-2")
		sharesARestore(t, 0, `"awaited":{"worker-2":true}`, aReport("7"), lost)
	})
}

// sharesARestore checks that a source stores a text with something after a restore, before which there are reports, and
// after which the first requests for the Lease are forbidden.
func sharesARestore(t *testing.T, forbidden int, want string, reports ...client.Object) {
	b := newBench(t)
	answer := b.api.Instead
	b.api.Instead = func(q *fakeapi.Request) *fakeapi.Answer {
		if q.Name == kube.RestoreLease && forbidden > 0 {
			forbidden--
			a := fakeapi.Failure(http.StatusForbidden, metav1.StatusReasonForbidden, "")
			return &a
		}
		return answer(q)
	}
	b.api.has(reportResource, reports...)
	b.source.reset()
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	defer run.Wait()
	defer stop()
	run.Go(func() { b.source.Run(ctx) })
	must(t, wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) { return b.source.Synced(), nil }))
	b.api.has(reportResource, aReport("7"))
	b.api.isAt(7)
	b.api.Lock()
	b.api.CutWatches("")
	b.api.Unlock()
	timeout, written := time.After(20*time.Second), ""
	for !strings.Contains(written, want) {
		select {
		case written = <-b.api.written:
			if !strings.Contains(written, kube.RestoreLease) {
				t.Errorf("written is %s", written)
			}
		case <-timeout:
			t.Fatalf("written is %q, without %s", written, want)
		}
	}
}

// An API server that has just started forbids the list of reports for some seconds, and answers all others. A restore
// has lost none of them by that: nodes that were shared as lost would be awaited until a person acknowledges it.
func TestShare_ForbiddenReportsAreNotLost(t *testing.T) {
	t.Parallel()
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
	for says, c := range map[string]struct {
		resource  string
		err       error
		hasListed bool
	}{
		"all is listed":                    {reportResource, nil, true},
		"reports are forbidden":            {reportResource, forbidden, false},
		"the backup has no CRD of reports": {reportResource, apierrors.NewNotFound(schema.GroupResource{}, ""), true},
		"another kind is forbidden":        {"nodes", forbidden, true},
	} {
		b := newBench(t)
		b.source.store(c.resource).handleResult(t.Context(), "list", c.err)
		equal(t, says, b.source.hasListed(), c.hasListed)
		b.source.store(c.resource).handleResult(t.Context(), "list", nil)
		b.lists(t, c.resource)
		equal(t, says+", and then listed", b.source.hasListed(), true)
	}
}
