package ui

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/heaptest"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

func viewOf(parts ...Part) *View {
	return &View{
		Result:  &reconciler.Result{Assessment: Judged(Observe(parts...), facts.Policy{})},
		Advisor: advice.Advisor{Program: "ip-reconcile", Namespace: "kube-system", KubectlFlags: []string{"--context=prod"}},
		Status: func(context.Context) []view.StatusLine {
			return []view.StatusLine{{ID: "stale", Level: view.LevelOK, Message: "It works.", Next: "kubectl get pods"}}
		},
	}
}

func pageOf(v *View) *Page {
	p := New(true, "Wait.")
	p.Show(v)
	return p
}

func get(p http.Handler, method, path string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, nil)
	r.Host = "127.0.0.1:8080"
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	return w
}

func TestPage_EveryAnswerHasTheHeaders(t *testing.T) {
	p := pageOf(viewOf(UsualPool, UsualPod()))
	for path, code := range map[string]int{
		"/ui/": 200, "/ui/app.js": 200, "/ui/app.css": 200, "/ui/icon.svg": 200, "/ui/data/overview": 200,
		"/ui/data/explain?subject=10.0.0.5": 200, "/ui/data/pool?subject=kube-system/10.0.0.0-24": 200,
		"/": 302, "/ui": 302, "//": 404, "/none": 404, "/ui/none": 404,
		"/ui/web/app.js": 404, "/ui/../page.go": 404, "/ui/index.html": 404,
		"/ui/data/": 404, "/ui/data/secrets": 404, "/ui/data/pool?subject=none": 404, "/ui/data/history": 404,
		"/ui/data/explain": 400, "/ui/data/explain?subject=" + strings.Repeat("x", 401): 400,
		"/ui/data/overview?subject=" + strings.Repeat("x", 401):            400,
		"/ui/data/range?subject=kube-system/10.0.0.0-24&range=10.0.0.0/25": 200,
		"/ui/data/range?subject=kube-system/10.0.0.0-24":                   400,
		"/ui/data/range?subject=none&range=10.0.0.0/25":                    404,
	} {
		w := get(p, http.MethodGet, path)
		if w.Code != code {
			t.Errorf("%s: code %d, want %d: %s", path, w.Code, code, w.Body)
		}
		for name, want := range map[string]string{
			"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "Cache-Control": "no-store",
			"Referrer-Policy": "no-referrer", "X-Frame-Options": "DENY",
		} {
			if got := w.Header().Get(name); got != want {
				t.Errorf("%s: %s is %q, want %q", path, name, got, want)
			}
		}
		if head := get(p, http.MethodHead, path); head.Code != code {
			t.Errorf("HEAD of %s: code %d, want %d", path, head.Code, code)
		}
	}
	if strings.Contains(policy, "unsafe") || !strings.Contains(policy, "frame-ancestors 'none'") {
		t.Errorf("the policy is %s", policy)
	}
}

// The host alone leads to the page, also for who has no token yet: a browser sends none, and keeps the fragment.
func TestPage_TheHostAloneLeadsToThePage(t *testing.T) {
	p := pageOf(viewOf(UsualPool))
	for _, handler := range []http.Handler{p, p.WithToken("secret")} {
		for _, path := range []string{"/", "/ui", "/?x=y"} {
			w := get(handler, http.MethodGet, path)
			if w.Code != http.StatusFound || w.Header().Get("Location") != "/ui/" {
				t.Errorf("%s: code %d to %q", path, w.Code, w.Header().Get("Location"))
			}
		}
	}
}

func TestPage_HasNoInlineScriptOrStyle(t *testing.T) {
	html := get(pageOf(viewOf()), http.MethodGet, "/ui/").Body.String()
	for _, text := range []string{"<style", " style=", "<script>", " on", "http:", "https:", "//"} {
		if strings.Contains(strings.ToLower(html), text) {
			t.Errorf("index.html has %q", text)
		}
	}
}

