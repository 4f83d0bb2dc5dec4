package agent_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/agent"
	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

var yes, no = true, false

// sandbox returns a sandbox that has been running for an hour at noon.
func sandbox(id string) v1alpha1.Sandbox {
	return v1alpha1.Sandbox{ID: id, Namespace: "default", Name: "web-" + id, UID: "uid-" + id,
		State: v1alpha1.SandboxReady, CreatedAt: at(-time.Hour),
		Addresses: []v1alpha1.Address{{IP: "10.0.0.5", IfName: "net1", Network: "wb", Range: "10.0.0.0/24"}}}
}

// attachment returns an attachment that is an hour old at noon.
func attachment(id string, closed *bool) v1alpha1.Attachment {
	return v1alpha1.Attachment{ID: id, Since: at(-time.Hour), NetworkClosed: closed, Namespace: "default", Name: "web-" +
		id, UID: "uid-" + id}
}

// inspection returns an inspection at noon plus d with these sandboxes and attachments.
func inspection(d time.Duration, parts ...any) *agent.Inspection {
	l := &agent.Inspection{At: noon.Add(d), Runtime: v1alpha1.Runtime{Name: "containerd", Version: "2.4.2"},
		Identity: agent.Identity{BootID: "boot-1"}}
	for _, p := range parts {
		switch p := p.(type) {
		case v1alpha1.Sandbox:
			l.Sandboxes = append(l.Sandboxes, agent.ListedSandbox{Sandbox: p})
		case agent.ListedSandbox:
			l.Sandboxes = append(l.Sandboxes, p)
		case v1alpha1.Attachment:
			l.Attachments = append(l.Attachments, p)
		default:
			panic(fmt.Sprintf("%T", p))
		}
	}
	return l
}

// nextAfterEnds returns the report after an inspection in which the networks of all missing sandboxes are closed.
func nextAfterEnds(before *v1alpha1.SandboxReport, l *agent.Inspection) *v1alpha1.SandboxReport {
	if before != nil {
		l.NamespaceGone = map[string]bool{}
		for _, s := range before.Sandboxes {
			l.NamespaceGone[s.ID] = true
		}
	}
	return agent.NextReport(before, l)
}

// roundTrip returns a report as an agent reads it from the API server.
func roundTrip(t testing.TB, r *v1alpha1.SandboxReport) *v1alpha1.SandboxReport {
	t.Helper()
	text, err := json.Marshal(r)
	check(t, err)
	out := &v1alpha1.SandboxReport{}
	check(t, json.Unmarshal(text, out))
	return out
}

func goneIDs(r *v1alpha1.SandboxReport) string {
	var ids []string
	for _, g := range r.Gone {
		ids = append(ids, g.ID)
	}
	return strings.Join(ids, " ")
}

func TestNextReport_First(t *testing.T) {
	stopped := sandbox("b")
	stopped.State = v1alpha1.SandboxNotReady
	r := nextAfterEnds(nil, inspection(300*time.Millisecond, sandbox("a"), agent.ListedSandbox{Sandbox: sandbox("host"),
		IsIrrelevant: true}, stopped, attachment("c", &yes)))
	equal(t, "kind", r.TypeMeta, metav1.TypeMeta{APIVersion: "ip-reconcile.dev/v1alpha1", Kind: "SandboxReport"})
	equal(t, "boot id", r.BootID, "boot-1")
	equal(t, "runtime", r.Runtime, v1alpha1.Runtime{Name: "containerd", Version: "2.4.2"})
	equal(t, "observed at", r.ObservedAt, at(0))
	equal(t, "sandboxes", r.Sandboxes, []v1alpha1.Sandbox{sandbox("a"), stopped})
	equal(t, "attachments", r.Attachments, []v1alpha1.Attachment{attachment("c", &yes)})
	equal(t, "gone", len(r.Gone), 0)
	equal(t, "summary", r.Summary, v1alpha1.Summary{Sandboxes: 2, NotReady: 1, Attachments: 1})
}

