package snapshot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// record is an object of an observation, as it is judged. The last record of a bundle has what is no object, and the
// number of all records.
type record struct {
	metav1.TypeMeta
	Pool        *ippool.Pool        `json:"pool,omitempty"`
	Reservation *ippool.Reservation `json:"reservation,omitempty"`
	NAD         *ippool.NAD         `json:"nad,omitempty"`
	Pod         *podstate.Pod       `json:"pod,omitempty"`
	Node        *podstate.Node      `json:"node,omitempty"`
	Report      *podstate.Report    `json:"report,omitempty"`
	Claim       *ippool.Claim       `json:"claim,omitempty"`
	Guest       *podstate.Guest     `json:"guest,omitempty"`
	Rest        *judge.Observation  `json:"rest,omitempty"`
	Count       int                 `json:"count,omitempty"`
	ClusterUID  string              `json:"clusterUID,omitempty"`
}

// recordKind is the kind of a record.
const recordKind = "SysdumpRecord"

// Encoder makes records of an observation: what judging reads, and nothing else of the cluster.
type Encoder struct {
	Labels []string                       // the keys of the labels of Nodes that are kept
	Rename func(kind, name string) string // returns another name of a pod, namespace, node, workload or claim

	ClusterUID string // of the namespace kube-system, for a plan of what the records say; "" for none
}

// Encode calls add with each record of an observation.
func (e *Encoder) Encode(o *judge.Observation, add func(record any)) {
	count, nodes := 0, map[string]bool{}
	put := func(r record) {
		r.TypeMeta = metav1.TypeMeta{APIVersion: "output.ip-reconcile.dev/v1", Kind: recordKind}
		count++
		add(&r)
	}
	for _, n := range o.Nodes.Or(nil) {
		nodes[n.Name] = true
		put(record{Node: e.node(*n)})
	}
	for _, r := range o.Reports.Or(nil) {
		nodes[r.Name] = true
		put(record{Report: e.report(*r)})
	}
	for _, n := range o.NADs.Or(nil) {
		renamed := *n
		renamed.Namespace = e.name("namespace", n.Namespace)
		put(record{NAD: &renamed})
	}
	for _, c := range o.IPAMClaims.Or(nil) {
		if c != nil {
			put(record{Claim: &ippool.Claim{NamespacedName: *e.named("claim", &c.NamespacedName), IPs: c.IPs}})
		}
	}
	for _, g := range o.Guests.Or(nil) {
		renamed := *g
		renamed.NamespacedName, renamed.Interfaces = *e.named("workload", &g.NamespacedName), e.interfaces(g.Interfaces)
		put(record{Guest: &renamed})
	}
	for _, p := range o.Pods {
		nodes[p.Node] = p.Node != ""
		put(record{Pod: e.pod(*p)})
	}
	for _, r := range o.Reservations.Or(nil) {
		renamed := *r
		renamed.Namespace = e.name("namespace", r.Namespace)
		renamed.PodRef, renamed.Detail = e.owner(r.PodRef, r.Owner, r.Detail)
		renamed.Claim = e.named("claim", r.Claim)
		put(record{Reservation: &renamed})
	}
	for _, p := range o.Pools {
		put(record{Pool: e.pool(*p, nodes)})
	}
	rest := *o
	rest.Local = time.Time{}
	if e.Rename != nil { // the sentences have names
		rest.Unreadable = slices.Repeat([]string{"an object could not be read"}, len(o.Unreadable))
	}
	put(record{Rest: &rest, Count: count + 1, ClusterUID: e.ClusterUID})
}

func (e *Encoder) name(kind, name string) string {
	if e.Rename == nil || name == "" {
		return name
	}
	return e.Rename(kind, name)
}

func (e *Encoder) named(kind string, o *types.NamespacedName) *types.NamespacedName {
	if o == nil {
		return nil
	}
	return &types.NamespacedName{Namespace: e.name("namespace", o.Namespace), Name: e.name(kind, o.Name)}
}

func (e *Encoder) interfaces(all []podstate.Interface) []podstate.Interface {
	all = slices.Clone(all)
	for i := range all {
		if namespace, name, ok := all[i].NAD(); ok {
			all[i].Network = e.name("namespace", namespace) + "/" + name
		}
	}
	return all
}

func (e *Encoder) networks(all []types.NamespacedName) []types.NamespacedName {
	all = slices.Clone(all)
	for i := range all {
		all[i].Namespace = e.name("namespace", all[i].Namespace)
	}
	return all
}

func (e *Encoder) pod(p podstate.Pod) *podstate.Pod {
	p.NamespacedName, p.Node = *e.named("pod", &p.NamespacedName), e.name("node", p.Node)
	if kind, name, ok := strings.Cut(p.Workload, "/"); ok {
		p.Workload = kind + "/" + e.name("workload", name)
	}
	p.Interfaces = e.interfaces(p.Interfaces)
	p.RequestedNetworks, p.Unattached = e.networks(p.RequestedNetworks), e.networks(p.Unattached)
	return &p
}