func TestPage_SetsTextAndNoMarkup(t *testing.T) {
	all, err := files.ReadDir("web")
	check(t, err)
	total := 0
	for _, f := range all {
		text, err := files.ReadFile("web/" + f.Name())
		check(t, err)
		total += len(text)
		for _, banned := range []string{"innerHTML", "outerHTML", "insertAdjacent", "document.write", "eval(", "Function(",
			"DOMParser", "srcdoc", "http://", "https://"} {
			if strings.Contains(strings.ReplaceAll(string(text), "http://www.w3.org/2000/svg", ""), banned) {
				t.Errorf("%s has %s", f.Name(), banned)
			}
		}
	}
	if total > 60_000 {
		t.Errorf("the page has %d bytes", total)
	}
}

func TestPage_IsReadOnly(t *testing.T) {
	p := pageOf(viewOf(UsualPool))
	for _, method := range []string{"POST", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "QUERY"} {
		for _, path := range []string{"/", "/ui/", "/ui/data/overview", "/ui/events", "/none"} {
			if w := get(p, method, path); w.Code != http.StatusMethodNotAllowed || w.Header().Get("Allow") != "GET, HEAD" {
				t.Errorf("%s %s: code %d", method, path, w.Code)
			}
		}
	}
}

// Nobody reads data of the cluster without the token. The files of the page have none.
func TestPage_WithToken(t *testing.T) {
	p := New(true, "")
	p.Show(viewOf())
	for given, code := range map[string]int{"Bearer secret": 200, "": 401, "Bearer": 401, "Bearer ": 401, "secret": 401,
		"Bearer secret ": 401, "bearer secret": 401, "Basic secret": 401} {
		for path, isPublic := range map[string]bool{"/ui/": true, "/ui/app.js": true, "/ui/data/overview": false,
			"/ui/data/../data/overview": false, "/ui/data/explain?subject=10.0.0.5": false} {
			r := httptest.NewRequest(http.MethodGet, path, nil)
			r.Header.Set("Authorization", given)
			w := httptest.NewRecorder()
			p.WithToken("secret").ServeHTTP(w, r)
			isRefused := w.Code == http.StatusUnauthorized
			if isRefused != (code == 401 && !isPublic) {
				t.Errorf("%q for %s: code %d", given, path, w.Code)
			}
		}
	}
}

func TestPage_IsPublicHasNoData(t *testing.T) {
	p := pageOf(viewOf(UsualPool))
	for path, want := range map[string]bool{
		"/ui/": true, "/ui/app.js": true, "/ui/app.css": true, "/ui/icon.svg": true, "/ui/data/overview": false,
		"/ui/events": false, "/metrics": false, "/": true, "/ui": true, "/none": false,
		"/app.js": false, "/ui/../data/overview": false,
		"/ui/data/../app.js": true, // the answer is that file, or none
	} {
		if got := p.IsPublic(path); got != want {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
	}
	if w := get(p, http.MethodGet, "/ui/data/../data/overview"); w.Code == 200 || p.IsPublic("/ui/data/../data/overview") {
		t.Errorf("an odd path has data without authentication: %d", w.Code)
	}
}

// Names are any text that an object may have, and more: what the API server refuses, a snapshot may have.
func TestPage_HostileNames(t *testing.T) {
	hostile := `x</script><img src=x onerror=alert(1)>&"'` + "\u202e\x1b[31m\u2028"
	p := pageOf(viewOf(Pool("10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/"+hostile, hostile, hostile)),
		Pod("web-1", OnNode(hostile))))
	escaped := url.QueryEscape(hostile)
	for _, path := range []string{"overview", "explain?subject=10.0.0.5", "explain?subject=node/" + escaped,
		"explain?subject=default/" + escaped, "pool?subject=" + escaped, "pool?subject=kube-system/10.0.0.0-24"} {
		w := get(p, http.MethodGet, "/ui/data/"+path)
		if !json.Valid(w.Body.Bytes()) || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: %s %s", path, w.Header().Get("Content-Type"), w.Body)
		}
		for _, raw := range []string{"<img", "\x1b", "\u2028"} {
			if strings.Contains(w.Body.String(), raw) {
				t.Errorf("%s: the answer has %q", path, raw)
			}
		}
	}
	var d Printed
	if err := json.Unmarshal(get(p, http.MethodGet, "/ui/data/explain?subject=10.0.0.5").Body.Bytes(), &d); err != nil ||
		strings.ContainsAny(d.Text, "\x1b\u202e\u2028") || !strings.Contains(d.Text, "10.0.0.5 in kube-system/10.0.0.0-24") {
		t.Errorf("%v: %s", err, d.Text)
	}
}