func TestNextReport_Unchanged(t *testing.T) {
	parts := []any{sandbox("a"), agent.ListedSandbox{Sandbox: sandbox("host"), IsIrrelevant: true}, attachment("c", nil),
		attachment("d", &no)}
	for name, before := range map[string]*v1alpha1.SandboxReport{
		"of nothing":   nextAfterEnds(nil, inspection(0)),
		"of sandboxes": nextAfterEnds(nil, inspection(0, parts...)),
		"with gone ids": nextAfterEnds(nextAfterEnds(nil, inspection(0, sandbox("x"), attachment("y", &yes))), inspection(0,
			parts...)),
	} {
		var now []any
		if len(before.Sandboxes) > 0 {
			now = parts
		}
		for _, kept := range []*v1alpha1.SandboxReport{before, roundTrip(t, before)} {
			text, _ := json.Marshal(kept)
			for _, d := range []time.Duration{0, time.Second, time.Hour, 48 * time.Hour} {
				if nextAfterEnds(kept, inspection(d, now...)) != kept {
					t.Errorf("%s: another report after %s", name, d)
				}
			}
			if after, _ := json.Marshal(kept); string(after) != string(text) {
				t.Errorf("%s: the report was changed:\n%s\n%s", name, text, after)
			}
		}
	}
}

func TestNextReport_EachChange(t *testing.T) {
	for name, change := range map[string]func(*agent.Inspection){
		"the boot id":           func(l *agent.Inspection) { l.BootID = "boot-2" },
		"the runtime's version": func(l *agent.Inspection) { l.Runtime.Version = "2.4.3" },
		"a sandbox more": func(l *agent.Inspection) {
			l.Sandboxes = append(l.Sandboxes, agent.ListedSandbox{Sandbox: sandbox("z")})
		},
		"a sandbox that is relevant now": func(l *agent.Inspection) { l.Sandboxes[1].IsIrrelevant = false },
		"one that is irrelevant now":     func(l *agent.Inspection) { l.Sandboxes[0].IsIrrelevant = true },
		"its state":                      func(l *agent.Inspection) { l.Sandboxes[0].State = v1alpha1.SandboxNotReady },
		"its network":                    func(l *agent.Inspection) { l.Sandboxes[0].NetworkClosed = &no },
		"an address":                     func(l *agent.Inspection) { l.Sandboxes[0].Addresses[0].IP = "10.0.0.6" },
		"an attachment more": func(l *agent.Inspection) {
			l.Attachments = append(l.Attachments, attachment("z", nil))
		},
		"an attachment's network": func(l *agent.Inspection) { l.Attachments[0].NetworkClosed = &yes },
		"a gone id is back":       func(l *agent.Inspection) { l.Attachments = append(l.Attachments, attachment("x", nil)) },
	} {
		t.Run(name, func(t *testing.T) {
			now := func() *agent.Inspection {
				return inspection(time.Minute, sandbox("a"), agent.ListedSandbox{Sandbox: sandbox("host"), IsIrrelevant: true},
					attachment("c", &no))
			}
			first := now()
			first.Sandboxes = append(first.Sandboxes, agent.ListedSandbox{Sandbox: sandbox("x")})
			before := nextAfterEnds(nextAfterEnds(nil, first), now())
			before.ObservedAt = at(0)
			hash := podstate.Hash(before)
			after := now()
			change(after)
			next := nextAfterEnds(before, after)
			if next == before || podstate.Hash(next) == hash {
				t.Error("the same report")
			}
			equal(t, "observed at", next.ObservedAt, at(time.Minute))
			equal(t, "hash of the report before", podstate.Hash(before), hash)
			if again := nextAfterEnds(next, after); again != next {
				t.Error("another report of the same inspection")
			}
		})
	}
}

