package judgetest

import (
	"encoding/json"
	"errors"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// ClaimedPool adds the pool whose allocation is UsualAllocation with the IPAMClaim default/vm.net1.
func ClaimedPool(o *Observed) { PoolClaimedBy("default/vm.net1")(o) }

// PoolClaimedBy is ClaimedPool with another reference, as whereabouts pull request 742 writes it.
func PoolClaimedBy(claim string) Part {
	return RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{
		"5": map[string]any{"id": "box-1", "podref": "default/web-0", "ifname": "net1", "ipamclaimref": claim}}})
}

// IPAMClaim adds the IPAMClaim default/<name>.
func IPAMClaim(name string, ips ...string) Part {
	return func(o *Observed) {
		text, _ := json.Marshal(map[string]any{"metadata": map[string]any{"namespace": "default", "name": name},
			"status": map[string]any{"ips": ips}})
		claim, err := ippool.Decode[ippool.Claim](text)
		if err != nil {
			panic(err)
		}
		o.IPAMClaims.Or(nil)[claim.NamespacedName] = claim
		o.store("ipamclaims", claim.NamespacedName, json.RawMessage(text))
	}
}

// IPAMClaimsUnread makes IPAMClaims unreadable.
func IPAMClaimsUnread(why string) Part {
	return func(o *Observed) {
		o.IPAMClaims = facts.Unknown[map[types.NamespacedName]*ippool.Claim](errors.New(why))
	}
}

// Guest adds a VirtualMachineInstance default/<name> whose guest has an address on a network of Multus.
func Guest(name, network, ip string) Part {
	return func(o *Observed) {
		g := &podstate.Guest{NamespacedName: PodName(name)}
		g.Interfaces = []podstate.Interface{{Network: network, Name: "net1",
			Addresses: []netip.Addr{netip.MustParseAddr(ip)}}}
		o.Guests = o.Guests.With(append(o.Guests.Or(nil), g))
	}
}

// GuestNamed adds a VirtualMachineInstance default/<name> with a UID, whose guest has an address. If isUnread is true,
// its status does not report the interface.
func GuestNamed(name, uid string, isUnread bool, network, ip string) Part {
	return func(o *Observed) {
		Guest(name, network, ip)(o)
		g := o.Guests.Or(nil)[len(o.Guests.Or(nil))-1]
		if g.UID, g.IsUnread = uid, isUnread; isUnread {
			g.Interfaces = nil
		}
	}
}

// GuestsOfPods drops the guests that no pod can have: of a machine without a pod on a node, or on a network that its
// pods lack.
func GuestsOfPods(o *Observed) {
	o.Guests = o.Guests.With(slices.DeleteFunc(slices.Clone(o.Guests.Or(nil)), func(g *podstate.Guest) bool {
		for _, p := range o.Pods {
			isOn := func(i podstate.Interface) bool { return slices.Contains(p.Networks(), i.Network) }
			if p.Machine != nil && p.Machine.UID == g.UID && p.Node != "" && p.Phase != podstate.Finished &&
				(g.IsUnread || slices.ContainsFunc(g.Interfaces, isOn)) {
				return false
			}
		}
		return true
	}))
}

// Launcher makes a pod a virt-launcher of the VirtualMachineInstance with this UID, and with a migration its target
// (kubevirt, pkg/virt-controller/services/template.go and pkg/virt-controller/watch/migration/migration.go).
func Launcher(vmi, migration string) PodEdit {
	return func(p *corev1.Pod) {
		isController := true
		p.Labels = map[string]string{"kubevirt.io": "virt-launcher", "kubevirt.io/created-by": vmi}
		if migration != "" {
			p.Labels["kubevirt.io/migrationJobUID"] = migration
		}
		p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "kubevirt.io/v1", Kind: "VirtualMachineInstance",
			Name: "vm", UID: types.UID(vmi), Controller: &isController}}
	}
}

// Labelled sets a label of the pod.
func Labelled(key, value string) PodEdit { return func(p *corev1.Pod) { p.Labels[key] = value } }

// WithoutController drops the owner of the pod.
func WithoutController(p *corev1.Pod) { p.OwnerReferences = nil }

// NoController leaves the pod an owner that does not control it.
func NoController(p *corev1.Pod) { p.OwnerReferences[0].Controller = nil }

// ControlledBy changes the kind of the pod's owner.
func ControlledBy(apiVersion, kind string) PodEdit {
	return func(p *corev1.Pod) { p.OwnerReferences[0].APIVersion, p.OwnerReferences[0].Kind = apiVersion, kind }
}

// InNamespace puts the pod into another namespace.
func InNamespace(namespace string) PodEdit { return func(p *corev1.Pod) { p.Namespace = namespace } }

// GuestsUnknown makes VirtualMachineInstances a source that could not be read.
func GuestsUnknown(o *Observed) {
	o.Guests = facts.Unknown[[]*podstate.Guest](errors.New("cannot list virtualmachineinstances.kubevirt.io: forbidden"))
}

// GuestOf adds a VirtualMachineInstance with this UID whose guest has an address on default/wb.
func GuestOf(uid, ip string, edits ...func(*podstate.Guest)) Part {
	return func(o *Observed) {
		Guest("vm", "default/wb", ip)(o)
		all := o.Guests.Or(nil)
		g := all[len(all)-1]
		g.UID = uid
		for _, edit := range edits {
			edit(g)
		}
	}
}
