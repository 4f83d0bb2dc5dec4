package agent_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

const reportBytes = 640 << 10

// longNamed gives the sandboxes and attachments of a test names and paths as long as usual ones.
func longNamed(i int) (podName, uid, path string) {
	uid = fmt.Sprintf("%08x-aaaa-4bbb-8ccc-%012x", i, i)
	return fmt.Sprintf("nightly-build-%08d-%05d", i, i), uid, "/var/run/netns/cni-" + uid
}

// running returns a READY sandbox with two addresses.
func running(i int) v1alpha1.Sandbox {
	s := sandbox(id(fmt.Sprintf("a%06x", i)))
	s.Name, s.UID, s.NetNS = longNamed(i)
	s.NetworkClosed = &no
	for n := range 2 {
		s.Addresses = append(s.Addresses, v1alpha1.Address{IP: fmt.Sprintf("10.%d.%d.%d", n, i/250, i%250),
			IfName: fmt.Sprintf("net%d", n), Network: "macvlan-storage", Range: fmt.Sprintf("10.%d.0.0/16", n)})
	}
	return s
}

// finished returns the sandbox of a finished pod. The one with the highest number is the oldest.
func finished(i int) v1alpha1.Sandbox {
	s := sandbox(id(fmt.Sprintf("b%06x", i)))
	s.Name, s.UID, s.NetNS = longNamed(i)
	s.State, s.NetworkClosed, s.Addresses = v1alpha1.SandboxNotReady, &yes, nil
	s.CreatedAt = at(-time.Hour - time.Duration(i)*time.Second)
	return s
}

// leftover returns an attachment with addresses whose network is closed. The one with the highest number is the oldest.
func leftover(i int) v1alpha1.Attachment {
	a := attachment(id(fmt.Sprintf("c%06x", i)), &yes)
	a.Name, a.UID, a.NetNS = longNamed(i)
	a.Addresses = running(i).Addresses
	a.Since = at(-time.Hour - time.Duration(i)*time.Second)
	return a
}

// partsOf returns n items.
func partsOf[T any](n int, item func(i int) T) (all []any) {
	for i := range n {
		all = append(all, item(i))
	}
	return all
}

// Finished pods that nobody deletes must not cost running pods their addresses.
func TestNextReport_DropsEndedEntriesBeforeAddresses(t *testing.T) {
	live := partsOf(110, running)
	bare := func(i int) v1alpha1.Sandbox {
		return v1alpha1.Sandbox{ID: fmt.Sprint(i), State: "NotReady", NetworkClosed: &yes}
	}
	for name, c := range map[string]struct {
		ended       []any
		sandboxes   int // at most, with those that run
		attachments int // at most
		isDropped   bool
	}{
		"few finished pods":                  {partsOf(500, finished), 610, 0, false},
		"many finished pods":                 {partsOf(2500, finished), 2000, 0, true},
		"more finished pods than a list has": {partsOf(4200, bare), 4000, 0, true},
		"many attachments":                   {partsOf(1000, leftover), 110, 1000, false},
		"both":                               {append(partsOf(1500, finished), partsOf(900, leftover)...), 1609, 899, true},
	} {
		t.Run(name, func(t *testing.T) {
			l := inspection(0, slices.Concat(live, c.ended)...)
			r := agent.NextReport(nil, l)
			text, err := json.Marshal(r)
			check(t, err)
			if len(text) > reportBytes || c.isDropped && name != "more finished pods than a list has" &&
				len(text) < reportBytes-2000 {
				t.Errorf("the report has %d bytes", len(text))
			}
			if len(r.Sandboxes) > c.sandboxes || len(r.Attachments) > c.attachments {
				t.Errorf("%d sandboxes and %d attachments", len(r.Sandboxes), len(r.Attachments))
			}
			dropped := len(l.Sandboxes) + len(l.Attachments) - len(r.Sandboxes) - len(r.Attachments)
			if c.isDropped && dropped == 0 {
				t.Error("nothing was dropped")
			}
			equal(t, "running sandboxes", []any{r.Sandboxes[0], r.Sandboxes[109]}, []any{live[0], live[109]})
			equal(t, "summary", r.Summary, v1alpha1.Summary{Sandboxes: int32(len(r.Sandboxes)),
				NotReady: int32(len(r.Sandboxes) - 110), Attachments: int32(len(r.Attachments))})
			oldest := at(0)
			for _, s := range r.Sandboxes {
				if s.CreatedAt.Before(&oldest) {
					oldest = s.CreatedAt
				}
			}
			for _, a := range r.Attachments {
				equal(t, "attachment is unread", a.AddressesUnread, false)
				if a.Since.Before(&oldest) {
					oldest = a.Since
				}
			}
			for _, p := range c.ended {
				if s, is := p.(v1alpha1.Sandbox); is && !s.CreatedAt.IsZero() && oldest.Before(&s.CreatedAt) &&
					!slices.ContainsFunc(r.Sandboxes, func(in v1alpha1.Sandbox) bool { return in.ID == s.ID }) {
					t.Fatalf("the sandbox of %v is dropped and one of %v is kept", s.CreatedAt, oldest)
				}
			}
			if agent.NextReport(r, inspection(time.Minute, slices.Concat(live, c.ended)...)) != r {
				t.Error("another report of the same inspection")
			}
			// What was dropped is absent later, and not gone.
			after := inspection(2*time.Minute, live...)
			after.NamespaceGone = map[string]bool{}
			equal(t, "gone", len(agent.NextReport(r, after).Gone), min(500, len(r.Sandboxes)+len(r.Attachments)-110))
		})
	}
}