// Sandboxes whose network is not known to be closed may still run, after the runtime lost its state.
func TestNextReport_OnlyRebootEndsUnknownNetworks(t *testing.T) {
	here, there := v1alpha1.Machine{SystemUUID: "board", MachineID: "disk"}, v1alpha1.Machine{SystemUUID: "another",
		MachineID: "another"}
	clone, half := v1alpha1.Machine{SystemUUID: "another", MachineID: "disk"}, v1alpha1.Machine{MachineID: "disk"}
	for says, c := range map[string]struct {
		before v1alpha1.Machine
		now    agent.Identity
		want   string
	}{
		"the same boot":                       {here, agent.Identity{BootID: "boot-1", Machine: here}, ""},
		"another boot":                        {here, agent.Identity{BootID: "boot-2", Machine: here}, "a b"},
		"another boot, of another machine":    {here, agent.Identity{BootID: "boot-2", Machine: there}, ""},
		"another boot, of a clone":            {here, agent.Identity{BootID: "boot-2", Machine: clone}, ""},
		"another boot, of an unknown machine": {here, agent.Identity{BootID: "boot-2"}, ""},
		"another boot, of a machine unknown before": {v1alpha1.Machine{}, agent.Identity{BootID: "boot-2", Machine: here},
			""},
		"another boot, of machines unknown":          {v1alpha1.Machine{}, agent.Identity{BootID: "boot-2"}, ""},
		"another boot, of machines with only one id": {half, agent.Identity{BootID: "boot-2", Machine: half}, ""},
		"a boot that is not known any more":          {here, agent.Identity{Machine: here}, ""},
	} {
		first, second := inspection(0, sandbox("a"), attachment("b", nil)), inspection(time.Minute)
		first.Machine, second.Identity = c.before, c.now
		equal(t, says, goneIDs(agent.NextReport(agent.NextReport(nil, first), second)), c.want)
	}
}

// A CNI cache file may name no network namespace, and outlives a boot. No network does, and no id returns.
func TestNextReport_EndOfAttachmentWhoseNetworkIsUnknown(t *testing.T) {
	here, there := v1alpha1.Machine{SystemUUID: "board", MachineID: "disk"}, v1alpha1.Machine{SystemUUID: "another",
		MachineID: "another"}
	type step struct {
		boot    string
		machine v1alpha1.Machine
		part    any
	}
	unknown, closed := attachment("a", nil), attachment("a", &yes)
	for name, c := range map[string]struct {
		steps []step
		want  *bool
	}{
		"the same boot":            {[]step{{"boot-1", here, unknown}, {"boot-1", here, unknown}}, nil},
		"a boot":                   {[]step{{"boot-1", here, unknown}, {"boot-2", here, unknown}}, &yes},
		"a boot of what was open":  {[]step{{"boot-1", here, attachment("a", &no)}, {"boot-2", here, unknown}}, &yes},
		"a boot of what was ready": {[]step{{"boot-1", here, sandbox("a")}, {"boot-2", here, unknown}}, &yes},
		"inspections after the boot": {[]step{{"boot-1", here, unknown}, {"boot-2", here, unknown},
			{"boot-2", here, unknown}, {"boot-2", here, unknown}}, &yes},
		"a boot, and its network is there": {[]step{{"boot-1", here, unknown}, {"boot-2", here, attachment("a", &no)}}, &no},
		"it appeared after the boot":       {[]step{{"boot-1", here, sandbox("b")}, {"boot-2", here, unknown}}, nil},
		"it was closed":                    {[]step{{"boot-1", here, closed}, {"boot-1", here, unknown}}, &yes},
		"a boot of another machine":        {[]step{{"boot-1", there, unknown}, {"boot-2", here, unknown}}, nil},
		"it was closed on another machine": {[]step{{"boot-1", there, closed}, {"boot-2", here, unknown}}, nil},
		"a boot of an unknown machine":     {[]step{{"boot-1", here, unknown}, {"boot-2", v1alpha1.Machine{}, unknown}}, nil},
		"a boot that is not known":         {[]step{{"boot-1", here, unknown}, {"", here, unknown}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var r *v1alpha1.SandboxReport
			for i, s := range c.steps {
				l := inspection(time.Duration(i)*time.Minute, s.part)
				l.Identity = agent.Identity{BootID: s.boot, Machine: s.machine}
				r = roundTrip(t, agent.NextReport(r, l))
			}
			equal(t, "its network is closed", networkState(r.Attachments[0].NetworkClosed), networkState(c.want))
		})
	}
}

