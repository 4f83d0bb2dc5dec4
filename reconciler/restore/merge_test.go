package restore

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// process is the State of a process with a name, whose IDs have it.
func process(name string) State {
	return State{IDs: func(n int) string { return fmt.Sprint(name, "-", n) }}
}

// reading is an observation of worker-1, whose Lease has a version and perhaps a nonce.
func reading(after time.Duration, version, nonce string, more ...Part) *Observed {
	return Observe(append([]Part{At(Now.Add(after)), UsualPool, Node("worker-1"),
		FreshReport("worker-1", func(r *podstate.Report) { r.LeaseVersion, r.RestoreNonce = version, nonce })}, more...)...)
}

func restored(o *Observed) { o.Restored = "its watches say so" }

// pass is a pass that reads, reads what is stored, and stores what it knows.
func (s State) pass(t *testing.T, store *string, o *Observed) State {
	t.Helper()
	return s.BeginRead().passSince(t, store, o)
}

// passSince is a pass whose read began before.
func (s State) passSince(t *testing.T, store *string, o *Observed) State {
	t.Helper()
	s, err := s.Read(*store, o.Now)
	if err != nil {
		t.Fatal(err)
	}
	s, o.Restored = s.Observe(o.Observation)
	s = s.Settle(s.judged(o, facts.Policy{}))
	if s.IsStored() {
		return s.Written()
	}
	s, text, err := s.Write(*store, o.Now)
	if err != nil {
		t.Fatal(err)
	}
	*store = text
	return s.Written()
}

func (s State) wants(t *testing.T, says, id, replaces string, isSettled bool) {
	t.Helper()
	if s.last.ID != id || s.last.Replaces != replaces || s.last.IsSettled != isSettled {
		t.Errorf("%s: ID %q, which replaces %q, settled %v; want %q, %q, %v", says, s.last.ID, s.last.Replaces,
			s.last.IsSettled, id, replaces, isSettled)
	}
}

// A read that fails has one object, which shows a restore. The others are older, too, when they are read, and that is
// the same restore.
func TestState_OneRestoreShowsOnce(t *testing.T) {
	store := ""
	version := func(object, version string) facts.Version {
		return facts.Version{Object: object, ResourceVersion: version}
	}
	o := reading(0, "100", "")
	o.Versions = []facts.Version{version("IPPool a/b", "100"), version(facts.ReportObject+"worker-1", "90")}
	s := process("a").pass(t, &store, o)
	failed := &facts.Observation{Now: Now.Add(time.Minute), Versions: []facts.Version{version("IPPool a/b", "80")}}
	s, why := s.Detect(failed)
	if why != "IPPool a/b is at resourceVersion 80 after 100" {
		t.Errorf("it is shown by %q", why)
	}
	o = reading(2*time.Minute, "95", "")
	o.Versions = []facts.Version{version("IPPool a/b", "80"), version(facts.ReportObject+"worker-1", "70")}
	s, why = s.Detect(o.Observation)
	if why != "" || s.last.ID != "a-1" {
		t.Errorf("it is shown again, by %q, as %s", why, s.last.ID)
	}
}

// What a restore has lost is written again, at a version that shows the restore.
func TestState_WrittenAtAnOlderVersion(t *testing.T) {
	pool := func(version string) *ippool.Pool {
		return &ippool.Pool{NamespacedName: types.NamespacedName{Namespace: "a", Name: "b"}, ResourceVersion: version}
	}
	o := &facts.Observation{Now: Now, Versions: []facts.Version{{Object: "IPPool a/b", ResourceVersion: "100"}}}
	s, _ := process("a").Detect(o)
	s = s.Wrote(map[types.NamespacedName]*ippool.Pool{pool("").NamespacedName: pool("95")})
	o.Versions[0].ResourceVersion = "95"
	if _, why := s.Detect(o); why == "" {
		t.Error("a pool at resourceVersion 95 after 100 shows no restore")
	}
}

