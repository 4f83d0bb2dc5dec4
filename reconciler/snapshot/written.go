package snapshot

import (
	"bytes"
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/internal/lean"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// fields is a JSON object that is written.
type fields = map[string]any

// writtenKind is a kind that a bundle has a file of. reduce are the fields that are kept of an object while the lists
// are read; nil keeps what write needs. write makes of those what is written.
type writtenKind struct {
	kind     string
	resource schema.GroupVersionResource
	reduce   lean.Fields
	write    func(w *writer, o fields) error
}

// head are the fields of metadata that are read of every object.
var head = []lean.Field{lean.F(0, "name"), lean.F(0, "namespace"), lean.F(0, "uid"), lean.F(0, "resourceVersion"),
	lean.F(0, "creationTimestamp"), lean.F(0, "deletionTimestamp")}

func metadataWith(more ...lean.Field) lean.Field {
	return lean.F(0, "metadata", append(slices.Clip(head), more...)...)
}

// whole are the metadata and the fields of an object.
func whole(names ...string) lean.Fields {
	all := lean.Fields{metadataWith()}
	for _, name := range names {
		all = append(all, lean.F(0, name))
	}
	return all
}

// writtenKinds are the kinds of a bundle.
var writtenKinds = []writtenKind{
	{"Node", corev1.SchemeGroupVersion.WithResource("nodes"), podstate.NodeFields, (*writer).node},
	{"SandboxReport", v1alpha1.Resource(), nil, nil},
	{"Lease", coordinationv1.SchemeGroupVersion.WithResource("leases"), nil, nil},
	{"NetworkAttachmentDefinition", ippool.NADResource, whole("spec"), (*writer).definition},
	{"IPAMClaim", ippool.ClaimResource, lean.Fields{metadataWith(), lean.F(0, "status", lean.F(0, "ips"))},
		(*writer).claim},
	{"VirtualMachineInstance", podstate.GuestResource, lean.Fields{metadataWith(),
		lean.F(0, "spec", lean.F(0, "networks", lean.F(0, "name"), lean.F(0, "multus", lean.F(0, "networkName")))),
		lean.F(0, "status", lean.F(0, "interfaces", lean.F(0, "name"), lean.F(0, "ipAddress"),
			lean.F(0, "ipAddresses")))}, (*writer).guest},
	{"OverlappingRangeIPReservation", ippool.ReservationResource, whole("spec"), (*writer).reservation},
	{"IPPool", ippool.PoolResource, lean.Fields{metadataWith(lean.F(0, "finalizers"), lean.F(0, "annotations",
		lean.F(0, ippool.PausedAnnotation), lean.F(0, ippool.NoUsageAlertsAnnotation))), lean.F(0, "spec")},
		(*writer).pool},
	{"Pod", corev1.SchemeGroupVersion.WithResource("pods"), nil, (*writer).pod},
}

// Reduce returns the JSON of an object of a resource with the fields that a bundle may have.
func Reduce(resource string, object []byte) ([]byte, error) {
	i := slices.IndexFunc(writtenKinds, func(k writtenKind) bool { return k.resource.Resource == resource })
	switch {
	case i < 0:
		return nil, nil // it is in no bundle
	case resource == "pods":
		return podstate.ReducedPod(object)
	case writtenKinds[i].reduce == nil:
		return object, nil
	}
	r := lean.New(object)
	reduced := writtenKinds[i].reduce.AppendJSON(nil, r)
	return reduced, r.End()
}

// writer makes of objects what a bundle has of them.
type writer struct {
	*Encoder
	nodes  map[string]bool   // that are known, by their names in the cluster
	hashes map[string]string // of reports, by those of the reports in the cluster
}

// object returns an object as it is written, without what is not read of it, and with other names.
func (w *writer) object(k *writtenKind, text []byte) (any, error) {
	switch k.kind {
	case "SandboxReport":
		return w.report(text)
	case "Lease":
		return w.lease(text)
	}
	o := fields{}
	numbers := json.NewDecoder(bytes.NewReader(text))
	numbers.UseNumber() // a float has fewer digits
	if err := numbers.Decode(&o); err != nil {
		return nil, err
	}
	o["apiVersion"], o["kind"] = k.resource.GroupVersion().String(), k.kind
	if err := k.write(w, o); err != nil {
		return nil, err
	}
	metadata := in(o, "metadata")
	w.set(metadata, "namespace", "namespace")
	for _, field := range []string{"annotations", "labels"} {
		if left, isObject := metadata[field].(fields); isObject && len(left) == 0 {
			delete(metadata, field)
		}
	}
	return o, nil
}

// in returns the object in a field; changes of a missing one are lost.
func in(o fields, name string) fields {
	inner, _ := o[name].(fields)
	if inner == nil {
		return fields{}
	}
	return inner
}

// each returns the objects of a list in a field.
func each(o fields, name string) (all []fields) {
	list, _ := o[name].([]any)
	for _, item := range list {
		if o, isObject := item.(fields); isObject {
			all = append(all, o)
		}
	}
	return all
}

// keepOnly deletes all other fields.
func keepOnly(o fields, names ...string) {
	for name := range o {
		if !slices.Contains(names, name) {
			delete(o, name)
		}
	}
}

// set gives the name of a kind in a field its other name.
func (w *writer) set(o fields, field, kind string) {
	if text, isText := o[field].(string); isText {
		o[field] = w.name(kind, text)
	}
}

// setNetwork renames the namespace of a network, as "<namespace>/<definition>".
func (w *writer) setNetwork(o fields, field string) {
	text, _ := o[field].(string)
	if namespace, name, ok := (podstate.Interface{Network: text}).NAD(); ok {
		o[field] = w.name("namespace", namespace) + "/" + name
	}
}

func (w *writer) pod(o fields) error {
	metadata, status := in(o, "metadata"), in(o, "status")
	namespace, _ := metadata["namespace"].(string)
	annotations, reduced := map[string]string{}, fields{}
	for name, value := range in(metadata, "annotations") {
		annotations[name], _ = value.(string)
	}
	for name, value := range podstate.ReducedAnnotations(annotations, namespace, func(namespace string) string {
		return w.name("namespace", namespace)
	}) {
		reduced[name] = value
	}
	metadata["annotations"] = reduced
	keepManagers(metadata, podstate.ManagedFields)
	keepOnly(in(metadata, "labels"), podstate.MachineLabels...)
	w.set(metadata, "name", "pod")
	w.set(in(o, "spec"), "nodeName", "node")
	for _, owner := range each(metadata, "ownerReferences") {
		w.set(owner, "name", "workload")
	}
	for _, container := range slices.Concat(each(in(o, "spec"), "containers"), each(in(o, "spec"), "initContainers"),
		each(in(o, "spec"), "ephemeralContainers"), each(status, "containerStatuses"),
		each(status, "initContainerStatuses"), each(status, "ephemeralContainerStatuses")) {
		w.set(container, "name", "container")
	}
	return nil
}

// keepManagers keeps of managedFields when and by which subresource the named fields were written: the others name
// containers, variables and volumes.
func keepManagers(metadata fields, names []string) {
	for _, entry := range each(metadata, "managedFields") {
		text, err := json.Marshal(entry["fieldsV1"])
		kept := fields{}
		for _, name := range names {
			if err == nil && bytes.Contains(text, []byte(`"`+name+`"`)) {
				kept[name] = fields{}
			}
		}
		keepOnly(entry, "time", "subresource")
		entry["fieldsV1"] = kept
	}
}

func (w *writer) node(o fields) error {
	metadata, status := in(o, "metadata"), in(o, "status")
	labels := in(metadata, "labels")
	keepOnly(labels, w.Labels...)
	for key, value := range labels {
		if w.Rename != nil && value == metadata["name"] {
			delete(labels, key)
		}
	}
	w.set(metadata, "name", "node")
	keepOnly(in(status, "nodeInfo"), "bootID", "systemUUID", "machineID", "kubeletVersion")
	keepItems(in(o, "spec"), "taints", "key", corev1.TaintNodeOutOfService)
	keepItems(status, "conditions", "type", string(corev1.NodeReady))
	keepItems(status, "addresses", "type", string(corev1.NodeInternalIP), string(corev1.NodeExternalIP))
	return nil
}

// keepItems deletes the items of a list whose field has another value.
func keepItems(o fields, list, field string, values ...string) {
	items, isList := o[list].([]any)
	if !isList {
		return
	}
	o[list] = slices.DeleteFunc(items, func(item any) bool {
		all, _ := item.(fields)
		text, _ := all[field].(string)
		return !slices.Contains(values, text)
	})
}

func (w *writer) definition(o fields) error {
	spec := in(o, "spec")
	keepOnly(spec, "config")
	switch config := spec["config"].(type) {
	case nil:
	case string:
		spec["config"] = ippool.ReducedConfig(config)
	default:
		spec["config"] = false // no text either
	}
	return nil
}

func (w *writer) claim(o fields) error {
	w.set(in(o, "metadata"), "name", "claim")
	if ips, isList := in(o, "status")["ips"].([]any); isList {
		in(o, "status")["ips"] = slices.DeleteFunc(ips, func(ip any) bool {
			text, _ := ip.(string)
			text, _, _ = strings.Cut(text, "/")
			_, err := netip.ParseAddr(text)
			return err != nil
		})
	}
	return nil
}

func (w *writer) guest(o fields) error {
	w.set(in(o, "metadata"), "name", "workload")
	for _, network := range each(in(o, "spec"), "networks") {
		w.setNetwork(in(network, "multus"), "networkName")
	}
	return nil
}

func (w *writer) reservation(o fields) error {
	if spec, has := o["spec"]; has {
		o["spec"] = ippool.ReducedReservationSpec(spec, w.names())
	}
	return nil
}

func (w *writer) pool(o fields) error {
	text, err := json.Marshal(o)
	if err != nil {
		return err
	}
	p, err := ippool.Decode[ippool.Pool](text)
	if err != nil {
		return err
	}
	metadata := in(o, "metadata")
	metadata["name"] = p.RenamedNode(w.nodes, func(node string) string { return w.name("node", node) })
	if delete(metadata, "finalizers"); p.HasFinalizers { // their names may be any text
		metadata["finalizers"] = []string{"ip-reconcile.dev/some-finalizer"}
	}
	annotations := in(metadata, "annotations") // their values may be any text
	for name, isSet := range map[string]bool{
		ippool.PausedAnnotation: p.Paused, ippool.NoUsageAlertsAnnotation: p.NoUsageAlerts} {
		if _, has := annotations[name]; has {
			annotations[name] = strconv.FormatBool(isSet)
		}
	}
	if spec, has := o["spec"]; has {
		o["spec"] = ippool.ReducedPoolSpec(spec, w.names())
	}
	return nil
}

// names are the other names of the pods and IPAMClaims of allocations and reservations.
func (w *writer) names() (names ippool.Names) {
	if w.Rename == nil {
		return names
	}
	return ippool.Names{
		PodRef: func(text string) string {
			owner, _ := ippool.ParsePodRef(text)
			switch {
			case text == "":
				return text
			case owner.Name == "":
				return w.name("podref", text)
			}
			owner.Namespace, owner.Name = w.name("namespace", owner.Namespace), w.name("pod", owner.Name)
			return owner.String()
		},
		Claim: func(name types.NamespacedName) types.NamespacedName {
			return types.NamespacedName{Namespace: w.name("namespace", name.Namespace), Name: w.name("claim", name.Name)}
		},
	}
}
