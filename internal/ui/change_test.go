package ui

import (
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// shrunk has a pod with 10.0.0.5, which the definition of today excludes.
func shrunk() *View {
	v := viewOf(UsualPool, UsualPod(Carrying("10.0.0.5")),
		ReportingWorker(Sandbox("box-1", UsualUID, WithAddress("10.0.0.5", ""))),
		NAD("wb", WhereaboutsConfig("10.0.0.0/24", "", `"exclude":["10.0.0.0/29","10.0.0.9/32"]`, `"range_end":"10.0.0.99"`)))
	v.Advisor.Flags = []string{"--context=prod"}
	return v
}

func answerOf[T any](t *testing.T, v *View, path string) (d T) {
	t.Helper()
	w := get(pageOf(v), http.MethodGet, "/ui/data/"+path)
	if w.Code != http.StatusOK {
		t.Fatalf("%s: %d %s", path, w.Code, w.Body)
	}
	check(t, json.Unmarshal(w.Body.Bytes(), &d))
	return d
}

func TestPage_APoolHasItsDefinitionsAndWhatIsOutside(t *testing.T) {
	d := answerOf[PoolMap](t, shrunk(), "pool?subject=kube-system/10.0.0.0-24")
	if len(d.Definitions) != 1 || len(d.Outside) != 1 || d.MoreDefinitions+d.MoreOutside != 0 {
		t.Fatalf("definitions %+v, outside %+v", d.Definitions, d.Outside)
	}
	x := d.Definitions[0]
	got := strings.Join([]string{x.Definition, x.Network, x.Range, x.Start, x.End, strings.Join(x.Exclude, "+")}, " ")
	if want := "default/wb  10.0.0.0/24  10.0.0.99 10.0.0.0/29+10.0.0.9/32"; got != want || !x.OverlappingRanges {
		t.Errorf("the definition is %q %t, want %q", got, x.OverlappingRanges, want)
	}
	if d.Outside[0].IP != "10.0.0.5" {
		t.Errorf("outside: %+v", d.Outside[0])
	}
}

// The page answers as pools check does, and prints the command that asks the same.
func TestPage_AnswersWhatAnotherRangeWouldMean(t *testing.T) {
	q := url.Values{"subject": {"kube-system/10.0.0.0-24"}, "range": {"10.0.0.0/25"}, "start": {"10.0.0.4"},
		"end": {"10.0.0.90"}, "exclude": {"10.0.0.16/28, 10.0.0.7"}, "add": {"3"}}
	d := answerOf[Checked](t, shrunk(), "range?"+q.Encode())
	want := "ip-reconcile pools check kube-system/10.0.0.0-24 --new-range=10.0.0.0/25 --range-start=10.0.0.4 " +
		"--range-end=10.0.0.90 --exclude=10.0.0.16/28,10.0.0.7 --add=3 --context=prod"
	if d.Command != want {
		t.Errorf("the command is %q, want %q", d.Command, want)
	}
	if d.Answer != "Twice" || !strings.Contains(d.Text, "ASSIGNED TWICE (1)") || !strings.Contains(d.Text, "DOES IT FIT") {
		t.Errorf("the answer is %s: %s", d.Answer, d.Text)
	}
	q.Set("add", "")
	if again := answerOf[Checked](t, shrunk(), "range?"+q.Encode()); strings.Contains(again.Command, "--add") {
		t.Errorf("the command is %q", again.Command)
	}
}

func TestPage_AChangeIsBounded(t *testing.T) {
	p := pageOf(shrunk())
	for field, values := range map[string][]string{
		"range":   {"", "10.0.0.0", "x", strings.Repeat("1", maxField+1)},
		"start":   {"10.0.0", strings.Repeat("1", maxField+1), "10.0.0.4\x00"},
		"end":     {"::1%", strings.Repeat("1", maxField+1)},
		"exclude": {"10.0.0.0/99", "$(reboot)", strings.Repeat("1", maxField+1)},
		"add":     {"-1", "1000001", "x", "1e3", strings.Repeat("1", maxField+1)},
	} {
		for _, value := range values {
			q := url.Values{"subject": {"kube-system/10.0.0.0-24"}, "range": {"10.0.0.0/25"}, field: {value}}
			w := get(p, http.MethodGet, "/ui/data/range?"+q.Encode())
			if w.Code != http.StatusBadRequest {
				t.Errorf("%s %.20q: code %d: %s", field, value, w.Code, w.Body)
			}
		}
	}
	if w := get(p.WithToken("secret"), http.MethodGet, "/ui/data/range?range=10.0.0.0/25"); w.Code != 401 {
		t.Errorf("without the token: code %d", w.Code)
	}
}
