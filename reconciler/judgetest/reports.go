package judgetest

import (
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// ReportEdit changes a report.
type ReportEdit func(*podstate.Report)

// FreshReport adds the report of a node, its Lease renewed ten seconds ago.
func FreshReport(node string, c ...ReportEdit) Part { return ReportRenewed(node, 10*time.Second, c...) }

// StaleReport adds the report of a node, its Lease renewed ten minutes ago.
func StaleReport(node string, c ...ReportEdit) Part { return ReportRenewed(node, 10*time.Minute, c...) }

// ReportRenewed adds the report of a node, observed and renewed so long ago, which has been there for a day.
func ReportRenewed(node string, ago time.Duration, c ...ReportEdit) Part {
	return func(o *Observed) {
		t := o.Now.Add(-ago)
		r := &podstate.Report{
			SandboxReport: &v1alpha1.SandboxReport{
				ObjectMeta: metav1.ObjectMeta{Name: node, CreationTimestamp: metav1.NewTime(t.Add(-24 * time.Hour))},
				BootID:     "boot-1", Machine: MachineOf(node), ObservedAt: metav1.NewTime(t),
			},
			ConfirmedAt: t, LeaseRenewedAt: t, WrittenAt: t,
		}
		for _, f := range c {
			f(r)
		}
		o.Reports = o.Reports.With(append(o.Reports.Or(nil), r))
	}
}

// RenewedAt is when the Lease was last renewed, with the hash of this content.
func RenewedAt(t time.Time) ReportEdit {
	return func(r *podstate.Report) { r.ConfirmedAt, r.LeaseRenewedAt = t, t }
}

// MachineOf is the machine that runs under a node's name, in its Node and its report.
func MachineOf(node string) v1alpha1.Machine {
	return v1alpha1.Machine{SystemUUID: "board of " + node, MachineID: "disk of " + node}
}

// OnMachine makes it the Node of another machine under the name.
func OnMachine(m v1alpha1.Machine) NodeEdit {
	return func(n *corev1.Node) {
		n.Status.NodeInfo.SystemUUID, n.Status.NodeInfo.MachineID = m.SystemUUID, m.MachineID
	}
}

// FromMachine makes it the report of another machine under the name.
func FromMachine(m v1alpha1.Machine) ReportEdit { return func(r *podstate.Report) { r.Machine = m } }

// FromBoot makes it the report of another boot; "" for one that carries no bootID.
func FromBoot(id string) ReportEdit { return func(r *podstate.Report) { r.BootID = id } }

// ObservedAgo is when the content was read from the runtime.
func ObservedAgo(d time.Duration) ReportEdit {
	return func(r *podstate.Report) { r.ObservedAt = metav1.NewTime(Now.Add(-d)) }
}

// WithoutMatchingLease has the Lease never carry the hash of this content.
func WithoutMatchingLease(r *podstate.Report) { r.ConfirmedAt = time.Time{} }

// LeasesOfReports says that agents have Leases, if a report's Lease was ever renewed.
func LeasesOfReports(o *Observed) {
	o.AgentLeases = o.AgentLeases.With(slices.ContainsFunc(o.Reports.Or(nil),
		func(r *podstate.Report) bool { return !r.LeaseRenewedAt.IsZero() }))
}

// ReportingWorker adds a Ready worker-1 with a fresh report.
func ReportingWorker(c ...ReportEdit) Part {
	return All(Node("worker-1"), FreshReport("worker-1", c...))
}

// SandboxEdit changes a sandbox of a report.
type SandboxEdit func(*v1alpha1.Sandbox)

// Sandbox adds a READY sandbox of default/web-0, an hour old, its network open.
func Sandbox(id, uid string, edits ...SandboxEdit) ReportEdit {
	return func(r *podstate.Report) {
		open := false
		b := v1alpha1.Sandbox{ID: id, Namespace: "default", Name: "web-0", UID: uid, State: "Ready", NetworkClosed: &open,
			CreatedAt: metav1.NewTime(Now.Add(-time.Hour))}
		for _, e := range edits {
			e(&b)
		}
		r.Sandboxes = append(r.Sandboxes, b)
	}
}

// OfPod makes it one of default/<pod>.
func OfPod(pod string) SandboxEdit { return func(b *v1alpha1.Sandbox) { b.Name = pod } }

func WithAddress(ip, networkName string) SandboxEdit {
	return func(b *v1alpha1.Sandbox) { b.Addresses = append(b.Addresses, Address(ip, networkName)) }
}

func CreatedAgo(d time.Duration) SandboxEdit {
	return func(b *v1alpha1.Sandbox) { b.CreatedAt = metav1.NewTime(Now.Add(-d)) }
}

// NotReady makes it NOTREADY, with what is known of its network namespace: Closed, Open, or nil for nothing.
func NotReady(closed *bool) SandboxEdit {
	return func(b *v1alpha1.Sandbox) { b.State, b.NetworkClosed = "NotReady", closed }
}

// Closed and Open are values of networkClosed.
var Closed, Open = new(true), new(false)

func Address(ip, networkName string) v1alpha1.Address {
	return v1alpha1.Address{IP: ip, IfName: "net1", Network: "wb", Range: "10.0.0.0/24", NetworkName: networkName}
}

// Attachment adds an attachment of default/web-0.
func Attachment(id, uid string, age time.Duration, closed *bool, addresses ...v1alpha1.Address) ReportEdit {
	return func(r *podstate.Report) {
		r.Attachments = append(r.Attachments, v1alpha1.Attachment{ID: id, UID: uid, Namespace: "default", Name: "web-0",
			Since: metav1.NewTime(Now.Add(-age)), NetworkClosed: closed, Addresses: addresses})
	}
}

// Gone adds an id that has been gone for an hour.
func Gone(id, uid string) ReportEdit {
	return func(r *podstate.Report) {
		r.Gone = append(r.Gone, v1alpha1.Gone{ID: id, UID: uid, Since: metav1.NewTime(Now.Add(-time.Hour))})
	}
}

// ReportOf is the report of a node, nil for none.
func ReportOf(o *Observed, node string) *podstate.Report {
	for _, r := range o.Reports.Or(nil) {
		if r.Name == node {
			return r
		}
	}
	return nil
}

// UsualSandboxGone is the usual entry without its sandbox and its pod: stale, proven.
var UsualSandboxGone = All(UsualPool, ReportingWorker(Gone("box-1", UsualUID)))

// Unread makes the addresses of a sandbox unknown.
func Unread(b *v1alpha1.Sandbox) { b.AddressesUnread = true }

// AddressIn adds an address of a range and network, by the CNI cache.
func AddressIn(ip, ifName, cidr, network string) SandboxEdit {
	return func(b *v1alpha1.Sandbox) {
		b.Addresses = append(b.Addresses, v1alpha1.Address{IP: ip, IfName: ifName, Network: "wb", Range: cidr,
			NetworkName: network})
	}
}