// The overview has what needs attention, and not the thousands of addresses that are in use.
func TestPage_OverviewHasWhatNeedsAttention(t *testing.T) {
	p := pageOf(viewOf(Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation, Alloc("6", "default/gone", "box-2", "net1")),
		UsualPod(Carrying("10.0.0.5"))))
	var d Overview
	check(t, json.Unmarshal(get(p, http.MethodGet, "/ui/data/overview").Body.Bytes(), &d))
	if all := d.Check.Allocations; len(all) != 1 || all[0].IP != "10.0.0.6" || d.Pools.Pools[0].Used != 2 {
		t.Errorf("%+v\n%+v", all, d.Pools.Pools)
	}
	if next := d.Status.Lines[0].Next; next != "kubectl --context=prod get pods" {
		t.Errorf("the command of a check is %q", next)
	}
}

// The overview has who carries the address of a conflict, and whom the allocation names, though that one is in use.
func TestPage_OverviewHasTheCarriersOfAConflict(t *testing.T) {
	p := pageOf(viewOf(UsualPool, UsualPod(Carrying("10.0.0.5")), Pod("twin", UID(OtherUID), Carrying("10.0.0.5"))))
	var d Overview
	check(t, json.Unmarshal(get(p, http.MethodGet, "/ui/data/overview").Body.Bytes(), &d))
	if len(d.Conflicts) != 1 || len(d.Conflicts[0].Carriers) != 2 || !d.Conflicts[0].Carriers[0].Recorded ||
		d.Conflicts[0].Carriers[1].Pod != "default/twin" || len(d.Check.Findings) == 0 {
		t.Errorf("the conflicts are %+v of the findings %+v", d.Conflicts, d.Check.Findings)
	}
}

func TestPage_WithoutAJudgement(t *testing.T) {
	p := New(true, "Only the lease holder makes passes.")
	w := get(p, http.MethodGet, "/ui/data/overview")
	if w.Code != http.StatusServiceUnavailable || !strings.Contains(w.Body.String(), "Only the lease holder") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	p.Show(viewOf())
	p.Fail("The last pass has failed.")
	if w := get(p, http.MethodGet, "/ui/data/overview"); w.Code != 200 {
		t.Errorf("after a failure the last judgement is not shown: %d", w.Code)
	}
	want := `"problem":"The last pass has failed."`
	if e := string(p.current().event()); !strings.Contains(e, want) || !strings.Contains(e, Now.Format(time.RFC3339)) {
		t.Error(e)
	}
}

