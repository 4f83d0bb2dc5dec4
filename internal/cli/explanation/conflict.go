package explanation

import (
	"net/netip"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// conflictOf is who carries an address, and whom its pool names. The pods and the sandboxes
// of one address are separate findings, which are taken together.
func conflictOf(j *judge.Judgement, f judge.Finding) advice.Conflict {
	c := advice.Conflict{Address: f.IP, Pool: f.Pool}
	var pods, ids []string
	for _, x := range j.Findings {
		switch {
		case x.IP != f.IP || x.Pool != f.Pool:
		case x.Kind == judge.Conflict:
			pods, ids = append(pods, x.Pods...), append(ids, x.ContainerIDs...)
		case x.Kind == judge.Unrecorded && x.Repair != nil:
			c.Repair = x.Repair.PodRef
		}
	}
	addr, err := netip.ParseAddr(f.IP)
	if err != nil {
		return c
	}
	c.Carriers = carriers(j.Observation, addr, pods, ids)
	for _, it := range j.About(addr).Allocations {
		if it.Pool.Ref() == f.Pool {
			c.Entry = &advice.Entry{PodRef: it.PodRef(), Container: it.ContainerID(), InUse: it.Verdict == judge.InUse}
		}
	}
	return c
}

// carriers are the sandboxes with an address, and the pods of which no sandbox with it is
// known.
func carriers(o *judge.Observation, addr netip.Addr, pods, ids []string) (all []advice.Carrier) {
	seen := map[string]bool{}
	for _, s := range sandboxes(o) {
		ref := s.namespace + "/" + s.name
		if !s.Fresh || s.State != string(v1alpha1.SandboxReady) || !slices.Contains(s.Addresses, addr) || !slices.Contains(ids, s.ID) && !slices.Contains(pods, ref) {
			continue
		}
		pod := o.Pods[types.NamespacedName{Namespace: s.namespace, Name: s.name}]
		c := advice.Carrier{Pod: ref, UID: s.UID, Phantom: s.phantom(pod), Node: s.Node, Container: s.ID, Since: s.Created}
		if !c.Phantom {
			seen[ref] = true
		}
		all = append(all, c)
	}
	slices.Sort(pods)
	for _, ref := range slices.Compact(pods) {
		namespace, name, _ := strings.Cut(ref, "/")
		pod := o.Pods[types.NamespacedName{Namespace: namespace, Name: name}]
		if pod != nil && !seen[ref] && pod.Phase != podstate.Finished && slices.Contains(interfaceAddresses(pod), addr) {
			all = append(all, advice.Carrier{Pod: ref, UID: pod.UID, Node: pod.Node, Since: pod.Created})
		}
	}
	return all
}
