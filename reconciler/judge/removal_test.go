package judge_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// maxRemovals is how many removals are tried with -short; without it ten times as many.
const maxRemovals = 20_000

// exceptions are the removals that may release an address, each with the sentence that safety.md has. A removal of
// another kind, or with another outcome, may not.
func exceptions() []exception {
	isOf := func(h *harm, source judge.SourceName, what ...string) bool {
		return h.removal.Source == source && slices.Contains(what, h.removal.What)
	}
	return []exception{
		{"A Node object that somebody deletes is believed to be gone, and so is what only its report showed.",
			func(h *harm) bool {
				isGone := h.before.Nodes.Or(nil)[h.removal.Object] == nil
				return h.evidence().MissingNode || isOf(h, judge.SourceNodes, "object") ||
					h.removal.Source == judge.SourceReports && isGone
			}},
		{"A node that an operator takes out of service, or that `--unreachable-node-timeout` gives up, needs no report.",
			func(h *harm) bool {
				e, n := h.evidence(), h.before.Nodes.Or(nil)[h.removal.Object]
				return e.Sandbox == judge.NodeDead || e.UnreachableTimedOut || n != nil && n.IsDead() &&
					(h.removal.Source == judge.SourceReports || isOf(h, judge.SourceNodes, "condition Ready"))
			}},
		{"An address is released if kubelet reported on its own node that every container of the pod stopped, even if " +
			"reports of other nodes can no longer be confirmed.",
			func(h *harm) bool {
				return isOf(h, judge.SourceLeases, "forbidden") && h.item.RuleID() == "finished-without-report"
			}},
		{"A Node that loses a label which excluded it from `--agent-nodes` counts by its fresh report.",
			func(h *harm) bool { return isOf(h, judge.SourceNodes, "labels") && h.was.Reason == judge.NodesUnknown }},
		{"An empty list of nodes is believed if no pod is bound to a node and no report exists.",
			func(h *harm) bool { return isOf(h, judge.SourceNodes, "all") }},
		{"What only a report showed that is deleted, edited or cannot be read is decided by other reports and the pod.",
			func(h *harm) bool { return isOf(h, judge.SourceReports, "object", "content", "sandbox", "attachment") }},
		{"An address outside the ranges of its pod's definitions is unknown if its sandbox's CNI cache files are lost.",
			func(h *harm) bool {
				return isOf(h, judge.SourceReports, "addresses") && h.was.Reason == judge.ClaimedByOther
			}},
		{"An address that only a network-status names is unknown if that is lost and the pod is Pending, a fresh report " +
			"lacks it, or no definition of the pod has it in a range.",
			func(h *harm) bool { return isOf(h, SourcePods, "network-status", "readable network-status") }},
		{"Without its definition the network of a pool, and so who else is on it, is taken from the pool's name.",
			func(h *harm) bool { return isOf(h, judge.SourceDefinitions, "object", "configuration") }},
	}
}

type exception struct {
	sentence string
	covers   func(*harm) bool // of an item
}

// harm is an item that a removal made Stale, or a finding that it made vanish, with no note.
type harm struct {
	removal *Removal
	item    *judge.Item    // Stale after the removal; nil for a finding
	was     *judge.Item    // before
	finding *judge.Finding // that has vanished
	before  *Observed
}

func (h *harm) evidence() *judge.Evidence { return cmp.Or(h.item.SharesVerdictOf(), h.item).Evidence() }

func (h *harm) String() string {
	if h.item != nil {
		return fmt.Sprintf("%s: %s %s was %s by %s: %s\n\tand is %s by %s: %s", h.removal, h.item.Object(), h.item.Text(),
			h.was.Verdict, h.was.RuleID(), h.was.Message(), h.item.Verdict, h.item.RuleID(), h.item.Message())
	}
	return fmt.Sprintf("%s: %s has vanished: %s", h.removal, h.finding.Kind, h.finding.Message)
}

// harms are what a removal does to an observation that was judged before, without a note. If a whole source is unknown,
// a note excuses no release, and findings are compared, too.
func harms(o *Observed, policy judge.Policy, before *judge.Judgement, r *Removal) (found []harm) {
	after := Judged(r.From(o), policy)
	isForbidden, isNoted := r.What == "forbidden", hasNewNote(before, after)
	wasOf := map[judge.ID]*judge.Item{}
	for _, it := range slices.Concat(before.Allocations, before.Reservations) {
		wasOf[it.ID()] = it
	}
	for _, it := range after.StaleItems() {
		if was := wasOf[it.ID()]; was != nil && was.Verdict != judge.Stale && (isForbidden || !isNoted) {
			found = append(found, harm{removal: r, item: it, was: was, before: o})
		}
	}
	for i := range before.Findings {
		f := &before.Findings[i]
		if isForbidden && !isNoted && f.Kind != judge.StatusMismatch && f.IP != "" && !finds(after, f) {
			found = append(found, harm{removal: r, finding: f, before: o})
		}
	}
	return found
}

// finds reports whether a judgement has a finding of the same kind about one of the addresses.
func finds(j *judge.Judgement, like *judge.Finding) bool {
	return slices.ContainsFunc(j.Findings, func(f judge.Finding) bool {
		return f.Kind == like.Kind && slices.ContainsFunc(strings.Split(f.IP, ","), func(ip string) bool {
			return slices.Contains(strings.Split(like.IP, ","), ip)
		})
	})
}

func hasNewNote(before, after *judge.Judgement) bool {
	notes := before.Notes()
	return slices.ContainsFunc(after.Notes(), func(note string) bool { return !slices.Contains(notes, note) })
}

// Taking evidence away releases nothing that was in use or held, and hides no finding, unless a note says so. Evidence
// is complete or unknown.
func TestRemovals_CompleteOrUnknown(t *testing.T) {
	limit := maxRemovals
	if !testing.Short() {
		limit *= 10
	}
	allowed, tried, used := exceptions(), 0, map[string]int{}
	for seed := uint64(0); tried < limit; seed++ {
		c := NewRandom(seed, 11)
		o, policy := ObserveDistinct(c.Cluster()), c.Policy()
		before, all := Judged(o, policy), Removals(o)
		for range 20 {
			tried++
			for _, h := range harms(o, policy, before, &all[c.IntN(len(all))]) {
				at := slices.IndexFunc(allowed, func(e exception) bool { return h.item != nil && e.covers(&h) })
				if at < 0 {
					t.Fatalf("seed %d: %s", seed, &h)
				}
				used[allowed[at].sentence]++
			}
		}
	}
	for _, e := range allowed {
		t.Logf("%d times: %s", used[e.sentence], e.sentence)
	}
}

// The exceptions are those that the page of limits has.
func TestRemovals_ExceptionsAreOnThePage(t *testing.T) {
	text, err := os.ReadFile("../../docs/explain/safety.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(text), "### When evidence is taken away\n")
	section, _, _ = strings.Cut(section, "\n#")
	var got, want []string
	for _, item := range strings.Split(section, "\n- ")[1:] {
		got = append(got, strings.Join(strings.Fields(item), " "))
	}
	for _, e := range exceptions() {
		want = append(want, e.sentence)
	}
	if !slices.Equal(got, want) {
		t.Errorf("the page has\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
