package explanation

import (
	"cmp"
	"net/netip"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
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

// carriers are the sandboxes with an address, and the pods of which no sandbox with it is known.
func carriers(o *judge.Observation, ip string, pods, ids []string) (all []carrier) {
	seen := map[string]bool{}
	for _, b := range sandboxes(o) {
		ref := b.pod.String()
		if !slices.Contains(ids, b.ID) && !slices.Contains(pods, ref) || !runs(b.ExplainedSandbox) || !slices.Contains(b.Addresses, ip) {
			continue
		}
		c := carrier{pod: ref, uid: b.UID, node: b.Node, container: b.ID, phantom: isPhantomOf(b.ExplainedSandbox, o.Pods[b.pod])}
		if b.Created != nil {
			c.since = *b.Created
		}
		seen[ref] = seen[ref] || !c.phantom
		all = append(all, c)
	}
	for _, ref := range pods {
		namespace, name, _ := strings.Cut(ref, "/")
		pod := o.Pods[types.NamespacedName{Namespace: namespace, Name: name}]
		if pod != nil && !seen[ref] && pod.Phase != podstate.Finished && slices.Contains(carried(o, pod), ip) {
			all = append(all, carrier{pod: ref, uid: pod.UID, node: pod.Node, since: pod.Created})
			seen[ref] = true
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
	slices.SortStableFunc(c.carriers, func(a, b carrier) int { return cmp.Or(a.since.Compare(b.since), strings.Compare(a.pod, b.pod)) })
	isPod := func(x carrier) bool { return !x.phantom }
	c.carriers = append(report.Only(c.carriers, func(x carrier) bool { return x.phantom }), report.Only(c.carriers, isPod)...)
	firstPod := slices.IndexFunc(c.carriers, isPod)
	named, repaired := -1, c.carrierOf(c.repair)
	if c.entry != nil {
		named = c.carrierOf(c.entry.PodRef())
	}
	rule, keeper := "nobody keeps", -1        // an entry of advice.yaml
	var repairsFirst, repairsLast, atEnd bool // atEnd: the one that keeps it ends last
	switch {
	case named >= 0 && !c.carriers[named].phantom: // the others have no entry that their DEL could free
		rule, keeper = "pod is named", named
	case named >= 0:
		// If the phantom ended first its DEL would free the entry while others carry the address, and the next ADD
		// could hand it out.
		rule, keeper, atEnd = "phantom is named", named, true
	// The entry of another is held while anybody carries the address, so that it is not handed out meanwhile.
	case c.entry != nil && c.entry.Verdict == judge.InUse || firstPod < 0:
	// Where nobody is named no DEL frees anything, and the next ADD may hand the address out once more. An
	// entry comes first, but where all pods but one are phantoms: they are ended.
	case c.entry == nil && firstPod < len(c.carriers)-1 && c.repair == "":
	case c.entry == nil && firstPod < len(c.carriers)-1:
		rule, keeper, repairsFirst = "entry first", repaired, true
	default:
		rule, keeper, repairsLast = "oldest keeps", firstPod, true
	}
	names := map[string]string{"ip": c.ip, "pool": c.pool, "place": cmp.Or(c.pool, "no pool"), "keeper": c.repair, "entry": "nobody"}
	leaving := c.carriers
	if keeper >= 0 {
		names["keeper"] = c.carriers[keeper].String()
		leaving = slices.Delete(slices.Clone(c.carriers), keeper, keeper+1)
	}
	if atEnd {
		leaving = append(leaving, c.carriers[keeper])
	}
	if c.entry != nil {
		names["entry"] = c.entry.PodRef()
	}
	add := func(is bool, name string, f advice.Facts) {
		if is {
			steps = append(steps, a.Steps("conflict", "Conflict "+name, f)...)
		}
	}
	add(true, rule, advice.Facts{Names: names})
	add(repairsFirst, "write back", advice.Facts{Names: names})
	for _, x := range leaving { // a pod that the API has is made again, a phantom is ended on its node
		f := advice.Facts{Names: map[string]string{"ip": c.ip, "pod": x.pod, "container": x.container}}
		if x.node != "" {
			f.Nodes = []string{x.node}
		}
		// To delete the pod would end its other sandbox that keeps the address, too.
		isEnded := x.phantom || keeper >= 0 && x.pod == c.carriers[keeper].pod && x.container != "" && x.node != ""
		add(isEnded, "end the sandbox", f)
		add(!isEnded, "delete the pod", f)
	}
	add(repairsLast, "write back", advice.Facts{Names: names})
	add(true, "over", advice.Facts{Names: names})
	return steps
}

// carrierOf is the carrier that an entry names, by the id of its sandbox, else by its pod; -1 for none.
func (c conflict) carrierOf(podRef string) int {
	if c.entry != nil {
		id := c.entry.ContainerID()
		if i := slices.IndexFunc(c.carriers, func(x carrier) bool { return id != "" && x.container == id }); i >= 0 {
			return i
		}
	}
	pod, uid, repaired := strings.Cut(podRef, "_")
	return slices.IndexFunc(c.carriers, func(x carrier) bool {
		return x.pod == pod && (repaired && x.uid == uid || !repaired && !x.phantom)
	})
}
