package judge_test

import (
	"cmp"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// maxRemovals is how many removals are tried with -short; without it forty times as many.
const maxRemovals = 5_000

// exceptions are the removals that may release an address or hide a finding, each with the sentence that safety.md has.
// A removal of another kind, or with another outcome, may not.
func exceptions() []exception {
	isOf := func(h *harm, source facts.SourceName, what ...string) bool {
		return h.removal.Source == source && slices.Contains(what, h.removal.What)
	}
	ofReport := func(h *harm) bool { return h.removal.Source == facts.SourceReports && h.removal.What != "forbidden" }
	return []exception{
		{"A Node object that somebody deletes is believed to be gone, and so is what only its report showed.",
			func(h *harm) bool {
				return isOf(h, facts.SourceNodes, "object") || ofReport(h) && (h.node() == nil || h.evidence().MissingNode)
			},
			func(h *harm) bool { return isOf(h, facts.SourceNodes, "object") || ofReport(h) && h.node() == nil }},
		{"A node that an operator takes out of service, or that `--unreachable-node-timeout` gives up, needs no report.",
			func(h *harm) bool {
				e, n := h.evidence(), h.node()
				return e.Sandbox == judge.NodeDead || e.UnreachableTimedOut || n != nil && n.IsDead() &&
					(h.removal.Source == facts.SourceReports || isOf(h, facts.SourceNodes, "condition Ready"))
			},
			func(h *harm) bool { return ofReport(h) && h.node() != nil && h.node().IsDead() }},
		{"An address is released if kubelet reported that every container of a pod on its node stopped, unless a report " +
			"that was renewed since then shows its sandbox.", func(h *harm) bool {
			return h.item.RuleID() == "finished-without-report" && (isOf(h, facts.SourceLeases, "forbidden") ||
				isOf(h, facts.SourceReports, "forbidden", "object", "content", "confirmation", "sandbox", "attachment"))
		}, nil},
		{"A Node that loses a label which excluded it from `--agent-nodes` counts by its fresh report.",
			func(h *harm) bool { return isOf(h, facts.SourceNodes, "labels") && h.was.Reason == judge.NodesUnknown }, nil},
		{"An empty list of nodes is believed if no pod is bound to a node and no report exists.",
			func(h *harm) bool { return isOf(h, facts.SourceNodes, "all") }, nil},
		{"What only a deleted, edited or unreadable report showed is decided by other reports, by the pod, and by the " +
			"node whose slice the pool is. A node that `--agent-nodes` does not select then need not report.",
			func(h *harm) bool {
				return isOf(h, facts.SourceReports, "object", "content", "sandbox", "attachment") &&
					(h.was.Reason == judge.ClaimedByOther || h.isReportedElsewhere() || h.isOfSlice() || !h.mustReport())
			},
			func(h *harm) bool {
				return isOf(h, facts.SourceReports, "object", "sandbox", "attachment") && !h.mustReport()
			}},
		{"What is edited out of a report is not found for a minute. Then its node has no fresh report, which is a finding.",
			nil, func(h *harm) bool {
				return isOf(h, facts.SourceReports, "confirmation", "sandbox", "attachment") && h.isRenewed()
			}},
		{"If CNI cache files are lost, the sandbox counts by its pod's network-status, or by the ranges of the pod's " +
			"definitions.",
			func(h *harm) bool { return isOf(h, facts.SourceReports, "addresses") && !h.mayBeOnPodOfSandbox() }, nil},
		{"An address that only a network-status names is unknown if that is lost and the pod is Pending, a fresh report " +
			"lacks it, or no definition of the pod has it in a range.",
			func(h *harm) bool { return isOf(h, SourcePods, "network-status", "readable network-status") },
			func(h *harm) bool {
				return isOf(h, SourcePods, "network-status", "readable network-status") && h.isPendingOrReported()
			}},
		{"Without its definition the network of a pool is taken from the pool's name.", func(h *harm) bool {
			return isOf(h, facts.SourceDefinitions, "object", "configuration") && slices.Contains([]judge.Reason{
				judge.ClaimedByOther, judge.GuestAddress, judge.GuestUnknown}, h.was.Reason)
		}, func(h *harm) bool {
			return isOf(h, facts.SourceDefinitions, "object", "configuration") && h.finding.Kind == findings.Conflict
		}},
		{"Without its definition missing and wrong allocations and reservations of a network are not found, and none " +
			"outside of it.", nil, func(h *harm) bool {
			return isOf(h, facts.SourceDefinitions, "object", "configuration") && slices.Contains([]findings.Kind{
				findings.Unrecorded, findings.Misrecorded, findings.MissingReservation,
				findings.OutsideDefinition}, h.finding.Kind)
		}},
		{"A sandbox whose network may exist, for all that is known, keeps its allocation, which then is neither wrong nor " +
			"in use for certain.", nil, func(h *harm) bool {
			return isOf(h, facts.SourceReports, "networkClosed") && slices.Contains([]findings.Kind{
				findings.Misrecorded, findings.MissingReservation}, h.finding.Kind)
		}},
	}
}

type exception struct {
	sentence string
	releases func(*harm) bool // of an item; nil for none
	hides    func(*harm) bool // of a finding; nil for none
}

func (e *exception) covers(h *harm) bool {
	is := e.releases
	if h.finding != nil {
		is = e.hides
	}
	return is != nil && is(h)
}

// harm is an item that a removal made Stale, or a finding that it made vanish, with no note.
type harm struct {
	removal *Removal
	item    *judge.Item       // Stale after the removal; nil for a finding
	was     *judge.Item       // before
	finding *findings.Finding // that has vanished
	before  *Observed
	policy  facts.Policy
}

// isReportedElsewhere reports whether another node's report has the sandbox of the item, too.
func (h *harm) isReportedElsewhere() bool {
	id := h.decided().ContainerID()
	return id != "" && slices.ContainsFunc(h.before.Reports.Or(nil), func(r *podstate.Report) bool {
		return r.Name != h.removal.Object &&
			(slices.ContainsFunc(r.Sandboxes, func(s v1alpha1.Sandbox) bool { return s.ID == id }) ||
				slices.ContainsFunc(r.Attachments, func(a v1alpha1.Attachment) bool { return a.ID == id }) ||
				slices.ContainsFunc(r.Gone, func(g v1alpha1.Gone) bool { return g.ID == id }))
	})
}

// isOfSlice reports whether the item is of a pool that may be the slice of a node.
func (h *harm) isOfSlice() bool {
	pool := h.decided().Pool
	return pool != nil && len(pool.SliceNodes(h.nodes())) > 0
}

func (h *harm) nodes() map[string]bool {
	nodes := map[string]bool{}
	for name := range h.before.Nodes.Or(nil) {
		nodes[name] = true
	}
	return nodes
}

// node is the node of the removal, nil without a Node object.
func (h *harm) node() *podstate.Node { return h.before.Nodes.Or(nil)[h.removal.Object] }

// mustReport reports whether the policy selects the node of the removal.
func (h *harm) mustReport() bool { return h.node() != nil && h.policy.Selector()(h.node()) }

// isRenewed reports whether the agent of the removal's report renewed its Lease within the last minute.
func (h *harm) isRenewed() bool {
	return slices.ContainsFunc(h.before.Reports.Or(nil), func(r *podstate.Report) bool {
		return r.Name == h.removal.Object && h.before.Now.Sub(r.LeaseRenewedAt) <= time.Minute
	})
}

// isPendingOrReported reports whether the pod of the removal is Pending, or its node has a fresh report.
func (h *harm) isPendingOrReported() bool {
	namespace, name, _ := strings.Cut(h.removal.Object, "/")
	pod := h.before.Pods[types.NamespacedName{Namespace: namespace, Name: name}]
	return pod.Phase == podstate.Pending || slices.ContainsFunc(h.before.Reports.Or(nil), func(r *podstate.Report) bool {
		return r.Name == pod.Node && r.IsFresh(h.before.Now)
	})
}

// mayBeOn reports whether a definition has the item's address in a range of its network, or cannot be read.
func (h *harm) mayBeOn(definition types.NamespacedName) bool {
	nad := h.before.NADs.Or(nil)[definition]
	return nad == nil || nad.Problem != "" || slices.ContainsFunc(nad.Networks, func(n ippool.Network) bool {
		return h.mayBeOfNetwork(n.Name) && slices.ContainsFunc(n.Ranges, func(p netip.Prefix) bool {
			return p.Contains(h.item.Address())
		})
	})
}

func (h *harm) mayBeOfNetwork(name string) bool {
	if pool := h.decided().Pool; pool != nil {
		return slices.Contains(pool.Networks(h.nodes()), name)
	}
	_, isPossible := ippool.ReservedAddress(h.item.Reservation.Name, name)
	return isPossible
}

// mayBeOnPodOfSandbox reports whether a pod of the sandbox whose addresses are removed may have the address without
// them: its network-status names it, or there is none, and a definition has the address in a range.
func (h *harm) mayBeOnPodOfSandbox() bool {
	for _, r := range h.before.Reports.Or(nil) {
		for _, s := range r.Sandboxes {
			pod := h.before.Pods[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}]
			switch {
			case r.Name != h.removal.Object || s.ID != h.removal.Detail:
			case pod == nil:
				return true
			case pod.Status == podstate.StatusReadable:
				return slices.ContainsFunc(pod.Interfaces, func(i podstate.Interface) bool {
					namespace, name, isNamed := i.NAD()
					mayBeIts := len(i.Addresses) == 0 || slices.Contains(i.Addresses, h.item.Address())
					return isNamed && mayBeIts && h.mayBeOn(types.NamespacedName{Namespace: namespace, Name: name})
				})
			default:
				return slices.ContainsFunc(pod.RequestedNetworks, h.mayBeOn)
			}
		}
	}
	return false
}

