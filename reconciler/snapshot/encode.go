package snapshot

import (
	"encoding/json"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Encoder makes objects of an observation: the fields that judging reads, and nothing else of the cluster. With the
// Facts of the observation they are read as the same observation.
type Encoder struct {
	Labels []string // the keys of the labels of Nodes that are kept
	// Rename gives a pod, namespace, node or workload another name; nil keeps all names.
	Rename func(kind, name string) string
}

// fields are the fields of an object, as in its JSON.
type fields = map[string]any

// Encode calls add with each object, and returns the facts.
func (e *Encoder) Encode(o *judge.Observation, add func(object any) error) (facts *Facts, err error) {
	facts = e.facts(o)
	try := func(object any) {
		if facts.Objects++; err == nil {
			err = add(object)
		}
	}
	nodes := map[string]bool{}
	for _, n := range o.Nodes {
		nodes[n.Name] = true
		try(e.node(n))
	}
	for _, r := range o.Reports {
		nodes[r.Name] = true
		try(e.report(r))
	}
	for _, n := range o.NADs {
		try(e.definition(n))
	}
	for _, c := range o.IPAMClaims {
		if c != nil {
			try(e.claim(c))
		}
	}
	for _, g := range o.Guests {
		try(e.guest(g))
	}
	for _, r := range o.Reservations {
		try(e.reservation(r))
	}
	for _, p := range o.Pods {
		nodes[p.Node] = p.Node != ""
		try(e.pod(p))
	}
	for _, p := range o.Pools {
		try(e.pool(p, nodes))
	}
	return facts, err
}

func (e *Encoder) name(kind, name string) string {
	if e.Rename == nil || name == "" {
		return name
	}
	return e.Rename(kind, name)
}

func (e *Encoder) podRef(text string) string {
	owner, err := ippool.ParsePodRef(text)
	if err != nil { // and still cannot be parsed
		return e.name("podref", text)
	}
	return ippool.PodRef{Namespace: e.name("namespace", owner.Namespace), Name: e.name("pod", owner.Name),
		UID: owner.UID}.String()
}

func (e *Encoder) object(apiVersion, kind, namespace, name, uid, version string, created time.Time, spec any) fields {
	metadata := fields{"name": name, "uid": uid, "resourceVersion": version, "creationTimestamp": stamp(created)}
	if namespace != "" {
		metadata["namespace"] = e.name("namespace", namespace)
	}
	return fields{"apiVersion": apiVersion, "kind": kind, "metadata": metadata, "spec": spec}
}

// stamp is a time in an object; nil for none.
func stamp(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UTC().Format(time.RFC3339)
}

func text(value any) string {
	found, _ := json.Marshal(value) // texts, numbers and addresses always have a JSON
	return string(found)
}

func (e *Encoder) pod(p *podstate.Pod) any {
	containers, statuses := []fields{{"name": "first"}}, []fields{}
	if p.StoppedByKubelet || !p.LastFinishedAt.IsZero() {
		ended := fields{"terminated": fields{"finishedAt": stamp(p.LastFinishedAt)}}
		statuses = append(statuses, fields{"name": "first", "state": ended})
	}
	if !p.StoppedByKubelet {
		containers = append(containers, fields{"name": "second"}) // has no status
	}
	ips := []fields{}
	for _, ip := range p.IPs {
		ips = append(ips, fields{"ip": ip})
	}
	o := e.object("v1", "Pod", p.Namespace, e.name("pod", p.Name), p.UID, p.ResourceVersion, p.CreatedAt,
		fields{"nodeName": e.name("node", p.Node), "containers": containers})
	phases := map[podstate.Phase]corev1.PodPhase{podstate.Pending: corev1.PodPending, podstate.Finished: corev1.PodFailed}
	o["status"] = fields{"phase": "Running", "containerStatuses": statuses, "podIPs": ips}
	if phase, ok := phases[p.Phase]; ok {
		o["status"].(fields)["phase"] = phase
	}
	metadata := o["metadata"].(fields)
	metadata["deletionTimestamp"] = stamp(p.DeletionTime)
	metadata["deletionGracePeriodSeconds"] = p.GracePeriod / time.Second
	if kind, name, ok := strings.Cut(p.Workload, "/"); ok {
		owner := fields{"kind": kind, "name": e.name("workload", name), "controller": true}
		if m := p.Machine; m != nil {
			owner["apiVersion"], owner["uid"] = podstate.GuestResource.GroupVersion().String(), m.UID
			metadata["labels"] = m.Labels()
		}
		metadata["ownerReferences"] = []fields{owner}
	}
	metadata["annotations"] = e.networks(p)
	return o
}

// networks are the annotations of a pod.
func (e *Encoder) networks(p *podstate.Pod) map[string]string {
	annotations := map[string]string{corev1.MirrorPodAnnotationKey: p.RuntimeUID}
	var entries []any
	for _, i := range p.Interfaces {
		name := i.Network
		if namespace, definition, ok := i.NAD(); ok {
			name = e.name("namespace", namespace) + "/" + definition
		}
		entries = append(entries, fields{"name": name, "interface": i.Name, "default": i.Default, "ips": i.Addresses})
	}
	if p.Status == podstate.StatusUnreadable {
		entries = append(entries, nil)
	}
	if len(entries) > 0 {
		annotations[podstate.StatusAnnotation] = text(entries)
	}
	requested := slices.Repeat([]fields{{}}, p.RequestedCount-len(p.Unattached)) // their names are not read
	for _, n := range slices.Concat(p.RequestedNetworks, p.Unattached) {
		requested = append(requested, fields{"namespace": e.name("namespace", n.Namespace), "name": n.Name})
	}
	if len(requested) > 0 {
		annotations[podstate.SelectionAnnotation] = text(requested)
	}
	return annotations
}

func (e *Encoder) node(n *podstate.Node) any {
	name, labels, taints := e.name("node", n.Name), fields{}, []fields{}
	for _, key := range e.Labels {
		if value, has := n.Labels[key]; has && value == n.Name {
			labels[key] = name
		} else if has {
			labels[key] = value
		}
	}
	for taint := range strings.SplitSeq(n.OutOfServiceTaint, ";") {
		if _, rest, has := strings.Cut(taint, "="); has {
			value, effect, _ := strings.Cut(rest, ":")
			taints = append(taints, fields{"key": corev1.TaintNodeOutOfService, "value": value, "effect": effect})
		}
	}
	o := e.object("v1", "Node", "", name, n.UID, n.ResourceVersion, n.CreatedAt, fields{"taints": taints})
	o["metadata"].(fields)["labels"] = labels
	ready := map[bool]string{true: "True", false: "False"}[n.Ready]
	o["status"] = fields{
		"conditions": []fields{{"type": "Ready", "status": ready, "lastTransitionTime": stamp(n.NotReadySince)}},
		"nodeInfo": fields{"bootID": n.BootID, "systemUUID": n.Machine.SystemUUID, "machineID": n.Machine.MachineID,
			"kubeletVersion": n.KubeletVersion},
	}
	return o
}

// report is a SandboxReport with what is known of its Lease, as the fields of podstate.Report.
func (e *Encoder) report(r *podstate.Report) any {
	o := *r
	o.SandboxReport = r.DeepCopy()
	o.TypeMeta = metav1.TypeMeta{APIVersion: v1alpha1.Resource().GroupVersion().String(), Kind: "SandboxReport"}
	o.ObjectMeta = metav1.ObjectMeta{Name: e.name("node", r.Name), UID: r.UID, ResourceVersion: r.ResourceVersion,
		CreationTimestamp: r.CreationTimestamp}
	for i := range o.Sandboxes {
		s := &o.Sandboxes[i]
		s.Namespace, s.Name, s.NetNS = e.name("namespace", s.Namespace), e.name("pod", s.Name), ""
	}
	for i := range o.Attachments {
		a := &o.Attachments[i]
		a.Namespace, a.Name, a.NetNS = e.name("namespace", a.Namespace), e.name("pod", a.Name), ""
	}
	return &o
}

func (e *Encoder) pool(p *ippool.Pool, nodes map[string]bool) any {
	allocations := fields{}
	for i := range p.Allocations {
		a := &p.Allocations[i]
		entry := fields{"podref": e.podRef(a.PodRef)}
		if stored := a.Entry(); stored.ID != nil {
			entry["id"] = a.ContainerID
		}
		if a.Entry().IfName != nil {
			entry["ifname"] = a.IfName
		}
		if a.Claim != nil {
			entry[ippool.ClaimField] = e.claimRef(a.Claim)
		}
		allocations[a.Key] = withProblem(entry, a.Detail)
	}
	name := p.RenamedNode(nodes, func(node string) string { return e.name("node", node) })
	o := e.object("whereabouts.cni.cncf.io/v1alpha1", "IPPool", p.Namespace, name, p.UID, p.ResourceVersion, time.Time{},
		fields{"range": p.RangeText, "allocations": withProblem(allocations, p.Problem)})
	o["metadata"].(fields)["annotations"] = map[string]string{ippool.PausedAnnotation: strconv.FormatBool(p.Paused),
		ippool.NoUsageAlertsAnnotation: strconv.FormatBool(p.NoUsageAlerts)}
	return o
}

// withProblem is an entry or a spec that has the problem with this detail again: see ippool's readFields.
func withProblem(f fields, detail string) any {
	for _, problem := range []string{"is not an object", "spec is missing", "spec.allocations is not a map"} {
		if strings.HasSuffix(detail, problem) {
			return 0
		}
	}
	if strings.Contains(detail, ippool.ClaimField+" is not <namespace>/<name>") {
		f[ippool.ClaimField] = ""
	}
	for _, problem := range []string{"not a string: ", "unknown field: "} {
		if names, found := strings.CutPrefix(detail, problem); found {
			for name := range strings.SplitSeq(names, ", ") {
				f[name] = 0
			}
		}
	}
	return f
}

func (e *Encoder) reservation(r *ippool.Reservation) any {
	spec := r.AsNew().Object["spec"].(fields)
	spec["podref"] = e.podRef(r.PodRef)
	if r.Claim != nil {
		spec[ippool.ClaimField] = e.claimRef(r.Claim)
	}
	o := e.object("whereabouts.cni.cncf.io/v1alpha1", "OverlappingRangeIPReservation", r.Namespace, r.Name, r.UID,
		r.ResourceVersion, r.Created, withProblem(spec, r.Detail))
	if r.Deleting {
		o["metadata"].(fields)["deletionTimestamp"] = stamp(r.Created)
	}
	return o
}

func (e *Encoder) claimRef(c *types.NamespacedName) string {
	return e.name("namespace", c.Namespace) + "/" + e.name("claim", c.Name)
}

func (e *Encoder) claim(c *ippool.Claim) any {
	o := e.object(ippool.ClaimResource.GroupVersion().String(), "IPAMClaim", c.Namespace, e.name("claim", c.Name), "", "",
		time.Time{}, nil)
	o["status"] = fields{"ips": c.IPs}
	return o
}

// guest is a VirtualMachineInstance.
func (e *Encoder) guest(g *podstate.Guest) any {
	networks, interfaces := []fields{}, []fields{}
	for _, i := range g.Interfaces {
		namespace, definition, _ := strings.Cut(i.Network, "/")
		network := e.name("namespace", namespace) + "/" + definition
		networks = append(networks, fields{"name": i.Name, "multus": fields{"networkName": network}})
		interfaces = append(interfaces, fields{"name": i.Name, "ipAddresses": i.Addresses})
	}
	o := e.object(podstate.GuestResource.GroupVersion().String(), "VirtualMachineInstance", g.Namespace,
		e.name("workload", g.Name), "", "", time.Time{}, fields{"networks": networks})
	o["status"] = fields{"interfaces": interfaces}
	return o
}

// definition is a NetworkAttachmentDefinition with the ipam sections of its configuration.
func (e *Encoder) definition(n *ippool.NAD) any {
	config := ""
	if n.Problem == "" {
		plugins := []fields{}
		for _, network := range n.Networks {
			plugins = append(plugins, fields{"ipam": ipam(&network)})
		}
		config = text(fields{"plugins": plugins})
	}
	return e.object("k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition", n.Namespace, n.Name, "", n.ResourceVersion,
		time.Time{}, fields{"config": config})
}

func ipam(n *ippool.Network) fields {
	section := fields{"type": "whereabouts", "network_name": n.Name, "enable_overlapping_ranges": n.Overlapping}
	if n.Slices {
		section["node_slice_size"] = strconv.Itoa(n.SliceBits)
	}
	ranges := []fields{}
	for i, r := range n.Ranges {
		of := fields{"range": r, "exclude": n.Bounds[i].Exclude}
		for name, bound := range map[string]netip.Addr{"range_start": n.Bounds[i].Start, "range_end": n.Bounds[i].End} {
			if bound.IsValid() {
				of[name] = bound
			}
		}
		if n.Refused != "" { // as an exclude that cannot be read
			of["exclude"] = []string{n.Refused}
		}
		ranges = append(ranges, of)
	}
	section["ipRanges"] = ranges
	return section
}