func TestNextReport_GoneIDs(t *testing.T) {
	r := nextAfterEnds(nil, inspection(0, sandbox("a"), attachment("b", &yes)))
	r = nextAfterEnds(r, inspection(time.Minute+300*time.Millisecond))
	want := []v1alpha1.Gone{{ID: "a", UID: "uid-a", Since: at(time.Minute)}, {ID: "b", UID: "uid-b",
		Since: at(time.Minute)}}
	equal(t, "gone", r.Gone, want)
	r = nextAfterEnds(r, inspection(time.Hour, sandbox("c")))
	equal(t, "gone, later", r.Gone, want)
}

func TestNextReport_GoneIDsExpire(t *testing.T) {
	r := nextAfterEnds(nextAfterEnds(nil, inspection(0, sandbox("old"), sandbox("new"))), inspection(0, sandbox("new")))
	r = nextAfterEnds(r, inspection(time.Hour))
	equal(t, "gone", goneIDs(r), "new old")
	if nextAfterEnds(r, inspection(25*time.Hour)) != r {
		t.Error("expiry alone makes a new report")
	}
	equal(t, "gone after a day, to the second", goneIDs(nextAfterEnds(r, inspection(24*time.Hour, sandbox("x")))),
		"new old")
	equal(t, "gone after a day and a second", goneIDs(nextAfterEnds(r, inspection(24*time.Hour+time.Second,
		sandbox("x")))), "new")
	equal(t, "gone after two days", goneIDs(nextAfterEnds(r, inspection(48*time.Hour, sandbox("x")))), "")
	equal(t, "gone in the report before", goneIDs(r), "new old")
}

// Ages count to observedAt, so a report is rewritten when an age becomes significant.
func TestNextReport_SignificantAges(t *testing.T) {
	born := func(s v1alpha1.Sandbox, state v1alpha1.SandboxState) v1alpha1.Sandbox {
		s.CreatedAt, s.State = at(0), state
		return s
	}
	for name, c := range map[string]struct {
		part  any
		first time.Duration // the first inspection; they are 10 s apart
		at    []time.Duration
	}{
		"a sandbox past a minute": {born(sandbox("a"), v1alpha1.SandboxReady), 5 * time.Second,
			[]time.Duration{65 * time.Second}},
		"an attachment whose network is unknown": {attachment("a", nil), 5 * time.Second, nil},
		"an attachment whose network is closed":  {attachment("a", &yes), 5 * time.Second, nil},
	} {
		t.Run(name, func(t *testing.T) {
			var changed []time.Duration
			r := nextAfterEnds(nil, inspection(c.first, c.part))
			for d := c.first + 10*time.Second; d < 20*time.Minute; d += 10 * time.Second {
				next := nextAfterEnds(r, inspection(d, c.part))
				if next != r {
					changed = append(changed, d)
					equal(t, "observed at", next.ObservedAt, at(d.Truncate(time.Second)))
				}
				r = roundTrip(t, next)
			}
			equal(t, "rewritten at", changed, c.at)
		})
	}
}

func TestNextReport_LimitsAttachments(t *testing.T) {
	many := func(closed *bool, n int, head string, from time.Duration) (out []any) {
		for i := range n {
			a := attachment(fmt.Sprintf("%s%04d", head, i), closed)
			a.Since = at(from - time.Duration(i)*time.Second) // the last is the oldest
			out = append(out, a)
		}
		return out
	}
	count := func(r *v1alpha1.SandboxReport) map[string]int {
		counts := map[string]int{}
		for _, a := range r.Attachments {
			counts[a.ID[:1]]++
		}
		return counts
	}
	all := slices.Concat(many(&yes, 600, "c", 0), many(&no, 300, "o", -time.Hour), many(nil, 300, "u", -time.Hour))
	l := inspection(0, all...)
	r := nextAfterEnds(nil, l)
	equal(t, "of 1200", count(r), map[string]int{"c": 400, "o": 300, "u": 300})
	for _, a := range r.Attachments {
		if a.ID > "c0399" && a.ID < "d" {
			t.Fatalf("%s, one of the oldest, is kept", a.ID)
		}
	}
	equal(t, "attachments of the inspection", len(l.Attachments), 1200)
	if nextAfterEnds(r, inspection(time.Minute, all...)) != r {
		t.Error("another report of the same attachments")
	}
	r = nextAfterEnds(nil, inspection(0, slices.Concat(many(&yes, 10, "c", 0), many(&no, 700, "o", 0), many(nil, 700, "u",
		0))...))
	equal(t, "when too many may be in use", count(r), map[string]int{"o": 700, "u": 700})
	r = nextAfterEnds(nil, inspection(0, slices.Concat(many(&yes, 10, "c", 0), many(&no, 700, "o", 0), many(nil, 700, "u",
		-time.Hour))...))
	equal(t, "when too many are old and not known", count(r), map[string]int{"o": 700, "u": 700})
	// A dropped attachment that still exists is not gone.
	r = nextAfterEnds(nextAfterEnds(nil, inspection(0, all...)), inspection(time.Minute, all[:599]...))
	equal(t, "gone", goneIDs(r), "")
}

