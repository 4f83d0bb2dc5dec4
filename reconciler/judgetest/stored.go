package judgetest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// AddPool adds a pool as it is stored.
func (o *Observed) AddPool(u *unstructured.Unstructured) {
	p := ippool.Read[ippool.Pool](u)
	o.Pools = append(o.Pools, p)
	o.store("ippools", p.NamespacedName, u.Object)
}

// AddReservation adds a reservation as it is stored.
func (o *Observed) AddReservation(u *unstructured.Unstructured) {
	r := ippool.Read[ippool.Reservation](u)
	o.Reservations = o.Reservations.With(append(o.Reservations.Or(nil), r))
	o.store("overlappingrangeipreservations", r.NamespacedName, u.Object)
}

// store keeps an object as it is stored in the API. Of reservations of one name the first counts, as in
// ObserveDistinct; of other objects of one name the last one does.
func (o *Observed) store(resource string, name types.NamespacedName, object any) {
	text, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	if o.stored == nil {
		o.stored = map[string]map[types.NamespacedName][]byte{}
	}
	if o.stored[resource] == nil {
		o.stored[resource] = map[types.NamespacedName][]byte{}
	}
	if _, has := o.stored[resource][name]; !has || resource != "overlappingrangeipreservations" {
		o.stored[resource][name] = text
	}
}

// Stored returns the JSON of the objects of a resource as an API server lists them. Parts have built them, so changes
// of an observation by other means are not in them.
func (o *Observed) Stored(resource string) (objects [][]byte) {
	byName := o.stored[resource]
	switch resource {
	case "sandboxreports":
		byName = o.storedReports()
	case "leases":
		byName = o.storedLeases()
	case "virtualmachineinstances":
		byName = o.storedGuests()
	}
	names := make([]types.NamespacedName, 0, len(byName))
	for name := range byName {
		names = append(names, name)
	}
	slices.SortFunc(names, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for _, name := range names {
		objects = append(objects, byName[name])
	}
	return objects
}

// marshalled is the JSON of objects by their names.
func marshalled[T any](objects []T, named func(T) (types.NamespacedName, any)) map[types.NamespacedName][]byte {
	all := map[types.NamespacedName][]byte{}
	for _, o := range objects {
		name, object := named(o)
		text, err := json.Marshal(object)
		if err != nil {
			panic(err)
		}
		all[name] = text
	}
	return all
}

// writtenAt are managedFields by which a field was written at a time.
func writtenAt(at time.Time, fields ...string) (entries []metav1.ManagedFieldsEntry) {
	if at.IsZero() {
		return nil
	}
	for _, f := range fields {
		entries = append(entries, metav1.ManagedFieldsEntry{Manager: "agent", Time: new(metav1.NewTime(at)),
			FieldsV1: metav1.NewFieldsV1(fmt.Sprintf(`{"f:%s":{}}`, f))})
	}
	return entries
}

func (o *Observed) storedReports() map[types.NamespacedName][]byte {
	return marshalled(o.Reports.Or(nil), func(r *podstate.Report) (types.NamespacedName, any) {
		name := types.NamespacedName{Name: r.Name}
		if r.IsUnread() {
			return name, map[string]any{"metadata": map[string]any{"name": r.Name, "uid": r.UID,
				"resourceVersion": r.ResourceVersion}, "sandboxes": 5}
		}
		stored := r.DeepCopy()
		stored.ManagedFields = writtenAt(r.WrittenAt, "observedAt")
		return name, stored
	})
}

// storedLeases are the agents' Leases. The one of a report that is not confirmed has another hash.
func (o *Observed) storedLeases() map[types.NamespacedName][]byte {
	reports := slices.DeleteFunc(slices.Clone(o.Reports.Or(nil)), func(r *podstate.Report) bool {
		return r.LeaseRenewedAt.IsZero()
	})
	return marshalled(reports, func(r *podstate.Report) (types.NamespacedName, any) {
		l := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: r.Name,
			ResourceVersion: r.LeaseVersion, ManagedFields: writtenAt(r.LeaseRenewedAt, "renewTime"),
			Annotations: map[string]string{v1alpha1.HashAnnotation: "of another content"}}}
		if !r.ConfirmedAt.IsZero() {
			l.Annotations[v1alpha1.HashAnnotation] = podstate.Hash(r.SandboxReport)
		}
		if r.RestoreNonce != "" {
			l.Annotations[v1alpha1.RestoreAnnotation] = r.RestoreNonce
		}
		return types.NamespacedName{Namespace: l.Namespace, Name: l.Name}, l
	})
}

func (o *Observed) storedGuests() map[types.NamespacedName][]byte {
	return marshalled(o.Guests.Or(nil), func(g *podstate.Guest) (types.NamespacedName, any) {
		networks, interfaces := []any{}, []any{}
		for _, i := range g.Interfaces {
			networks = append(networks, map[string]any{"name": i.Name, "multus": map[string]any{"networkName": i.Network}})
			interfaces = append(interfaces, map[string]any{"name": i.Name, "ipAddress": i.Addresses[0].String()})
		}
		if g.IsUnread {
			networks = append(networks, map[string]any{"name": "unread", "multus": map[string]any{
				"networkName": "default/unread"}})
		}
		return g.NamespacedName, map[string]any{
			"metadata": map[string]any{"namespace": g.Namespace, "name": g.Name, "uid": g.UID},
			"spec":     map[string]any{"networks": networks}, "status": map[string]any{"interfaces": interfaces}}
	})
}
