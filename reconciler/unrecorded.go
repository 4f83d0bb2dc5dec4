package reconciler

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// unrecorded are addresses that a live pod or a READY sandbox carries on a
// pool's network while the pool has no entry for them: the next ADD may hand
// them out again. The pool is known by the CNI result cache or by a readable
// NetworkAttachmentDefinition, never by podIPs.
func (w *world) unrecorded() []Finding {
	var found []Finding
	said := map[string]bool{} // a pod and its sandbox both tell of one address
	w.freshBoxes(func(g sighting) {
		for _, a := range g.box.Addresses {
			addr, ok := podstate.ParseAddress(a)
			if !ok || !g.report.Settled(g.box, w.Now) {
				continue
			}
			for _, p := range w.Pools {
				if !w.lacks(p, addr) || !w.sameNetwork(p, a.NetworkName) || !w.ofRange(p, a.Range) {
					continue
				}
				podRef := ippool.PodRef{Namespace: g.box.Namespace, Name: g.box.Name}
				known := w.known(g)
				if !known {
					podRef.UID = g.box.UID // a name that no successor takes over
				}
				said[p.Ref()+" "+addr.String()] = true
				f := w.lacking(p, addr, podRef.Namespace+"/"+podRef.Name, g.box.ID, g.report.Name)
				if known || g.box.UID != "" {
					f.repair = w.entryFor(p, addr, g.box.ID, podRef.String(), a.IfName)
				}
				found = append(found, f)
			}
		}
	})
	for addr, carriers := range w.pods {
		for _, c := range carriers {
			if c.nad == nil || c.pod.Phase != podstate.Live || w.Now.Sub(c.pod.Created) < recentFor {
				continue // what was read first may be older than the pod
			}
			for _, p := range w.Pools {
				if !w.lacks(p, addr) || !w.maps(c.nad, p) || said[p.Ref()+" "+addr.String()] {
					continue
				}
				f := w.lacking(p, addr, c.pod.String(), "", c.pod.Node)
				f.Message += "; its sandbox is not known, so that no entry can be written back"
				found = append(found, f)
			}
		}
	}
	return found
}

// lacks says whether an address of the pool's range has no entry there.
func (w *world) lacks(p *ippool.Pool, addr netip.Addr) bool {
	if p.Problem != "" || !p.Range.Contains(addr) {
		return false
	}
	return !slices.ContainsFunc(p.Range.Keys(addr), func(k uint64) bool { return w.taken[p][k] })
}

// ofRange says whether a cached range is the pool's, or a range that the pool
// is a slice of.
func (w *world) ofRange(p *ippool.Pool, text string) bool {
	r, err := ippool.ParseConfiguredRange(text)
	if err != nil || p.Problem != "" {
		return false
	}
	return r == p.Range.Prefix() ||
		len(p.SliceNodes(w.nodeNames)) > 0 && r.Contains(p.Range.Prefix().Addr())
}

func (w *world) lacking(p *ippool.Pool, addr netip.Addr, pod, containerID, node string) Finding {
	f := Finding{Kind: Unrecorded, IP: addr.String(), Pool: p.Ref(), Pods: []string{pod}, Node: node,
		Message: fmt.Sprintf("%s carries %s, and pool %s has no entry for it: the next ADD may hand it out again", pod, addr, p.Ref())}
	if containerID != "" {
		f.ContainerIDs = []string{containerID}
	}
	return f
}

func (w *world) entryFor(p *ippool.Pool, addr netip.Addr, containerID, podRef, ifName string) *repair {
	key, ok := p.Range.Key(addr)
	if !ok {
		return nil
	}
	return &repair{pool: p, key: strconv.FormatUint(key, 10), address: addr, containerID: containerID, podRef: podRef, ifName: ifName}
}
