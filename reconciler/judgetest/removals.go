package judgetest

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Removal takes one piece of evidence away from an observation: a source, an object, or a field of one.
type Removal struct {
	// What names the thing that is taken away: "forbidden" or "all" for a source, "object", or a field.
	What string
	// Source has the object, and Object is its name; "" for the whole source. Pods are a source here, too.
	Source facts.SourceName
	Object string
	// Detail says which of several fields of one name it is, "" where there is one.
	Detail string

	from func(*Observed)
}

func (r *Removal) String() string {
	return strings.TrimSpace(fmt.Sprintf("%s of %s %s %s", r.What, r.Source, r.Object, r.Detail))
}

// From is the observation without the evidence. The observation itself stays as it is.
func (r *Removal) From(o *Observed) *Observed {
	without := o.Copy()
	r.from(without)
	return without
}

// SourcePods names pods in a Removal. They have no SourceName, because an Observation always has them.
const SourcePods facts.SourceName = "pods"

// Removals are all removals from an observation, in a stable order.
func Removals(o *Observed) (all []Removal) {
	for _, of := range []func(*Observed) []Removal{removedSources, removedNodes, removedDefinitions, removedReports,
		removedPods, removedGuests} {
		all = append(all, of(o)...)
	}
	return all
}

// removedSources makes each source unknown, as RBAC does. A list of nodes that is empty is not complete.
func removedSources(*Observed) (all []Removal) {
	of := func(name facts.SourceName, what string, from func(o *Observed, why error)) {
		all = append(all, Removal{What: what, Source: name, from: func(o *Observed) {
			from(o, fmt.Errorf("cannot list %s: forbidden", name))
		}})
	}
	of(facts.SourceNodes, "forbidden", func(o *Observed, why error) {
		o.Nodes = facts.Unknown[map[string]*podstate.Node](why)
	})
	of(facts.SourceNodes, "all", func(o *Observed, _ error) { o.Nodes = o.Nodes.With(nil) })
	of(facts.SourceDefinitions, "forbidden", func(o *Observed, why error) {
		o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](why)
	})
	of(facts.SourceReports, "forbidden", func(o *Observed, why error) {
		o.Reports = facts.Unknown[[]*podstate.Report](why)
	})
	of(facts.SourceLeases, "forbidden", func(o *Observed, why error) {
		o.AgentLeases = facts.Unknown[bool](why)
		var reports []*podstate.Report
		for _, r := range o.Reports.Or(nil) {
			reports = append(reports, r.WithLease(nil))
		}
		o.Reports = o.Reports.With(reports)
	})
	of(facts.SourceReservations, "forbidden", func(o *Observed, why error) {
		o.Reservations = facts.Unknown[[]*ippool.Reservation](why)
	})
	of(facts.SourceClaims, "forbidden", func(o *Observed, why error) {
		o.IPAMClaims = facts.Unknown[map[types.NamespacedName]*ippool.Claim](why)
	})
	of(facts.SourceGuests, "forbidden", func(o *Observed, why error) {
		o.Guests = facts.Unknown[[]*podstate.Guest](why)
	})
	return all
}

// edited returns a copy of an object in which a field is missing.
func edited[T any](object *T, edit func(*T)) *T {
	c := *object
	edit(&c)
	return &c
}

// without returns a copy of the objects in which one is edited, or missing if edit is nil.
func without[K comparable, T any](objects map[K]*T, key K, edit func(*T)) map[K]*T {
	objects = maps.Clone(objects)
	if edit == nil {
		delete(objects, key)
	} else {
		objects[key] = edited(objects[key], edit)
	}
	return objects
}

func removedNodes(o *Observed) (all []Removal) {
	for _, name := range slices.Sorted(maps.Keys(o.Nodes.Or(nil))) {
		of := func(what string, edit func(*podstate.Node)) {
			all = append(all, Removal{What: what, Source: facts.SourceNodes, Object: name, from: func(o *Observed) {
				o.Nodes = o.Nodes.With(without(o.Nodes.Or(nil), name, edit))
			}})
		}
		of("object", nil)
		of("labels", func(n *podstate.Node) { n.Labels = nil })
		of("systemUUID", func(n *podstate.Node) { n.Machine.SystemUUID = "" })
		of("machineID", func(n *podstate.Node) { n.Machine.MachineID = "" })
		of("machine", func(n *podstate.Node) { n.Machine = v1alpha1.Machine{} })
		of("bootID", func(n *podstate.Node) { n.BootID = "" })
		of("condition Ready", func(n *podstate.Node) {
			n.Ready, n.HasReadyCondition, n.NotReadySince = false, false, time.Time{}
		})
	}
	return all
}

func removedDefinitions(o *Observed) (all []Removal) {
	names := slices.SortedFunc(maps.Keys(o.NADs.Or(nil)), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	})
	for _, name := range names {
		of := func(what string, edit func(*ippool.NAD)) {
			all = append(all, Removal{What: what, Source: facts.SourceDefinitions, Object: name.String(),
				from: func(o *Observed) { o.NADs = o.NADs.With(without(o.NADs.Or(nil), name, edit)) }})
		}
		of("object", nil)
		of("configuration", func(n *ippool.NAD) { n.Networks, n.Problem = nil, "its configuration is no JSON" })
	}
	return all
}

