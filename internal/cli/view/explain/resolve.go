package explain

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
)

// Resolve returns the address, pod, node or pool that a name or a container ID is in a judgement. A subject whose kind
// is known is returned as it is. Where a name is that of several things, or of none, the error says so: nothing is
// guessed.
func (s Subject) Resolve(j *findings.Assessment) (Subject, error) {
	o := j.Observation
	isPool := func(p *ippool.Pool) bool { return p.Ref() == s.ref() }
	switch {
	case s.ContainerID != "":
		return s.resolveContainer(j)
	case s.isLoose && !isKnownPod(j, s) && slices.ContainsFunc(o.Pools, isPool):
		return Subject{Kind: Pool, Namespace: s.Namespace, Name: s.Name}, nil
	case s.isLoose && otherKinds[s.Namespace] != "" && !isKnownPod(j, s):
		return s, fmt.Errorf("%q: no pod has this name, and no %s is explained: %s", s.ref(),
			otherKinds[s.Namespace], subjectForms)
	case s.IsBare():
		return s.resolveName(j)
	}
	return s, nil
}

// resolveName returns the only pool, node or pod of a name, or the only pod where the name is that of a pod.
func (s Subject) resolveName(j *findings.Assessment) (Subject, error) {
	o, found := j.Observation, map[string]Subject{}
	add := func(one Subject) {
		if s.Kind == "" || s.Kind == one.Kind {
			found[one.String()] = one
		}
	}
	for _, p := range o.Pools {
		if p.Name == s.Name {
			add(Subject{Kind: Pool, Namespace: p.Namespace, Name: p.Name})
		}
	}
	for _, r := range o.Reports.Or(nil) {
		if r.Name == s.Name {
			add(Subject{Kind: Node, Name: s.Name})
		}
	}
	if o.Nodes.Or(nil)[s.Name] != nil {
		add(Subject{Kind: Node, Name: s.Name})
	}
	for name := range podNames(j) {
		if name.Name == s.Name {
			add(Subject{Kind: Pod, Namespace: name.Namespace, Name: name.Name})
		}
	}
	names := slices.Sorted(maps.Keys(found))
	switch {
	case len(names) == 0 && s.Kind == Pod:
		return s, fmt.Errorf("%q: no pod has this name: give its namespace, as in default/%s or with -n", s, s.Name)
	case len(names) == 0:
		return s, fmt.Errorf("%q: no pool, node or pod has this name: %s", s.Name, subjectForms)
	case len(names) == 1:
		return found[names[0]], nil
	}
	return s, fmt.Errorf("%q: %s have this name: give one of them", s, facts.AtMost(names, maxCarriers))
}

// otherKinds are the names of kinds that kubectl takes before a slash, and that are no subjects.
var otherKinds = map[string]string{
	"deploy": "Deployment", "deployment": "Deployment", "deployments": "Deployment",
	"ds": "DaemonSet", "daemonset": "DaemonSet", "daemonsets": "DaemonSet",
	"sts": "StatefulSet", "statefulset": "StatefulSet", "statefulsets": "StatefulSet",
	"rs": "ReplicaSet", "replicaset": "ReplicaSet", "replicasets": "ReplicaSet",
	"job": "Job", "jobs": "Job", "cj": "CronJob", "cronjob": "CronJob", "cronjobs": "CronJob",
	"ns": "Namespace", "namespace": "Namespace", "namespaces": "Namespace",
	"svc": "Service", "service": "Service", "services": "Service",
	"vm": "VirtualMachine", "vmi": "VirtualMachineInstance",
	"net-attach-def":                "NetworkAttachmentDefinition",
	"net-attach-defs":               "NetworkAttachmentDefinition",
	"network-attachment-definition": "NetworkAttachmentDefinition",
}

// podNames returns the names of the pods in the API, in reports and in records.
func podNames(j *findings.Assessment) map[types.NamespacedName]bool {
	names := map[types.NamespacedName]bool{}
	for name := range j.Observation.Pods {
		names[name] = true
	}
	for _, b := range sandboxes(j.Observation) {
		names[b.Pod] = true
	}
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		owner := it.Owner()
		names[types.NamespacedName{Namespace: owner.Namespace, Name: owner.Name}] = true
	}
	return names
}

func isKnownPod(j *findings.Assessment, s Subject) bool {
	return podNames(j)[types.NamespacedName{Namespace: s.Namespace, Name: s.Name}]
}

// resolveContainer returns the pod of a sandbox, by the beginning of its ID.
func (s Subject) resolveContainer(j *findings.Assessment) (Subject, error) {
	found := map[string]Subject{} // by ID
	add := func(id, namespace, name string) {
		if strings.HasPrefix(id, s.ContainerID) && name != "" {
			found[id] = Subject{Kind: Pod, Namespace: namespace, Name: name, ContainerID: id}
		}
	}
	for _, it := range j.Allocations {
		add(it.ContainerID(), it.Owner().Namespace, it.Owner().Name)
	}
	for _, b := range sandboxes(j.Observation) { // which know better than a record whose pod it is
		add(b.ID, b.Pod.Namespace, b.Pod.Name)
	}
	ids := slices.Sorted(maps.Keys(found))
	switch len(ids) {
	case 0:
		return s, fmt.Errorf("%q: no allocation and no report has a sandbox with this container ID; "+
			"the ID of a container in it is another one: 'crictl pods' prints those of sandboxes", s.ContainerID)
	case 1:
		return found[ids[0]], nil
	}
	return s, fmt.Errorf("%q: the IDs of %d sandboxes begin so: give more of it", s.ContainerID, len(ids))
}