// However many addresses the pods of a tenant have, the report of a node is written, and other pods lose nothing.
func TestNextReport_FitsIntoWhatThePolicyAllows(t *testing.T) {
	large := func(id string) (all []v1alpha1.Address) {
		for i := range 10 {
			all = append(all, v1alpha1.Address{IP: fmt.Sprintf("10.9.0.%d", i), IfName: "net1", Range: "10.9.0.0/16",
				NetworkName: strings.Repeat("n", 200), Network: strings.Repeat("m", 180) + id, Unattributed: true})
		}
		return all
	}
	var parts []any
	for i := range 110 {
		s, of := sandbox(fmt.Sprintf("s%03d", i)), attachment(fmt.Sprintf("a%03d", i), nil)
		s.Addresses, of.Addresses = large(s.ID), large(of.ID)
		parts = append(parts, s, of, sandbox(fmt.Sprintf("z%03d", i)))
	}
	r := nextAfterEnds(nil, inspection(0, parts...))
	text, err := json.Marshal(r)
	check(t, err)
	if len(text) > 640<<10 {
		t.Errorf("the report has %d bytes", len(text))
	}
	mayCarry := []v1alpha1.Network{{Range: "10.9.0.0/16", NetworkName: strings.Repeat("n", 200)}}
	for i := range r.Sandboxes {
		if s := &r.Sandboxes[i]; s.ID[0] == 'z' {
			equal(t, "another pod", *s, sandbox(s.ID))
		} else if !s.AddressesUnread || len(s.Addresses) == 0 || len(s.Addresses) == 10 {
			t.Errorf("%s has %d addresses; unread: %v", s.ID, len(s.Addresses), s.AddressesUnread)
		} else {
			equal(t, "may carry", s.MayCarry, mayCarry)
		}
	}
	for i := range r.Attachments {
		if a := &r.Attachments[i]; !a.AddressesUnread {
			t.Errorf("%s is said to have only %d addresses", a.ID, len(a.Addresses))
		} else {
			equal(t, "may carry", a.MayCarry, mayCarry)
		}
	}
	if nextAfterEnds(r, inspection(time.Minute, parts...)) != r {
		t.Error("another report of the same sandboxes")
	}
	equal(t, "addresses of the inspection", len(parts[0].(v1alpha1.Sandbox).Addresses), 10)
}

func TestNextReport_HashAfterRoundTrip(t *testing.T) {
	stopped := sandbox("b")
	stopped.State, stopped.NetworkClosed = v1alpha1.SandboxNotReady, &yes
	bare := v1alpha1.Sandbox{ID: "d", State: v1alpha1.SandboxReady}
	r := nextAfterEnds(nil, inspection(0, sandbox("a"), stopped, bare, sandbox("x"), attachment("c", nil)))
	r = nextAfterEnds(r, inspection(time.Minute, sandbox("a"), stopped, bare, attachment("c", nil)))
	equal(t, "gone", goneIDs(r), "x")
	equal(t, "hash", podstate.Hash(roundTrip(t, r)), podstate.Hash(r))
	empty := nextAfterEnds(nil, inspection(0))
	equal(t, "hash of one that is empty", podstate.Hash(roundTrip(t, empty)), podstate.Hash(empty))
}
