package kube_test

import (
	"net/http"
	"testing"
)

// A load balancer that has no API server behind it for a moment answers 404, too.
func TestA404ThatIsNoAnswerOfAnAPIServerIsNone(t *testing.T) {
	for _, path := range []string{onePool, oneRes, onePod} {
		f := newFakeAPI(t)
		f.answers[onePool], f.answers[onePod] = object(pool("8")), object(pod("web-0"))
		f.answers[oneRes] = object(reservation().Object)
		f.answers[path] = bare(http.StatusNotFound)
		live, err := f.cluster(t).Fresh(t.Context(), seen(), need)
		if err == nil {
			t.Errorf("%s: %d %d %d was taken for an answer", path, len(live.Pools), len(live.Reservations), len(live.Pods))
		}
	}
	// Nor is it the word that there are no agents.
	f := newFakeAPI(t)
	f.answers[discovery], f.answers["/apis"] = bare(http.StatusNotFound), bare(http.StatusNotFound)
	o, err := f.cluster(t).Observe(t.Context())
	if err == nil && !o.ReportsUnreadable {
		t.Error("discovery: it was taken for an API without SandboxReports")
	}
}

func TestAnAnswerThatIsNoListIsNoEmptyList(t *testing.T) {
	for _, text := range []string{`{"kind":"PodList"}`, `{"kind":"PodList","items":[]}`, `{}`, ""} {
		f := newFakeAPI(t)
		f.answers[pods] = func(w http.ResponseWriter, _ *http.Request, _ int) {
			w.Header().Set("Content-Type", "application/json")
			_, _ = w.Write([]byte(text))
		}
		if o, err := f.cluster(t).Observe(t.Context()); err == nil {
			t.Errorf("%q was read as a list of %d pods", text, len(o.Pods))
		}
	}
}
