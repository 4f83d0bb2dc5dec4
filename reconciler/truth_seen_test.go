package reconciler

import (
	"fmt"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
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

// describe is what an observation has, for the reader of a failure.
func describeCluster(o *Observed) string {
	var b strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&b, "  "+format+"\n", args...) }
	ago := func(t time.Time) string {
		if t.IsZero() {
			return "never"
		}
		return o.Now.Sub(t).Round(time.Second).String()
	}
	for _, n := range o.Nodes {
		line("node %s ready=%v out-of-service=%v %s %v", n.Name, n.Ready, n.OutOfService, n.BootID, n.Labels)
	}
	for _, r := range o.Reports {
		line("report of %s, renewed %s ago, %s", r.Name, ago(r.Renewed), r.BootID)
		for _, s := range r.Sandboxes {
			line("  sandbox %s of %s (%s) %s closed=%s %s", s.ID, s.Name, s.UID, s.State, boolText(s.NetworkClosed), addressText(s.Addresses))
		}
		for _, a := range r.Attachments {
			line("  attachment %s of %s (%s) since %s closed=%s %s", a.ID, a.Name, a.UID, ago(a.Since.Time), boolText(a.NetworkClosed), addressText(a.Addresses))
		}
		for _, g := range r.Gone {
			line("  gone %s (%s)", g.ID, g.UID)
		}
	}
	for _, p := range o.Pods {
		line("pod %s (%s) %s on %q, status %v %v %v, deleted %s, stopped by kubelet %v", p.Name, p.UID, p.Phase, p.Node, p.Status, p.Interfaces, p.IPs, ago(p.Deleted), p.StoppedByKubelet)
	}
	for _, p := range o.Pools {
		for _, a := range p.Allocations {
			line("pool %s: %s of %s is %s, %s", p.Name, a.Address, a.PodRef, a.ContainerID, a.IfName)
		}
	}
	for _, r := range o.Reservations {
		line("reservation %s of %s, %s old", r.Name, r.PodRef, ago(r.Created))
	}
	for name, n := range o.NADs {
		line("definition %s %+v %s", name, n.Networks, n.Problem)
	}

	return b.String()
}

func boolText(b *bool) string {
	if b == nil {
		return "?"
	}
	return fmt.Sprint(*b)
}

func addressText(all []v1alpha1.Address) string {
	text := ""
	for _, a := range all {
		text += fmt.Sprintf(" %s in %q", a.IP, a.NetworkName)
	}
	return text
}