// A pass that detects a restore may have read Leases of before the backup. The next read says from which version on a
// report is since.
func TestState_SinceIsOfTheNextRead(t *testing.T) {
	store := ""
	s := process("a").pass(t, &store, reading(0, "100", ""))
	s = s.pass(t, &store, reading(time.Minute, "200", "", restored))
	s.wants(t, "detected", "a-1", "", false)
	if s.last.Since != "" {
		t.Errorf("since %s by the pass that detects the restore", s.last.Since)
	}
	s = s.pass(t, &store, reading(2*time.Minute, "300", ""))
	if s.last.Since != "300" || s.last.IsSettled {
		t.Errorf("since %s, settled %v", s.last.Since, s.last.IsSettled)
	}
	s.pass(t, &store, reading(3*time.Minute, "301", "")).wants(t, "reported since", "a-1", "", true)
	t.Run("by the revision of the list, which a Lease may lack", func(t *testing.T) {
		list := func(o *Observed) { o.AgentLeases = facts.Complete(true, "320") }
		store := ""
		s := process("b").pass(t, &store, reading(0, "200", "", restored))
		s = s.pass(t, &store, reading(time.Minute, "300", "", list))
		s = s.pass(t, &store, reading(2*time.Minute, "300", "", list))
		s.pass(t, &store, reading(3*time.Minute, "315", "", list)).wants(t, "of a deleted Lease", "b-1", "", false)
	})
	t.Run("not of Leases that cannot be read", func(t *testing.T) {
		store := ""
		s := process("c").pass(t, &store, reading(0, "200", "", restored))
		unknown := func(o *Observed) { o.AgentLeases = facts.Unknown[bool](errors.New("forbidden")) }
		if s = s.pass(t, &store, reading(time.Minute, "300", "", unknown)); s.last.Since != "" {
			t.Errorf("since %s", s.last.Since)
		}
	})
}

// Another process stores a restore while this one reads. What was read may be of before it, although its version is
// greater than what is since.
func TestState_ReadBeforeTheRestoreWasKnown(t *testing.T) {
	store := ""
	s := process("a").pass(t, &store, reading(0, "350", ""))
	s = s.BeginRead()
	store = `{"id":"b-1","since":"300","restored":"2026-11-20T10:00:00Z","asked":true}`
	s = s.passSince(t, &store, reading(time.Minute, "400", ""))
	s.wants(t, "read before", "b-1", "", false)
	if o := reading(time.Minute, "400", ""); s.Pauses(s.judged(o, facts.Policy{})) == "" {
		t.Error("releases go on")
	}
	s.pass(t, &store, reading(2*time.Minute, "401", "")).wants(t, "read since", "b-1", "", true)
}

// What was stored shows a restore of etcd if it is neither what is known nor what replaced it.
func TestState_StoredStateRanBackwards(t *testing.T) {
	settled := func(t *testing.T) (s State, store, first string) {
		s = process("a").pass(t, &store, reading(0, "100", "", restored))
		first = store
		s = s.pass(t, &store, reading(time.Minute, "101", ""))
		s = s.pass(t, &store, reading(2*time.Minute, "102", ""))
		s = s.pass(t, &store, reading(3*time.Minute, "103", "", restored))
		s = s.pass(t, &store, reading(4*time.Minute, "104", ""))
		s = s.pass(t, &store, reading(5*time.Minute, "105", ""))
		s.wants(t, "settled", "a-2", "a-1", true)
		return s, store, first
	}
	for says, c := range map[string]struct {
		text              func(first string) string
		wantID, wantsOver string
	}{
		"it is the one before":     {func(first string) string { return first }, "a-3", "a-1"},
		"it is gone":               {func(string) string { return "" }, "a-3", ""},
		"it is another's":          {func(string) string { return `{"id":"b-7","replaces":"b-6"}` }, "a-3", "b-7"},
		"it has replaced this one": {func(string) string { return `{"id":"b-7","replaces":"a-2"}` }, "b-7", "a-2"},
	} {
		t.Run(says, func(t *testing.T) {
			s, store, first := settled(t)
			store = c.text(first)
			before := s
			s = s.pass(t, &store, reading(6*time.Minute, "106", ""))
			s.wants(t, "read", c.wantID, c.wantsOver, false)
			if !s.IsNewerThan(before) || !strings.Contains(store, `"id":"`+c.wantID+`"`) {
				t.Errorf("stored is %s", store)
			}
			if _, awaits := s.last.Pending["worker-1"]; !awaits {
				t.Errorf("awaited are %v", s.last.Pending)
			}
			s = s.pass(t, &store, reading(7*time.Minute, "107", ""))
			s.pass(t, &store, reading(8*time.Minute, "108", "")).wants(t, "reported since", c.wantID, c.wantsOver, true)
		})
	}
}

