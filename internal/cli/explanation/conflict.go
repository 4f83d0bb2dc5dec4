package explanation

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// conflict is one address that several carry in one network.
type conflict struct {
	ip, pool string
	carriers []carrier
	// entry is what the pool records for the address; nil for nothing. The sandbox or the pod that it names has the
	// address where it is InUse.
	entry *judge.Item
	// repair is the podref for which --repair would write an entry; "" for none.
	repair string
}

// carrier is one who carries the address.
type carrier struct {
	pod, uid        string // pod is "<namespace>/<name>"
	node, container string // "" where no report tells
	phantom         bool   // the API does not have it
	since           time.Time
}

func (c carrier) String() string {
	text := c.pod
	if c.phantom {
		text = "the phantom of " + c.pod
	}
	if c.node != "" {
		text += " on " + c.node
	}
	return text
}

// conflictOf is who carries an address, and whom its pool names. The pods and the sandboxes
// of one address are separate findings, which are taken together.
func conflictOf(j *judge.Judgement, f judge.Finding) conflict {
	c := conflict{ip: f.IP, pool: f.Pool}
	var pods, ids []string
	for _, x := range j.Findings {
		switch {
		case x.IP != f.IP || x.Pool != f.Pool:
		case x.Kind == judge.Conflict:
			pods, ids = append(pods, x.Pods...), append(ids, x.ContainerIDs...)
		case x.Kind == judge.Unrecorded && x.Repair != nil:
			c.repair = x.Repair.PodRef
		}
	}
	c.carriers = carriers(j.Observation, f.IP, pods, ids)
	addr, _ := netip.ParseAddr(f.IP)
	for _, it := range j.About(addr).Allocations {
		if it.Pool.Ref() == f.Pool {
			c.entry = it
		}
	}
	return c
}

// carriers are the sandboxes with an address, and the pods of which no sandbox with it is
// known.
func carriers(o *judge.Observation, ip string, pods, ids []string) (all []carrier) {
	seen := map[string]bool{}
	for _, b := range sandboxes(o) {
		ref := b.pod.String()
		found := slices.Contains(ids, b.ID) || slices.Contains(pods, ref)
		if !found || !b.Fresh || b.State != string(v1alpha1.SandboxReady) || !slices.Contains(b.Addresses, ip) {
			continue
		}
		c := carrier{pod: ref, uid: b.UID, node: b.Node, container: b.ID}
		c.phantom = isPhantomOf(b.ExplainedSandbox, o.Pods[b.pod])
		if b.Created != nil {
			c.since = *b.Created
		}
		seen[ref] = seen[ref] || !c.phantom
		all = append(all, c)
	}
	slices.Sort(pods)
	for _, ref := range slices.Compact(pods) {
		namespace, name, _ := strings.Cut(ref, "/")
		pod := o.Pods[types.NamespacedName{Namespace: namespace, Name: name}]
		if pod != nil && !seen[ref] && pod.Phase != podstate.Finished && slices.Contains(carried(o, pod), ip) {
			all = append(all, carrier{pod: ref, uid: pod.UID, node: pod.Node, since: pod.Created})
		}
	}
	return all
}

