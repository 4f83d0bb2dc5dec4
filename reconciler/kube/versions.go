package kube

import (
	"slices"
	"sync"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// versions collects the versions that answers to quorum reads have of pools, reports and agents' Leases, one reading of
// which may fail later: one that is older than before shows a restore of etcd all the same. It is safe for use by
// several goroutines.
type versions struct {
	mu  sync.Mutex
	all []facts.Version
}

func (v *versions) note(object, version string) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.all = append(v.all, facts.Version{Object: object, ResourceVersion: version})
}

// noted returns what was noted until now.
func (v *versions) noted() []facts.Version {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clip(v.all)
}

// notePage notes the versions in a page of a list, whether or not its next page comes.
func notePage[T any](l listing, page []T, revision string) {
	if l.versions == nil {
		return
	}
	for _, o := range page {
		switch o := any(o).(type) {
		case *ippool.Pool:
			l.versions.note(facts.PoolObject+o.Ref(), o.ResourceVersion)
		case *podstate.Report:
			l.versions.note(facts.ReportObject+o.Name, o.ResourceVersion)
		case *coordinationv1.Lease:
			l.versions.note(facts.LeaseObject+o.Name, o.ResourceVersion)
		case *metav1.PartialObjectMetadata:
			if l.resource == ippool.PoolResource {
				l.versions.note(facts.PoolObject+o.Namespace+"/"+o.Name, o.ResourceVersion)
			} else {
				l.versions.note(facts.ReportObject+o.Name, o.ResourceVersion)
			}
		}
	}
	if l.resource == ippool.PoolResource && l.only.FieldSelector == "" { // those by name are read side by side
		l.versions.note(facts.PoolList, revision)
	}
}