// removedReports removes what a report may lack. A report whose content somebody changed no longer has the hash of its
// Lease. An agent itself may not know a machine, a boot, a network namespace or addresses.
func removedReports(o *Observed) (all []Removal) {
	for i, r := range o.Reports.Or(nil) {
		of := func(what, detail string, edit func(*podstate.Report)) {
			all = append(all, Removal{What: what, Source: facts.SourceReports, Object: r.Name, Detail: detail,
				from: func(o *Observed) {
					reports := slices.Clone(o.Reports.Or(nil))
					reports[i] = edited(reports[i], func(r *podstate.Report) {
						r.SandboxReport = r.SandboxReport.DeepCopy()
						edit(r)
					})
					o.Reports = o.Reports.With(reports)
				}})
		}
		all = append(all, Removal{What: "object", Source: facts.SourceReports, Object: r.Name, from: func(o *Observed) {
			o.Reports = o.Reports.With(slices.Delete(slices.Clone(o.Reports.Or(nil)), i, i+1))
		}})
		all = append(all, Removal{What: "content", Source: facts.SourceReports, Object: r.Name, from: func(o *Observed) {
			reports := slices.Clone(o.Reports.Or(nil))
			reports[i] = podstate.UnreadReport(r.Name, r.UID, r.ResourceVersion)
			o.Reports = o.Reports.With(reports)
			o.Unreadable = append(slices.Clone(o.Unreadable), "SandboxReport "+r.Name+": its content is no JSON")
		}})
		of("confirmation", "", func(r *podstate.Report) { r.ConfirmedAt = time.Time{} })
		of("Lease", "", func(r *podstate.Report) { *r = *r.WithLease(nil) })
		of("machine", "", func(r *podstate.Report) { r.Machine = v1alpha1.Machine{} })
		of("systemUUID", "", func(r *podstate.Report) { r.Machine.SystemUUID = "" })
		of("machineID", "", func(r *podstate.Report) { r.Machine.MachineID = "" })
		of("bootID", "", func(r *podstate.Report) { r.BootID = "" })
		for k, s := range r.Sandboxes {
			of("sandbox", s.ID, func(r *podstate.Report) {
				r.Sandboxes, r.ConfirmedAt = slices.Delete(r.Sandboxes, k, k+1), time.Time{}
			})
			of("addresses", s.ID, func(r *podstate.Report) {
				r.Sandboxes[k].Addresses, r.Sandboxes[k].AddressesUnread = nil, true
			})
			of("networkClosed", s.ID, func(r *podstate.Report) { r.Sandboxes[k].NetworkClosed = nil })
		}
		for k, a := range r.Attachments {
			of("attachment", a.ID, func(r *podstate.Report) {
				r.Attachments, r.ConfirmedAt = slices.Delete(r.Attachments, k, k+1), time.Time{}
			})
			of("networkClosed", "of attachment "+a.ID, func(r *podstate.Report) { r.Attachments[k].NetworkClosed = nil })
		}
	}
	return all
}

// removedPods removes fields of pods, as an export or a user may. A pod without its network-status still requests the
// networks that it had.
func removedPods(o *Observed) (all []Removal) {
	for _, name := range slices.SortedFunc(maps.Keys(o.Pods), func(a, b types.NamespacedName) int {
		return strings.Compare(a.String(), b.String())
	}) {
		p := o.Pods[name]
		of := func(what string, edit func(*podstate.Pod)) {
			all = append(all, Removal{What: what, Source: SourcePods, Object: name.String(), from: func(o *Observed) {
				o.Pods = without(o.Pods, name, edit)
				if text := o.Pods[name].Contradiction; text != "" && text != p.Contradiction {
					o.Unreadable = append(slices.Clone(o.Unreadable), text)
				}
			}})
		}
		status := func(status podstate.NetworkStatus) func(*podstate.Pod) {
			return func(p *podstate.Pod) {
				var requested []types.NamespacedName
				for _, network := range p.Networks() {
					namespace, name, _ := strings.Cut(network, "/")
					requested = append(requested, types.NamespacedName{Namespace: namespace, Name: name})
				}
				p.Status, p.Interfaces, p.RequestedNetworks, p.Unattached, p.RequestedCount = status, nil, requested, nil, 0
			}
		}
		if p.Phase != podstate.Finished {
			of("network-status", status(podstate.StatusMissing))
			of("readable network-status", status(podstate.StatusUnreadable))
		}
		of("uid", func(p *podstate.Pod) {
			p.UID, p.RuntimeUID, p.Contradiction = "", "", p.String()+": metadata.uid is missing"
		})
		if p.Node != "" {
			of("nodeName", func(p *podstate.Pod) { p.Node, p.Contradiction = "", p.String()+": spec.nodeName is missing" })
		}
		of("readable object", func(p *podstate.Pod) {
			*p = podstate.Pod{NamespacedName: p.NamespacedName, UID: p.UID, Phase: podstate.Live,
				Status: podstate.StatusUnreadable, Contradiction: p.String() + " cannot be read"}
		})
	}
	return all
}

func removedGuests(o *Observed) (all []Removal) {
	for i, g := range o.Guests.Or(nil) {
		all = append(all, Removal{What: "object", Source: facts.SourceGuests, Object: g.String(), from: func(o *Observed) {
			o.Guests = o.Guests.With(slices.Delete(slices.Clone(o.Guests.Or(nil)), i, i+1))
		}}, Removal{What: "interfaces", Source: facts.SourceGuests, Object: g.String(), from: func(o *Observed) {
			guests := slices.Clone(o.Guests.Or(nil))
			guests[i] = edited(g, func(g *podstate.Guest) { g.Interfaces, g.IsUnread = nil, true })
			o.Guests = o.Guests.With(guests)
		}})
	}
	return all
}