// An ID that was not sent serves for what shows meanwhile. Another process may wait for reports by one that was.
func TestState_SentIDServesNoOther(t *testing.T) {
	store := ""
	s := process("a").pass(t, &store, reading(0, "100", ""))
	begun := s.Detected("a live read", Now.Add(time.Second)).Detected("another", Now.Add(2*time.Second))
	begun.wants(t, "twice before it is sent", "a-1", "", false)
	s = begun.pass(t, &store, reading(time.Minute, "101", ""))
	s.wants(t, "sent", "a-1", "", false)
	s.Detected("a live read", Now.Add(time.Hour)).wants(t, "then", "a-3", "a-1", false)
	lost := begun.Unread(nil)
	lost, _, _ = lost.Write("", Now) // the answer to which is lost
	lost = lost.NotWritten(errors.New("timeout"))
	lost.Detected("a live read", Now.Add(time.Hour)).wants(t, "perhaps sent", "a-3", "a-1", false)
}

// Two processes detect a restore at once. The one that stores its ID later replaces the other's, since its evidence may
// be of a younger restore, and the first one follows.
func TestState_TwoDetectARestore(t *testing.T) {
	store := ""
	a, b := process("a").pass(t, &store, reading(0, "100", "")), process("b").pass(t, &store, reading(0, "100", ""))
	a, b = a.BeginRead(), b.BeginRead()
	a = a.passSince(t, &store, reading(time.Minute, "90", "", restored))
	b, _ = b.Observe(reading(time.Minute, "90", "", restored).Observation)
	b = b.pass(t, &store, reading(90*time.Second, "91", ""))
	b.wants(t, "the second", "b-1", "a-1", false)
	a = a.pass(t, &store, reading(2*time.Minute, "92", ""))
	a.wants(t, "the first", "b-1", "a-1", false)
	b = b.pass(t, &store, reading(3*time.Minute, "93", ""))
	b = b.pass(t, &store, reading(4*time.Minute, "94", ""))
	b.wants(t, "the second", "b-1", "a-1", true)
	a = a.pass(t, &store, reading(4*time.Minute, "94", ""))
	a.wants(t, "the first", "b-1", "a-1", true)
}

// Processes share that a restore is settled, and which nodes it has lost.
func TestState_SameRestore(t *testing.T) {
	store := ""
	a := process("a").pass(t, &store, reading(0, "100", "", restored))
	b := process("b").pass(t, &store, reading(time.Minute, "101", ""))
	b.wants(t, "taken over", "a-1", "", false)
	b = b.pass(t, &store, reading(2*time.Minute, "102", ""))
	b = b.pass(t, &store, reading(150*time.Second, "103", ""))
	b.wants(t, "by the one", "a-1", "", true)
	a = a.pass(t, &store, reading(3*time.Minute, "103", ""))
	a.wants(t, "by the other", "a-1", "", true)
	var kept map[string]any
	if err := json.Unmarshal([]byte(store), &kept); err != nil {
		t.Fatal(err)
	}
	kept["awaited"], kept["settled"] = map[string]bool{"worker-9": true}, false
	text, _ := json.Marshal(kept)
	store = string(text)
	a = a.pass(t, &store, reading(4*time.Minute, "103", ""))
	if a.wants(t, "it has lost a node", "a-1", "", false); !a.last.Pending["worker-9"] {
		t.Errorf("awaited are %v", a.last.Pending)
	}
}