// Behind a Service the next connection may reach the replica that makes passes. A page on localhost has one process.
func TestPage_WithoutAJudgementEndsTheConnection(t *testing.T) {
	for _, path := range []string{"/ui/events", "/ui/data/overview"} {
		p := New(false, "Only the lease holder makes passes.")
		close(p.closed) // so that a stream ends
		w := get(p, http.MethodGet, path)
		if w.Code != http.StatusServiceUnavailable || w.Header().Get("Connection") != "close" ||
			!strings.Contains(w.Body.String(), "Only the lease holder") {
			t.Errorf("%s: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
	}
	w := get(New(true, "Wait."), http.MethodGet, "/ui/data/overview")
	if w.Header().Get("Connection") != "" {
		t.Errorf("a page on localhost ends the connection")
	}
}

func TestPage_MakesAnAnswerOnceForAJudgement(t *testing.T) {
	calls := 0
	v := viewOf(UsualPool)
	v.Status = func(context.Context) []view.StatusLine { calls++; return nil }
	p := pageOf(v)
	done := make(chan bool)
	for range 50 {
		go func() { done <- get(p, http.MethodGet, "/ui/data/overview").Code == 200 }()
	}
	for range 50 {
		if !<-done {
			t.Error("a reader had no answer")
		}
	}
	if calls != 1 {
		t.Errorf("the answer was made %d times", calls)
	}
	for i := range 2 * maxKept {
		get(p, http.MethodGet, fmt.Sprintf("/ui/data/explain?subject=10.0.0.%d", i))
	}
	if n := len(p.state.kept.answers); n != maxKept {
		t.Errorf("%d answers are kept", n)
	}
	p.Show(v)
	if len(p.state.kept.answers) != 0 {
		t.Error("answers of the last judgement are kept")
	}
}

func TestPage_HistoryIsThatOfTheSubject(t *testing.T) {
	v := viewOf()
	v.History = func(context.Context) (lines []audit.Line, err error) {
		for _, ip := range []string{"10.0.0.5", "10.0.0.6"} {
			r := audit.Record{What: audit.Released, Time: Now, IP: ip, Message: "the pod of " + ip + " is gone"}
			lines = append(lines, audit.Line{Record: r})
		}
		return lines, nil
	}
	p := pageOf(v)
	one := get(p, http.MethodGet, "/ui/data/history?subject=10.0.0.5").Body.String()
	all := get(p, http.MethodGet, "/ui/data/history").Body.String()
	if strings.Contains(one, "10.0.0.6") || !strings.Contains(one, "the pod of 10.0.0.5 is gone") ||
		!strings.Contains(all, "10.0.0.6") {
		t.Errorf("one: %s\nall: %s", one, all)
	}
	v.History = func(context.Context) ([]audit.Line, error) { return nil, io.ErrUnexpectedEOF }
	p.Show(v)
	if w := get(p, http.MethodGet, "/ui/data/history"); w.Code != http.StatusBadGateway {
		t.Errorf("unreadable: %d", w.Code)
	}
}

// sound is a cluster with n pods in a /16.
func sound(n int) Part {
	parts := []Part{NAD("wb", WhereaboutsConfig("10.0.0.0/16", "", `"enable_overlapping_ranges": false`))}
	var allocations []Allocation
	for i := range n {
		name, uid := fmt.Sprint("web-", i), fmt.Sprint("uid-", i)
		allocations = append(allocations, Alloc(fmt.Sprint(i+1), "default/"+name, "box-"+fmt.Sprint(i), "net1"))
		ip := fmt.Sprintf("10.0.%d.%d", (i+1)/256, (i+1)%256)
		parts = append(parts, Pod(name, UID(uid), Carrying(ip)))
	}
	return All(append(parts, Pool("10.0.0.0-16", "10.0.0.0/16", allocations...))...)
}

// What serve has in memory beside its pools and pods is the judgement of the last pass, which it would else drop, and
// the answers that are read.
func TestPage_MemoryOfTenThousandPods(t *testing.T) {
	const pods = 10_000 // of fewer, what does not grow with them would count too much
	o := Observe(sound(pods))
	before := heaptest.InUse()
	v := viewOf()
	v.Result.Assessment = Judged(o, facts.Policy{})
	p := pageOf(v)
	for _, path := range []string{"overview", "pool?subject=kube-system/10.0.0.0-16", "explain?subject=10.0.3.3",
		"explain?subject=pool/10.0.0.0-16"} {
		if w := get(p, http.MethodGet, "/ui/data/"+path); w.Code != 200 {
			t.Fatalf("%s: %s", path, w.Body)
		}
	}
	more := heaptest.InUse() - before
	t.Logf("%d KiB more", more>>10)
	if most := uint64(6 << 20); more > most { // the collector lets a heap grow by two fifths
		t.Errorf("the page has %d KiB of %d pods, want at most %d", more>>10, pods, most>>10)
	}
	runtime.KeepAlive(o)
	runtime.KeepAlive(p)
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