func TestNextReport_NeverDropsWhatMayRun(t *testing.T) {
	maybe := func(state v1alpha1.SandboxState, closed *bool) func(i int) v1alpha1.Sandbox {
		return func(i int) v1alpha1.Sandbox {
			s := finished(i)
			s.State, s.NetworkClosed = state, closed
			return s
		}
	}
	for name, parts := range map[string][]any{
		"stopped, and the network is open":    partsOf(3000, maybe(v1alpha1.SandboxNotReady, &no)),
		"stopped, and the network is unknown": partsOf(3000, maybe(v1alpha1.SandboxNotReady, nil)),
		"ready, and the network is closed":    partsOf(3000, maybe(v1alpha1.SandboxReady, &yes)),
	} {
		equal(t, name, len(agent.NextReport(nil, inspection(0, parts...)).Sandboxes), 3000)
	}
	// The end of these attachments is known only by the report before. Without it they would count as running for ever.
	first := inspection(0, partsOf(900, leftover)...)
	first.Machine = v1alpha1.Machine{SystemUUID: "board", MachineID: "disk"}
	before := agent.NextReport(nil, first)
	parts := partsOf(2500, finished)
	for i := range 900 {
		a := leftover(i)
		a.NetworkClosed, a.Since = nil, at(-100*time.Hour)
		parts = append(parts, a)
	}
	second := inspection(time.Minute, parts...)
	second.Machine = first.Machine
	equal(t, "attachments", len(agent.NextReport(before, second).Attachments), 900)
}

// The log says once that something is left out, and how much.
func TestAgent_LogsWhatAReportLacks(t *testing.T) {
	const leaving, room = "Leaving ended sandboxes or addresses", "has room for all"
	large := func(i int) v1alpha1.Attachment {
		a := leftover(i)
		a.NetworkClosed = nil
		a.Addresses[0].Network = strings.Repeat("n", 200)
		a.Addresses[1].Network = strings.Repeat("n", 200)
		return a
	}
	runScene(t, nil, func(s *scene) {
		expect := func(what string, lines []string, with ...string) {
			t.Helper()
			if len(lines) != 1 {
				t.Fatalf("%s: %d lines: %q", what, len(lines), lines)
			}
			for _, part := range with {
				if !strings.Contains(lines[0], part) {
					t.Errorf("%s: %q is not in %s", what, part, lines[0])
				}
			}
		}
		equal(t, "at the start", len(s.logs.take(leaving)), 0)
		s.change(func() { s.items = partsOf(4200, finished) })
		s.callsDuring(time.Minute)
		expect("finished pods", s.logs.take(leaving), fmt.Sprintf("endedSandboxes=%d ", 4200-len(s.lastReport().Sandboxes)),
			"endedAttachments=0 ", "finished pods", "sandboxesWithoutAllAddresses=0 ")
		s.change(func() { s.items = slices.Concat(partsOf(4200, finished), partsOf(990, large)) })
		s.callsDuring(time.Minute)
		expect("attachments that may run", s.logs.take(leaving), "endedSandboxes=4200 ",
			"attachmentsWithoutAllAddresses=990 ")
		s.change(func() { s.items = partsOf(10, running) })
		s.callsDuring(time.Minute)
		expect("when they are gone", s.logs.take(room))
	})
}
