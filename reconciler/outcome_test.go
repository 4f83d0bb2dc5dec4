package reconciler_test

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// records are those of the outcomes. The evidence of each is judged again.
type records struct {
	t   testing.TB
	mu  sync.Mutex
	all []audit.Record
}

func (r *records) add(o reconciler.Outcome) {
	r.mu.Lock()
	defer r.mu.Unlock()
	x := audit.Of(o)
	text, err := json.Marshal(x)
	var again audit.Record
	if err == nil {
		err = json.Unmarshal(text, &again)
	}
	if err != nil {
		r.t.Errorf("the record is not read again: %v: %s", err, text)
		return
	}
	r.all = append(r.all, again)
	if x.Time.IsZero() || x.Message == "" {
		r.t.Errorf("the record has no time, or no message: %s", text)
	}
	if x.Evidence == nil {
		if x.What == audit.Released || x.What == audit.Overridden {
			r.t.Errorf("the record of a release has no evidence: %s", text)
		}
		return
	}
	d, err := again.Evidence.Judge()
	if err != nil || d.Verdict != x.Verdict || d.Reason.String() != x.Reason || d.Proven != x.Proven {
		r.t.Errorf("the evidence is judged %v (%v): %s", d, err, text)
	}
}

// said are the records as "<what> <ip or pool> <reason or refusal>".
func (r *records) said() (texts []string) {
	for _, x := range r.all {
		texts = append(texts, strings.Join(strings.Fields(fmt.Sprint(x.What, " ", cmp.Or(x.IP, x.Pool), " ",
			cmp.Or(x.Refusal, x.Reason))), " "))
	}
	return texts
}

func TestRecords_OneForEachRelease(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 2)
		r := s.reconciler(t)
		all := s.records
		run(t, r)
		same(t, "records", fmt.Sprint(all.said()), "[Released 10.0.0.1 PodGone Released 10.0.0.2 PodGone]")
		x := all.all[0]
		same(t, "the entry", x.Entry, audit.Entry{Key: "1", PodRef: "default/gone-1", ContainerID: "box-1", IfName: "net1"})
		same(t, "its pool and reservations", fmt.Sprint(x.Pool, x.Reservations),
			"kube-system/10.0.0.0-16[kube-system/10.0.0.1]")
		same(t, "the row", x.Row, "gone")

		all.all = nil
		s.leaks(bluePool, 1)
		r.Options.DryRun = true
		run(t, r)
		same(t, "records of a dry run", len(all.all), 0)
	})
}

// A release that fails has no record, and one whose answer was lost has one.
func TestRecords_OfReleasesThatFail(t *testing.T) {
	for says, c := range map[string]struct {
		fault string
		want  string
	}{
		"the API server fails each time": {"always", "[]"},
		"the answer is lost":             {"answer", "[Released 10.0.0.1 PodGone]"},
	} {
		inBubble(t, says, func(t *testing.T, s *simulator) {
			s.leaks(bluePool, 1)
			patches := 0
			s.fault = func(call, _ string) (error, bool) {
				if call != "patch" {
					return nil, false
				}
				if patches++; c.fault == "answer" && patches > 1 {
					return nil, false
				}
				return errServer, c.fault == "answer"
			}
			r := s.reconciler(t)
			run(t, r)
			same(t, "records", fmt.Sprint(s.records.said()), c.want)
		})
	}
}

// A pause is one record, however many passes see it, and its end is another.
func TestRecords_OfPauses(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 1)
		r := s.reconciler(t)
		all := s.records
		for _, paused := range []bool{false, true, true, false, false, true} {
			s.paused = paused
			if _, _, err := r.Pass(t.Context(), func(*judge.Item) bool { return false }); err != nil {
				t.Fatal(err)
			}
		}
		same(t, "records", fmt.Sprint(all.said()), "[Paused Resumed Paused]")
	})
}

// What a person asked for and what was not released is a record, with the verdict or the gate.
func TestRecords_OfWhatAPersonIsRefused(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.leaks(bluePool, 3)
		s.pod("gone-2", "back", 2)
		r := s.reconciler(t)
		all := s.records
		r.Options.ByHand, r.Because = true, "they are gone"
		r.Options.Only = func(it *judge.Item) bool { return it.Text() != "10.0.0.3" }
		run(t, r)
		same(t, "records", fmt.Sprint(all.said()), "[Released 10.0.0.1 PodGone Refused 10.0.0.2 AddressOnPod]")
		all.all = nil
		s.entry(bluePool, 1, "default/gone-1", "box-1", false)
		s.paused = true
		run(t, r)
		same(t, "records of a pause", fmt.Sprint(all.said()),
			"[Paused Refused 10.0.0.1 Paused Refused 10.0.0.2 AddressOnPod]")
		r.Options.ByHand = false
		all.all = nil
		run(t, r)
		same(t, "records of a run", fmt.Sprint(all.said()), "[]")
	})
}

// A repair is a record of what was written and what was there before.
func TestRecords_OfRepairs(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.misrecorded()
		r := s.reconciler(t)
		out, err := r.Recover(t.Context())
		if err != nil || len(out.Repaired) == 0 {
			t.Fatalf("%v, repaired %d", err, len(out.Repaired))
		}
		all := s.records
		same(t, "records", fmt.Sprint(all.said()), "[Repaired 10.0.0.1 Misrecorded]")
		same(t, "before", *all.all[0].Before,
			audit.Entry{Key: "1", PodRef: "default/web", ContainerID: "ended", IfName: "net1"})
		same(t, "now", all.all[0].ContainerID, out.Repaired[0].Repair.ContainerID)
	})
}

// A release that a person asserts is recorded as that, with the person's sentence.
func TestRecords_OfOverrides(t *testing.T) {
	bubble(t, func(t *testing.T, s *simulator) {
		s.entry(bluePool, 1, "default/gone", "box", true)
		s.reported(map[string][]v1alpha1.Sandbox{"worker-1": nil})
		r := s.reconciler(t)
		if _, err := r.Check(t.Context()); err != nil {
			t.Fatal(err)
		}
		s.step = nil // from here on the agent is silent
		time.Sleep(5 * time.Minute)
		j, err := r.Check(t.Context())
		if err != nil || j.Allocations[0].Reason != judge.NoFreshReportReason {
			t.Fatal(err, j.Allocations[0].Message())
		}
		r.Options.ByHand, r.Because = true, "worker-1 was scrapped"
		r.Options.Overrides = map[judge.ID]judge.Reason{j.Allocations[0].ID(): judge.NoFreshReportReason}
		run(t, r)
		same(t, "records", fmt.Sprint(s.records.said()), "[Overridden 10.0.0.1 NoFreshReport]")
		same(t, "the person's sentence", s.records.all[0].Because, "worker-1 was scrapped")
	})
}