// decided is the item whose verdict counts: a reservation may share its allocation's.
func (h *harm) decided() *judge.Item { return cmp.Or(h.item.SharesVerdictOf(), h.item) }

func (h *harm) evidence() *judge.Evidence { return h.decided().Evidence() }

func (h *harm) String() string {
	if h.item != nil {
		return fmt.Sprintf("%s: %s %s was %s by %s: %s\n\tand is %s by %s: %s", h.removal, h.item.Object(), h.item.Text(),
			h.was.Verdict, h.was.RuleID(), h.was.Message(), h.item.Verdict, h.item.RuleID(), h.item.Message())
	}
	return fmt.Sprintf("%s: %s has vanished: %s", h.removal, h.finding.Kind, h.finding.Message)
}

// harms are what a removal does to an observation that was judged before, without a note. If a whole source is unknown,
// a note excuses no release. A finding may vanish only if a note or another finding says what is unknown. A note about
// findings alone excuses no release.
func harms(o *Observed, policy facts.Policy, before *findings.Assessment, r *Removal) (found []harm) {
	after := Judged(r.From(o), policy)
	isForbidden := r.What == "forbidden"
	notes := newNotes(before, after)
	isNoted := slices.ContainsFunc(notes, func(note string) bool {
		return !strings.HasSuffix(note, "findings on them may be missed")
	})
	wasOf := map[judge.ID]*judge.Item{}
	for _, it := range slices.Concat(before.Allocations, before.Reservations) {
		wasOf[it.ID()] = it
	}
	for _, it := range after.StaleItems() {
		if was := wasOf[it.ID()]; was != nil && was.Verdict != judge.Stale && (isForbidden || !isNoted) {
			found = append(found, harm{r, it, was, nil, o, policy})
		}
	}
	for i := range before.Findings {
		f := &before.Findings[i]
		if len(notes) > 0 || f.Kind == findings.StatusMismatch || f.IP == "" || finds(after, f) {
			continue
		}
		// An address that is kept for a guest or a Pending pod may be kept for another reason now.
		isKept := f.Kind == findings.GuestAddressFinding || f.Kind == findings.PendingLeak
		if isForbidden || !isKept && !saysUnknown(before, after, r) {
			found = append(found, harm{r, nil, nil, f, o, policy})
		}
	}
	return found
}

