package explain

import (
	"cmp"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// conflict is an address that several pods or sandboxes carry, by all findings on it in one pool.
type conflict struct {
	view.Conflict
	parties      []*party
	canWrite     bool // the missing allocation can be written before anything else
	isIncomplete bool // more carry the address than the findings name
	isUncertain  bool // it is not known whether all are on one network
}

// party is one that carries the address of a conflict.
type party struct {
	view.ConflictCarrier
	pod *podstate.Pod // nil for a phantom
	// isNamed is set if the allocation names the party, or will name it once it is written.
	isNamed bool
}

// conflictsOf returns the conflicts of the findings about the subject.
func (a *answer) conflictsOf() (all []*conflict) {
	at := map[[2]string]*conflict{}
	for _, f := range a.Findings {
		if f.Kind != findings.Conflict || f.IsRest() {
			continue
		}
		c := at[[2]string{f.IP, f.Pool}]
		if c == nil {
			c = &conflict{Conflict: view.Conflict{IP: f.IP, Pool: f.Pool}}
			at[[2]string{f.IP, f.Pool}] = c
			all = append(all, c)
		}
		c.isIncomplete = c.isIncomplete || !f.NamesAll()
		c.isUncertain = c.isUncertain || f.NetworkUnknown
		for _, p := range a.partiesOf(f) {
			isSame := func(q *party) bool { return q.Pod == p.Pod && q.ContainerID == p.ContainerID }
			if !slices.ContainsFunc(c.parties, isSame) {
				c.parties = append(c.parties, p)
			}
		}
	}
	all = slices.DeleteFunc(all, func(c *conflict) bool { return len(c.parties) == 0 })
	for _, c := range all {
		a.findNamed(c)
		slices.SortStableFunc(c.parties, func(p, q *party) int {
			return cmp.Or(rank(!p.isNamed)-rank(!q.isNamed), p.since().Compare(q.since()), cmp.Compare(p.Pod, q.Pod))
		})
		c.Carriers = lists.Map(c.parties, func(p *party) view.ConflictCarrier { return p.ConflictCarrier })
	}
	return all
}

// rank orders what is not later before what is.
func rank(isLater bool) int {
	if isLater {
		return 1
	}
	return 0
}

func (p *party) since() time.Time {
	if p.Since == nil {
		return time.Time{}
	}
	return *p.Since
}

// isStaying reports whether the party is a pod that may keep the address.
func (p *party) isStaying() bool { return p.pod != nil && p.pod.DeletionTime.IsZero() }

// partiesOf returns the parties that a finding names: its sandboxes, or else the sandboxes of its pods, and the pods
// without a known sandbox.
func (a *answer) partiesOf(f findings.Finding) (all []*party) {
	isSandbox := map[string]bool{} // pods
	for i := range a.sandboxes {
		b := &a.sandboxes[i]
		isNamed := slices.Contains(f.ContainerIDs, b.ID) ||
			len(f.ContainerIDs) == 0 && slices.Contains(f.Pods, b.Pod.String())
		if isNamed && b.State == string(v1alpha1.SandboxReady) && slices.Contains(b.Addresses, f.IP) {
			isSandbox[b.Pod.String()] = true
			all = append(all, a.partyWith(b))
		}
	}
	for _, text := range f.Pods {
		p := a.partyOf(nameOf(text), "", view.ConflictCarrier{})
		if p.InAPI && !isSandbox[text] && len(f.ContainerIDs) == 0 {
			all = append(all, p)
		}
	}
	return all
}

// nameOf returns the name that a text "<namespace>/<name>" is.
func nameOf(text string) types.NamespacedName {
	namespace, name, _ := strings.Cut(text, "/")
	return types.NamespacedName{Namespace: namespace, Name: name}
}

// partyWith returns the pod of a sandbox as a party.
func (a *answer) partyWith(b *view.ExplainedSandbox) *party {
	return a.partyOf(b.Pod, b.UID, view.ConflictCarrier{Node: b.Node, ContainerID: b.ID, Since: b.Created})
}

// partyOf returns a pod as a party, with what is known of its sandbox and what the API has of the pod. A UID other than
// "" that the pod in the API does not have shows that it is another pod by this name.
func (a *answer) partyOf(name types.NamespacedName, uid string, known view.ConflictCarrier) *party {
	p := &party{pod: a.Observation.Pods[name], ConflictCarrier: known}
	p.Pod = name.String()
	if p.pod != nil && uid != "" && !p.pod.HasUID(uid) {
		p.pod = nil
	}
	if p.InAPI = p.pod != nil; p.InAPI {
		p.Owner = p.pod.Workload
		p.Node = cmp.Or(p.Node, p.pod.Node)
		p.Since = cmp.Or(p.Since, view.When(p.pod.CreatedAt))
	}
	return p
}

// findNamed finds the parties that the allocations of the address name. If it has none, the one that --repair would
// write counts.
func (a *answer) findNamed(c *conflict) {
	addr, _ := netip.ParseAddr(c.IP)
	isHere := func(pool string) bool { return c.Pool == "" || slices.Contains(strings.Split(c.Pool, ","), pool) }
	for _, it := range a.whole.Allocations {
		if it.Address() != addr || !isHere(it.Object()) {
			continue
		}
		c.Recorded = it.PodRef()
		for _, p := range c.parties {
			if p.isOf(it) {
				p.isNamed, p.Recorded = true, true
			}
		}
	}
	if c.Recorded != "" {
		return
	}
	for _, f := range a.whole.Findings {
		if f.Kind != findings.Unrecorded || f.IP != c.IP || !isHere(f.Pool) || !f.CanRepair() {
			continue
		}
		c.canWrite = true
		for _, p := range c.parties {
			p.isNamed = p.isNamed || p.ContainerID == f.Repair.ContainerID
		}
	}
}

// isOf reports whether an allocation names the party: its sandbox, or its pod where the sandbox is unknown.
func (p *party) isOf(it *judge.Item) bool {
	if p.ContainerID != "" {
		return p.ContainerID == it.ContainerID()
	}
	owner := it.Owner()
	return p.Pod == owner.Namespace+"/"+owner.Name && (owner.UID == "" || p.pod.HasUID(owner.UID))
}

// keeper returns the party that keeps the address: the one that the allocation names, if that is a pod that stays. If
// it names none of the parties, it is the oldest such pod. It is nil where none keeps it.
func (c *conflict) keeper() *party {
	for _, p := range c.parties { // those that are named come first, then the oldest
		if p.isStaying() && (p.isNamed || !c.parties[0].isNamed) {
			return p
		}
	}
	return nil
}

// ending makes the steps that end a conflict.
type ending struct {
	*answer
	*conflict
	number int
	steps  []view.Advice
}

// endingOf returns the steps that end a conflict, in their order.
func (a *answer) endingOf(c *conflict) []view.Advice {
	e, keeper := &ending{answer: a, conflict: c}, c.keeper()
	if c.isUncertain {
		e.say("network unknown", c.parties[0])
	}
	if keeper != nil && !keeper.isNamed && keeper.ContainerID == "" { // nothing can be written for it
		e.say("nobody can keep", keeper)
		keeper = nil
	} else {
		e.sayWhoKeeps(keeper)
	}
	switch {
	case c.canWrite:
		e.do("write first", nil)
	case c.Recorded == "":
		e.say("cannot write", nil)
	}
	e.endAll(keeper)
	if keeper != nil && !keeper.isNamed {
		e.do("write last", keeper)
	}
	if c.isIncomplete {
		e.say("more carriers", nil)
	}
	return e.steps
}

// sayWhoKeeps says which party keeps the address, and why; nil for none.
func (e *ending) sayWhoKeeps(keeper *party) {
	isAsOld := func(p *party) bool { return p != keeper && p.isStaying() && p.since().Equal(keeper.since()) }
	switch {
	case keeper == nil && e.parties[0].isNamed:
		e.say("nobody keeps", nil)
	case keeper == nil:
		e.say("phantoms alone", nil)
	case keeper.Recorded:
		e.say("recorded keeps", keeper)
	case keeper.isNamed:
		e.say("written keeps", keeper)
	case slices.ContainsFunc(e.parties, isAsOld):
		e.say("equal keeps", keeper)
	default:
		e.say("oldest keeps", keeper)
	}
}

// endAll adds the steps that end all parties except for the one that keeps the address, nil for none.
func (e *ending) endAll(keeper *party) {
	ended := slices.Clone(e.parties)
	slices.SortStableFunc(ended, func(p, q *party) int { return rank(p.isNamed) - rank(q.isNamed) })
	isDeleted := map[*podstate.Pod]bool{}
	for _, p := range ended {
		if p != keeper && (p.pod == nil || !isDeleted[p.pod]) {
			isDeleted[p.pod] = keeper == nil || p.pod != keeper.pod
			e.end(p, keeper)
		}
	}
}

// end adds the step that ends a party. A sandbox of the pod that keeps the address ends alone.
func (e *ending) end(p, keeper *party) {
	switch {
	case p.pod == nil, keeper != nil && p.pod == keeper.pod:
		e.do("end the sandbox", p)
	case strings.HasPrefix(p.Owner, "Node/"):
		e.do("static pod", p)
	case !p.isStaying():
		e.do("wait for deletion", p)
	case p.pod.Machine != nil:
		e.do("delete machine", p)
	case p.Owner != "":
		e.do("delete", p)
	default:
		e.do("delete alone", p)
	}
	if n := e.Observation.Nodes.Or(nil)[p.Node]; n != nil && !n.Ready {
		e.say("node is down", p)
	}
}

// do adds a numbered step. One with a name that no command can have is a step, too, without a command.
func (e *ending) do(entry string, p *party) {
	e.number++
	if !e.say(entry, p) && p != nil {
		e.say("end by hand", p)
	}
}

// say adds an entry of the advice about a party, nil for none.
func (e *ending) say(entry string, p *party) (isSaid bool) {
	f := advice.Facts{Names: map[string]string{"ip": e.IP, "step": strconv.Itoa(e.number)}}
	f.Names["pool"], _, _ = strings.Cut(e.Pool, ",")
	if p != nil {
		f.Names["pod"], f.Names["container"], f.Names["owner"], f.Nodes = p.Pod, p.ContainerID, p.Owner, []string{p.Node}
	}
	steps := e.answer.steps("conflict", entry, f)
	e.steps = append(e.steps, steps...)
	return len(steps) > 0
}

// endings returns the steps that end the conflicts, by address. Conflicts that the same commands end have them once.
func (a *answer) endings(all []*conflict) map[string][]view.Advice {
	byAddress, seen := map[string][]view.Advice{}, map[string]bool{}
	for _, c := range all {
		steps, commands := a.endingOf(c), ""
		for _, s := range steps {
			commands += s.Command + "\n"
		}
		if seen[commands] {
			steps = a.steps("conflict", "same steps", advice.Facts{Names: map[string]string{"ip": c.IP}})
		}
		seen[commands] = true
		byAddress[c.IP] = append(byAddress[c.IP], steps...)
	}
	return byAddress
}