func (e *Encoder) node(n podstate.Node) *podstate.Node {
	labels := maps.Clone(n.Labels)
	maps.DeleteFunc(labels, func(key, value string) bool {
		return !slices.Contains(e.Labels, key) || e.Rename != nil && value == n.Name
	})
	n.Name, n.Labels = e.name("node", n.Name), labels
	return &n
}

func (e *Encoder) report(r podstate.Report) *podstate.Report {
	r.SandboxReport = r.DeepCopy()
	r.ObjectMeta = metav1.ObjectMeta{Name: e.name("node", r.Name), UID: r.UID, ResourceVersion: r.ResourceVersion,
		CreationTimestamp: r.CreationTimestamp}
	for i := range r.Sandboxes {
		s := &r.Sandboxes[i]
		s.Namespace, s.Name, s.NetNS = e.name("namespace", s.Namespace), e.name("pod", s.Name), ""
	}
	for i := range r.Attachments {
		a := &r.Attachments[i]
		a.Namespace, a.Name, a.NetNS = e.name("namespace", a.Namespace), e.name("pod", a.Name), ""
	}
	return &r
}

func (e *Encoder) pool(p ippool.Pool, nodes map[string]bool) *ippool.Pool {
	p.Name = p.RenamedNode(nodes, func(node string) string { return e.name("node", node) })
	p.Namespace, p.Allocations = e.name("namespace", p.Namespace), slices.Clone(p.Allocations)
	for i := range p.Allocations {
		a := &p.Allocations[i]
		a.PodRef, a.Detail = e.owner(a.PodRef, a.Owner, a.Detail)
		a.Claim = e.named("claim", a.Claim)
	}
	return &p
}

// owner renames the pod of an allocation or a reservation. A podref that cannot be parsed is in the detail, too.
func (e *Encoder) owner(text string, owner ippool.PodRef, detail string) (podRef, renamedDetail string) {
	if text == "" {
		return text, detail
	}
	podRef = e.name("podref", text)
	if owner.Name != "" {
		owner.Namespace, owner.Name = e.name("namespace", owner.Namespace), e.name("pod", owner.Name)
		podRef = owner.String()
	}
	return podRef, strings.ReplaceAll(detail, text, podRef)
}

// addRecord adds a record to what was observed. A field that this version does not know is an error.
func (s *Snapshot) addRecord(o *object) error {
	r := record{Rest: &s.observed} // its fields are set where the record has them
	text := json.NewDecoder(bytes.NewReader(o.text))
	text.DisallowUnknownFields()
	if err := text.Decode(&r); err != nil {
		return err
	}
	all, p, d := &s.observed, r.Pod, r.NAD
	if p != nil && (min(int(p.Phase), int(p.Status)) < 0 ||
		p.Phase > podstate.Finished || p.Status > podstate.StatusReadable) ||
		d != nil && slices.ContainsFunc(d.Networks, func(n ippool.Network) bool { return len(n.Bounds) != len(n.Ranges) }) ||
		r.Report != nil && r.Report.SandboxReport == nil {
		return errors.New("sysdump writes no such record")
	}
	switch {
	case p != nil:
		all.Pods[p.NamespacedName] = p
	case d != nil:
		s.nads[d.NamespacedName] = d
	case r.Node != nil:
		s.nodes[r.Node.Name] = r.Node
	case r.Claim != nil:
		s.claims[r.Claim.NamespacedName] = r.Claim
	case r.Guest != nil:
		s.guests = append(s.guests, r.Guest)
	case r.Report != nil:
		s.unreadReports = append(s.unreadReports, r.Report)
	case r.Pool != nil:
		r.Pool.Complete()
		all.Pools = append(all.Pools, r.Pool)
	case r.Reservation != nil:
		r.Reservation.Owner, _ = ippool.ParsePodRef(r.Reservation.PodRef)
		s.inBundle = append(s.inBundle, r.Reservation)
	}
	s.isBundle, s.bundled, s.ClusterUID = true, cmp.Or(r.Count, s.bundled), cmp.Or(r.ClusterUID, s.ClusterUID)
	return nil
}

// completeBundle checks that a bundle has all of its records and nothing else: a missing pod would count as gone.
func (s *Snapshot) completeBundle(now time.Time) error {
	if s.known != s.bundled {
		return fmt.Errorf("the bundle has %d objects instead of %d: judge it as sysdump wrote it", s.known, s.bundled)
	}
	o := &s.observed // which says of each source whether it was known
	o.NADs, o.Nodes, o.IPAMClaims = o.NADs.With(s.nads), o.Nodes.With(s.nodes), o.IPAMClaims.With(s.claims)
	o.Guests, o.Reports = o.Guests.With(s.guests), o.Reports.With(s.unreadReports)
	o.Reservations = o.Reservations.With(s.inBundle)
	if s.observed.Static = true; !now.IsZero() {
		s.observed.Now = now
	}
	return nil
}