// saysUnknown reports whether a note on the sandbox or a finding says what is unknown after a removal. The finding is a
// new one, or one on the node of the report.
func saysUnknown(before, after *findings.Assessment, r *Removal) bool {
	says := []findings.Kind{findings.NoFreshReportFinding, findings.MalformedFinding, findings.UnreadSandbox}
	isOn := func(note string) bool { return r.Detail != "" && strings.Contains(note, "sandbox "+r.Detail+" ") }
	return slices.ContainsFunc(after.Notes(), isOn) || slices.ContainsFunc(after.Findings, func(f findings.Finding) bool {
		isNew := !slices.ContainsFunc(before.Findings, f.Is)
		return slices.Contains(says, f.Kind) && (isNew || f.Node == r.Object)
	})
}

// finds reports whether a judgement has a finding of the same kind about one of the addresses.
func finds(j *findings.Assessment, like *findings.Finding) bool {
	return slices.ContainsFunc(j.Findings, func(f findings.Finding) bool {
		return f.Kind == like.Kind && slices.ContainsFunc(strings.Split(f.IP, ","), func(ip string) bool {
			return slices.Contains(strings.Split(like.IP, ","), ip)
		})
	})
}

func newNotes(before, after *findings.Assessment) []string {
	notes := before.Notes()
	return slices.DeleteFunc(after.Notes(), func(note string) bool { return slices.Contains(notes, note) })
}

// Taking evidence away releases nothing that was in use or held, and hides no finding, unless a note says so. Evidence
// is complete or unknown.
func TestRemovals_CompleteOrUnknown(t *testing.T) {
	limit := maxRemovals
	if !testing.Short() {
		limit *= 40
	}
	allowed, tried, used := exceptions(), 0, map[string]int{}
	for seed := uint64(0); tried < limit; seed++ {
		c := NewRandom(seed, 11)
		o, policy := ObserveDistinct(c.Cluster()), c.Policy()
		before, all := Judged(o, policy), Removals(o)
		for range 20 {
			tried++
			for _, h := range harms(o, policy, before, &all[c.IntN(len(all))]) {
				at := slices.IndexFunc(allowed, func(e exception) bool { return e.covers(&h) })
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
	check(t, err)
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
