package reconciler

import (
	"fmt"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

func (p *truePool) reservationOf(ip string) string {
	return ippool.ReservationName(p.net.name, netip.MustParseAddr(ip))
}

// parts are what a pass sees of a truth.
func (w *truth) parts() []Part {
	parts := []Part{At(w.now), func(o *Observed) { o.Past = w.past }}
	for _, m := range w.nodes {
		if m.object {
			parts = append(parts, Node(m.name, m.edits()...))
		}
		if m.report != nil {
			parts = append(parts, func(o *Observed) {
				o.Reports = append(o.Reports, &podstate.Report{SandboxReport: m.report, Renewed: m.heard, LeaseRenewed: m.heard, Written: m.report.ObservedAt.Time})
			})
		}
	}
	for i, n := range w.nets {
		cidr, more := fmt.Sprintf("10.0.%d.0/24", n.third), ""
		if n.sliced {
			more = `"node_slice_size":"/28"`
		}
		config := WhereaboutsConfig(cidr, n.name)
		if more != "" {
			config = WhereaboutsConfig(cidr, n.name, more)
		}
		switch n.nad {
		case 0:
			parts = append(parts, NAD(fmt.Sprint("net-", i), config))
		case 1:
			parts = append(parts, NAD(fmt.Sprint("net-", i), ""))
		}
	}
	for _, p := range w.pools() {
		var entries []Allocation
		for _, e := range p.entries {
			entries = append(entries, e)
		}
		parts = append(parts, Pool(p.name, p.prefix.String(), entries...))
	}
	for name, r := range w.reserved {
		parts = append(parts, Reservation(name, "default/"+r.pod, w.now.Sub(r.since)))
	}
	for _, p := range w.pods {
		parts = append(parts, w.podPart(p))
	}
	return parts
}

func (m *machine) edits() []NodeEdit {
	edits := []NodeEdit{Booted(fmt.Sprint("boot-", m.apiBoot))}
	if !m.selected {
		edits = append(edits, WithoutAgent)
	}
	if !m.notReady.IsZero() {
		edits = append(edits, NotReadyFor(Now.Sub(m.notReady)))
	}
	if m.tainted {
		edits = append(edits, OutOfService)
	}
	return edits
}

func (w *truth) podPart(p *truePod) Part {
	who := int(p.name[len(p.name)-1] - '0')
	return Pod(p.name, UID(p.uid), Phase(corev1.PodPhase(p.phase)), func(o *corev1.Pod) {
		o.CreationTimestamp, o.Spec.NodeName, o.Annotations = metav1.NewTime(p.created), "", nil
		if p.node != nil {
			o.Spec.NodeName = p.node.name
		}
		if !p.deleted.IsZero() {
			o.DeletionTimestamp = &metav1.Time{Time: p.deleted}
		}
		if p.ips != nil {
			CarryingOn(fmt.Sprint("default/net-", who%len(w.nets)), "net1", strings.Join(p.ips, `","`))(o)
		}
		if !p.stopped.IsZero() {
			StoppedByKubelet(Now.Sub(p.stopped))(o)
		}
	})
}