// advise says who keeps the address and why, and how the others give it up, in the
// order in which nobody else is given the address meanwhile.
//
// That order rests on what an ADD and a DEL do (whereabouts v0.9.4,
// pkg/allocate/allocate.go): an ADD hands out the lowest address without an entry, and a
// DEL frees the entry that has its sandbox's id, and no other.
func (c conflict) advise(a advice.Advisor) (steps []document.Advice) {
	if len(c.carriers) < 2 {
		return a.Steps("findings", string(judge.Conflict), advice.Facts{Names: map[string]string{"ip": c.ip}})
	}
	phantoms, pods := c.split()
	named, repaired := c.named(), c.repaired()
	var rule string // an entry of advice.yaml
	var keeper carrier
	var leaving []carrier          // who gives the address up, in this order
	var entryFirst, entryLast bool // an entry is written before that, or after
	switch {
	case named >= 0 && !c.carriers[named].phantom: // the others have no entry that their DEL could free
		rule, keeper, leaving = "pod is named", c.carriers[named], c.without(named)
		for i, x := range leaving {
			if x.pod == keeper.pod { // to delete the pod would end the one that keeps it
				leaving[i].phantom = x.phantom || x.container != "" && x.node != ""
			}
		}
	case named >= 0:
		// If the phantom ended first its DEL would free the entry while others carry the address, and the next ADD
		// could hand it out.
		rule, keeper, leaving = "phantom is named", c.carriers[named], append(c.without(named), c.carriers[named])
	// Where nobody is named no DEL frees anything, and the next ADD may hand the address out once more. An
	// entry comes first, but where all pods but one are phantoms: they are ended.
	case c.entry == nil && len(pods) == 1:
		rule, keeper, leaving, entryLast = "only one pod", pods[0], phantoms, true
	case c.entry == nil && c.repair != "" && len(pods) > 0:
		rule, keeper, leaving, entryFirst = "entry first", carrier{pod: c.repair}, c.without(repaired), true
		if repaired >= 0 {
			keeper = c.carriers[repaired]
		}
	case c.entry == nil:
		rule, leaving = "nobody keeps", append(phantoms, pods...)
	// The entry of another is held while anybody carries the address, so that it is not handed out meanwhile.
	case c.entry.Verdict == judge.InUse:
		rule, leaving = "another has it", c.carriers
	case len(pods) == 0:
		rule, leaving = "only phantoms", phantoms
	default:
		rule, keeper, leaving, entryLast = "oldest keeps", pods[0], append(phantoms, pods[1:]...), true
	}
	names := map[string]string{"ip": c.ip, "pool": c.pool, "place": "no pool", "keeper": keeper.String()}
	if c.entry != nil {
		names["entry"] = c.entry.PodRef()
	}
	if c.pool != "" {
		names["place"] = "pool " + c.pool
	}
	add := func(is bool, name string, f advice.Facts) {
		if is {
			steps = append(steps, a.Steps("conflict", "Conflict "+name, f)...)
		}
	}
	add(true, rule, advice.Facts{Names: names})
	add(entryFirst, "write back", advice.Facts{Names: names})
	for _, x := range leaving { // a pod that the API has is made again, a phantom is ended on its node
		f := advice.Facts{Names: map[string]string{"ip": c.ip, "pod": x.pod, "container": x.container}}
		if x.node != "" {
			f.Nodes = []string{x.node}
		}
		add(x.phantom, "end the sandbox", f)
		add(!x.phantom, "delete the pod", f)
	}
	add(entryLast, "write back", advice.Facts{Names: names})
	add(true, "over", advice.Facts{Names: names})
	return steps
}

// named is the carrier that the entry names, by the id of its sandbox, else by its pod; -1
// for none.
func (c conflict) named() int {
	if c.entry == nil {
		return -1
	}
	id := c.entry.ContainerID()
	if i := slices.IndexFunc(c.carriers, func(x carrier) bool { return id != "" && x.container == id }); i >= 0 {
		return i
	}
	podRef, uid, repaired := strings.Cut(c.entry.PodRef(), "_")
	return slices.IndexFunc(c.carriers, func(x carrier) bool {
		return x.pod == podRef && (repaired && x.uid == uid || !repaired && !x.phantom)
	})
}

// repaired is the carrier for which an entry would be written; -1 for none.
func (c conflict) repaired() int {
	podRef, uid, phantom := strings.Cut(c.repair, "_")
	return slices.IndexFunc(c.carriers, func(x carrier) bool { return x.pod == podRef && (!phantom || x.uid == uid) })
}

// split tells phantoms from pods that the API has, each the oldest first.
func (c conflict) split() (phantoms, pods []carrier) {
	oldest := slices.SortedStableFunc(slices.Values(c.carriers), func(a, b carrier) int {
		return cmp.Or(a.since.Compare(b.since), strings.Compare(a.pod, b.pod))
	})
	for _, x := range oldest {
		if x.phantom {
			phantoms = append(phantoms, x)
		} else {
			pods = append(pods, x)
		}
	}
	return phantoms, pods
}

// without are all carriers but one; -1 for all.
func (c conflict) without(i int) []carrier {
	if i < 0 {
		return c.carriers
	}
	return slices.Delete(slices.Clone(c.carriers), i, i+1)
}