// An earlier version has dated a restore. One that it has settled stays so; for another one an ID begins.
func TestState_DatedRestore(t *testing.T) {
	const date = "2026-11-20T09:00:00Z"
	for text, want := range map[string]string{
		`{"restored":"` + date + `","settled":true,"doubted":{"worker-2":"x"}}`:   date,
		`{"restored":"` + date + `","detected":"` + date + `","why":"x"}`:         "a-2",
		`{"restored":"` + date + `","awaited":{"worker-9":true},"settled":false}`: "a-2",
	} {
		store := text
		s := process("a").pass(t, &store, reading(0, "100", ""))
		over := ""
		if want != date {
			over = date
		}
		s.wants(t, text, want, over, want == date)
		if lost := s.last.Pending["worker-9"]; lost != strings.Contains(text, "worker-9") {
			t.Errorf("%s: awaited are %v", text, s.last.Pending)
		}
		if want == date && s.last.Taints["worker-2"] != "x" {
			t.Errorf("in doubt are %v", s.last.Taints)
		}
	}
}

// Caches that lag behind have an earlier nonce than a quorum read. That is no restore, and neither is the next read. A
// nonce that only the caches have is one.
func TestState_NonceOfLaggingCaches(t *testing.T) {
	watched := func(o *Observed) { o.Watched = true }
	store := ""
	s := process("a").pass(t, &store, reading(0, "100", "first"))
	s = s.pass(t, &store, reading(time.Minute, "101", "first"))
	s = s.pass(t, &store, reading(2*time.Minute, "110", "second"))
	s.wants(t, "two nonces", "a-2", "a-1", false)
	s = s.pass(t, &store, reading(3*time.Minute, "105", "first", watched))
	s = s.pass(t, &store, reading(4*time.Minute, "111", "second"))
	s.wants(t, "the caches lag behind", "a-2", "a-1", false)
	s = s.pass(t, &store, reading(5*time.Minute, "120", "third", watched))
	s.wants(t, "the caches have another", "a-3", "a-2", false)
}

// The nonces of a large cluster may not fit. The next process then takes those that it finds for answered.
func TestState_NoncesTooLong(t *testing.T) {
	r := last{ID: "k3f7q2m9xa", At: Now, Nonces: map[string]answer{}}
	for i := range 9000 {
		r.Nonces[fmt.Sprint("node-", i)] = answer{"a7b2c9d4ef", Now}
	}
	r.IsSettled = true
	text, err := r.text()
	if err != nil || len(text) > longestText || !strings.Contains(text, `"answersAll":true`) {
		t.Fatalf("%v, %d bytes", err, len(text))
	}
	s := process("a").pass(t, &text, reading(0, "100", "a7b2c9d4ef"))
	s.wants(t, "as if answered", "k3f7q2m9xa", "", true)
	s = s.pass(t, &text, reading(0, "100", "another"))
	s.wants(t, "another", "a-2", "k3f7q2m9xa", false)
}

// Text keeps an answer to the hour, and has no other form.
func TestAnswer_Text(t *testing.T) {
	a := answer{"k3f7q2m9xa", Now}
	text, _ := a.MarshalText()
	var again answer
	if err := again.UnmarshalText(text); err != nil || again != (answer{"k3f7q2m9xa", Now.Truncate(time.Hour)}) {
		t.Errorf("%s is read as %v, %v", text, again, err)
	}
}
