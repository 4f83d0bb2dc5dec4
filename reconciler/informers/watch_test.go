package informers

import (
	"bytes"
	"context"
	"log/slog"
	"path"
	"strings"
	"sync"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// While a watch sends all objects first, a store has its old ones, and an open watch. After each expiry of a
// resourceVersion a deleted pod would exist there, and a new one would not, for as long as the answer takes.
func TestRun_ListsBeforeItWatches(t *testing.T) {
	t.Parallel()
	b := newBench(t)
	b.api.has("pods", aPod("web", "7"))
	b.api.isAt(20)
	b.source.reset()
	lists, expired := map[string]int{}, map[string]bool{}
	answer := b.api.Instead
	b.api.Instead = func(q *fakeapi.Request) *fakeapi.Answer { // the server is locked
		resource := path.Base(q.Resource)
		switch {
		case !q.Query.Has("watch"):
			if q.Query.Get("limit") != "1" {
				lists[resource]++
			}
		case q.Query.Has("sendInitialEvents"), q.Query.Get("resourceVersion") != "20":
			t.Errorf("a watch of %s begins without a list: %s", resource, q.Query.Encode())
		case lists[resource] == 1 && !expired[resource]:
			expired[resource] = true
			a := fakeapi.Failure(410, "Expired", "too old resource version")
			return &a
		}
		return answer(q)
	}
	ctx, stop := context.WithCancel(t.Context())
	var run sync.WaitGroup
	defer run.Wait()
	defer stop()
	run.Go(func() { b.source.Run(ctx) })
	must(t, wait.PollUntilContextTimeout(ctx, 10*time.Millisecond, time.Minute, true,
		func(context.Context) (bool, error) {
			b.api.Lock()
			defer b.api.Unlock()
			b.source.mu.Lock()
			defer b.source.mu.Unlock()
			for _, k := range b.source.stores {
				if lists[k.resource.Resource] < 2 || k.watches == 0 {
					return false, nil
				}
			}
			return b.source.isSynced, nil
		}))
}

// The log says once that a kind is watched which was missing, although its list comes first.
func TestWatch_OfWhatWasMissing(t *testing.T) {
	b := parallelBench(t)
	var log bytes.Buffer
	b.source.log = slog.New(slog.NewTextHandler(&log, nil))
	k := b.source.store(reportResource)
	k.handleResult(t.Context(), "list", apierrors.NewNotFound(schema.GroupResource{}, ""))
	k.handleResult(t.Context(), "list", nil)
	b.lists(t, reportResource)
	for range 2 {
		k.addWatch()
	}
	equal(t, "how often it is said", strings.Count(log.String(), "Started watching a resource"), 1)
}
