package ui

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// A request that failed for a moment is made again: while passes fail, no newer judgement replaces the answers.
func TestPage_KeepsNoErrors(t *testing.T) {
	v := viewOf(UsualPool)
	failed := errors.New("etcdserver: request timed out")
	v.History = func(context.Context) ([]audit.Line, error) { return nil, failed }
	p := pageOf(v)
	if w := get(p, http.MethodGet, "/ui/data/history"); w.Code != http.StatusBadGateway {
		t.Fatalf("%d %s", w.Code, w.Body)
	}
	failed = nil
	if w := get(p, http.MethodGet, "/ui/data/history"); w.Code != http.StatusOK {
		t.Errorf("the next answer is the first error: %d %s", w.Code, w.Body)
	}
}

// One reader who asks for much does not have the overview be made again for each of the others.
func TestPage_KeepsTheNewestAnswers(t *testing.T) {
	for what, ask := range map[string]string{"answers": "explain?subject=10.0.0.%d", "errors": "pool?subject=none-%d"} {
		calls := 0
		v := viewOf(UsualPool)
		v.Status = func(context.Context) []view.StatusLine { calls++; return nil }
		p := pageOf(v)
		for i := range 2 * maxKept {
			get(p, http.MethodGet, "/ui/data/"+fmt.Sprintf(ask, i))
		}
		for range 10 {
			get(p, http.MethodGet, "/ui/data/overview")
		}
		if calls != 1 || len(p.state.kept.answers) > maxKept {
			t.Errorf("after many %s the overview was made %d times, and %d are kept", what, calls,
				len(p.state.kept.answers))
		}
	}
}
