package fill

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

const (
	namespace      = metav1.NamespaceSystem    // namespace of whereabouts' objects
	leaseNamespace = "ip-reconcile-node-lease" // namespace of the Leases that confirm reports
)

const group = "whereabouts.cni.cncf.io"

// NetworkName is the name of the NetworkAttachmentDefinition, in the namespace
// default, whose addresses come from a pool.
func NetworkName(pool int) string { return fmt.Sprint("net-", pool) }

type object = map[string]any

func custom(kind, name string, id string, made metav1.Time, fields json.RawMessage) object {
	return object{
		"apiVersion": group + "/v1alpha1", "kind": kind,
		"metadata": object{
			"name": name, "namespace": namespace, "uid": id, "generation": 1, "creationTimestamp": made,
			"managedFields": []object{{"manager": "whereabouts", "operation": "Update", "apiVersion": group + "/v1alpha1",
				"time": made, "fieldsType": "FieldsV1", "fieldsV1": fields}},
		},
	}
}

func putJSON(key string, o any) Put {
	value, err := json.Marshal(o)
	if err != nil {
		panic(err) // everything is created here
	}
	return Put{key, value}
}

// pool is a pool after the PATCHes of many ADDs: with every allocation's fields in managedFields.
func (c *Content) pool(pool int, entries []*Entry) Put {
	allocations, fields := object{}, object{".": object{}}
	for _, e := range entries {
		key := fmt.Sprint(e.Key)
		allocations[key] = object{"id": e.Sandbox, "ifname": "net1", "podref": e.PodRef()}
		fields["f:"+key] = object{".": object{}, "f:id": object{}, "f:ifname": object{}, "f:podref": object{}}
	}
	owned, err := json.Marshal(object{"f:spec": object{".": object{}, "f:allocations": fields, "f:range": object{}}})
	if err != nil {
		panic(err)
	}
	o := custom("IPPool", PoolName(pool), string(uid("pool", pool)), c.age(pool), owned)
	o["spec"] = object{"range": PoolRange(pool), "allocations": allocations}
	return putJSON("/registry/"+group+"/ippools/"+namespace+"/"+PoolName(pool), o)
}

func (c *Content) reservation(i int, e *Entry) Put {
	o := custom("OverlappingRangeIPReservation", e.IP, string(uid("reservation", i)), c.age(i),
		json.RawMessage(`{"f:spec":{".":{},"f:ifname":{},"f:podref":{}}}`))
	o["spec"] = object{"ifname": "net1", "podref": e.PodRef()}
	return putJSON("/registry/"+group+"/overlappingrangeipreservations/"+namespace+"/"+e.IP, o)
}

// network is the NetworkAttachmentDefinition of a pool.
func (c *Content) network(pool int) Put {
	config := fmt.Sprintf(`{"cniVersion":"1.0.0","name":"%s","type":"macvlan","master":"eth1","mode":"bridge","ipam":{`+
		`"type":"whereabouts","range":"%s"}}`,
		NetworkName(pool), PoolRange(pool))
	return putJSON("/registry/k8s.cni.cncf.io/network-attachment-definitions/default/"+NetworkName(pool), object{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition",
		"metadata": object{"name": NetworkName(pool), "namespace": "default", "uid": uid("network", pool), "generation": 1,
			"creationTimestamp": c.age(pool)},
		"spec": object{"config": config},
	})
}

// Report is the report of a node's agent: the sandboxes of its pods are Ready, those of stale allocations are gone.
func (c *Content) Report(node int) *v1alpha1.SandboxReport {
	made := metav1.NewTime(c.Made)
	r := &v1alpha1.SandboxReport{
		TypeMeta: metav1.TypeMeta{APIVersion: "ip-reconcile.dev/v1alpha1", Kind: "SandboxReport"},
		ObjectMeta: metav1.ObjectMeta{Name: NodeName(node), UID: uid("report", node), Generation: 1, CreationTimestamp: made,
			ManagedFields: []metav1.ManagedFieldsEntry{written("ip-reconcile", "", made,
				`{"f:bootID":{},"f:gone":{},"f:observedAt":{},"f:runtime":{},"f:sandboxes":{},"f:summary":{}}`)}},
		BootID: BootID(node), Runtime: v1alpha1.Runtime{Name: "containerd", Version: "2.4.2"}, ObservedAt: made,
	}
	for i := node; i < c.Entries(); i += c.Nodes {
		e := c.Entry(i)
		if e.Stale || c.isGone(i) {
			r.Gone = append(r.Gone, v1alpha1.Gone{ID: e.Sandbox, UID: string(e.UID),
				Since: metav1.NewTime(c.Made.Add(-time.Minute))})
			continue
		}
		r.Sandboxes = append(r.Sandboxes, v1alpha1.Sandbox{
			ID: e.Sandbox, Namespace: e.Namespace, Name: e.Name, UID: string(e.UID), State: v1alpha1.SandboxReady,
			NetworkClosed: ptr.To(false), NetNS: "/run/netns/cni-" + string(uid("netns", i)), CreatedAt: c.age(i),
			Addresses: []v1alpha1.Address{{IP: e.IP, IfName: "net1", Network: NetworkName(e.Pool), Range: PoolRange(e.Pool)}},
		})
	}
	r.Summary.Sandboxes = int32(len(r.Sandboxes))
	return r
}

// lease confirms a node's report at this time.
func (c *Content) lease(node int, hash string, now time.Time) Put {
	name, at := NodeName(node), metav1.NewTime(now)
	return put("/registry/leases/"+leaseNamespace+"/"+name, &coordinationv1.Lease{
		TypeMeta: metav1.TypeMeta{APIVersion: "coordination.k8s.io/v1", Kind: "Lease"},
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: leaseNamespace, UID: uid("lease", node),
			CreationTimestamp: metav1.NewTime(c.Made),
			Annotations:       map[string]string{v1alpha1.HashAnnotation: hash},
			ManagedFields: []metav1.ManagedFieldsEntry{written("ip-reconcile", "", at,
				`{"f:metadata":{"f:annotations":{".":{},"f:ip-reconcile.dev/report-hash":{}}},"f:spec":{"f:holderIdentity":{},`+
					`"f:leaseDurationSeconds":{},"f:renewTime":{}}}`)}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &name, LeaseDurationSeconds: ptr.To(int32(60)),
			RenewTime: ptr.To(metav1.NewMicroTime(now))},
	})
}

func (c *Content) isGone(i int) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone[i]
}

func (c *Content) report(node int) Put {
	return putJSON("/registry/ip-reconcile.dev/sandboxreports/"+NodeName(node), c.Report(node))
}

// SandboxGone makes the entry's node report its sandbox as gone, and confirms the report at once.
func (c *Content) SandboxGone(ctx context.Context, etcd Etcd, i int) error {
	c.vouching.Lock()
	defer c.vouching.Unlock()
	c.mu.Lock()
	if c.gone == nil {
		c.gone = map[int]bool{}
	}
	c.gone[i] = true
	c.mu.Unlock()
	node := c.Entry(i).Node
	return etcd.transact(ctx, []Put{c.report(node), c.lease(node, podstate.Hash(c.Report(node)), time.Now())})
}
