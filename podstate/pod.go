package podstate

import (
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Phase is how far a pod is in its life by its object, in the order in which it counts:
// a finished pod is Finished even while it is being deleted.
type Phase int

const (
	// None: no pod by that name.
	None Phase = iota
	// Pending: not started; CNI ADD runs in this phase.
	Pending
	// Live: Running, or Unknown.
	Live
	// Terminating: has a deletionTimestamp and is not Finished.
	Terminating
	// Finished: phase Failed or Succeeded.
	Finished
)

func (p Phase) String() string {
	return [...]string{"none", "Pending", "live", "terminating", "finished"}[p]
}

// mirrorAnnotation of a static pod's mirror object holds the UID that the
// runtime knows the pod by (kubelet, pkg/kubelet/types/pod_update.go).
const mirrorAnnotation = corev1.MirrorPodAnnotationKey

// Pod is what the rules need of a pod object.
type Pod struct {
	types.NamespacedName
	UID             string // of the object in the API
	RuntimeUID      string // the one that the runtime knows: a static pod's differs
	ResourceVersion string
	Node            string
	Phase           Phase
	CreatedAt       time.Time
	DeletionTime    time.Time     // deletionTimestamp: when the grace period ends; zero if not deleted
	GracePeriod     time.Duration // what a deletion waits or would wait for the containers
	Status          NetworkStatus
	Interfaces      []Interface // of the network-status; none of a Finished pod
	IPs             []netip.Addr
	// RequestedNetworks are the NetworkAttachmentDefinitions that a pod asks for that is Pending or has no readable status, one for each
	// interface. Nobody needs those of a pod that has started, of which there are many.
	RequestedNetworks []types.NamespacedName
	// RequestedCount is how many networks a pod with a readable status asks for, by its annotation; 0 for one that is Pending.
	RequestedCount int
	Workload       string // its controller as "<kind>/<name>", "" for none
	// StoppedByKubelet: every container of the spec has a status, every status
	// of any kind is terminated, and Ready is not True. That is how kubelet
	// leaves a pod; other writers of a terminal phase do not touch the statuses.
	StoppedByKubelet bool
	LastFinishedAt   time.Time // the last container's finishedAt
	// Contradiction is why nothing of this may be relied upon, "" if it may: a snapshot has
	// the pod twice, and differently.
	Contradiction string
}

// ReadPod takes from a pod object what the rules need. The addresses of a
// finished pod stay in its status on purpose and are not read.
func ReadPod(o *corev1.Pod) *Pod {
	p := &Pod{
		NamespacedName:  types.NamespacedName{Namespace: intern(o.Namespace), Name: o.Name},
		UID:             string(o.UID),
		RuntimeUID:      string(o.UID),
		ResourceVersion: o.ResourceVersion,
		Node:            intern(o.Spec.NodeName),
		Phase:           phase(o),
		CreatedAt:       o.CreationTimestamp.Time,
		Workload:        workload(o),
	}
	if uid := o.Annotations[mirrorAnnotation]; uid != "" {
		p.RuntimeUID = uid
	}
	if o.DeletionTimestamp != nil {
		p.DeletionTime = o.DeletionTimestamp.Time
	}
	if g := o.DeletionGracePeriodSeconds; g != nil {
		p.GracePeriod = time.Duration(*g) * time.Second
	} else if g := o.Spec.TerminationGracePeriodSeconds; g != nil {
		p.GracePeriod = time.Duration(*g) * time.Second
	}
	p.StoppedByKubelet, p.LastFinishedAt = stopped(o)
	if p.Phase == Finished {
		p.RequestedNetworks = readSelection(o)
		return p
	}
	p.Status, p.Interfaces = readNetworkStatus(o.Annotations)
	if p.Phase == Pending || p.Status != StatusReadable {
		p.RequestedNetworks = readSelection(o)
	} else {
		p.RequestedCount = len(readSelection(o))
	}
	for _, ip := range slices.Concat(o.Status.PodIPs, []corev1.PodIP{{IP: o.Status.PodIP}}) {
		if a, err := parseAddr(ip.IP); err == nil {
			p.IPs = append(p.IPs, a)
		}
	}
	return p
}

func phase(o *corev1.Pod) Phase {
	switch {
	case o.Status.Phase == corev1.PodFailed || o.Status.Phase == corev1.PodSucceeded:
		return Finished
	case o.DeletionTimestamp != nil:
		return Terminating
	// A pod that has just been created may have no phase yet.
	case o.Status.Phase == corev1.PodPending || o.Status.Phase == "":
		return Pending
	}
	return Live
}

// stopped returns Pod's StoppedByKubelet and LastFinishedAt.
func stopped(o *corev1.Pod) (all bool, last time.Time) {
	seen := make(map[string]bool, len(o.Status.ContainerStatuses))
	all = true
	for _, list := range [...][]corev1.ContainerStatus{o.Status.InitContainerStatuses, o.Status.ContainerStatuses, o.Status.EphemeralContainerStatuses} {
		for i := range list {
			seen[list[i].Name] = true
			if t := list[i].State.Terminated; t == nil {
				all = false
			} else if t.FinishedAt.After(last) {
				last = t.FinishedAt.Time
			}
		}
	}
	all = all && len(seen) > 0
	for i := range o.Spec.Containers {
		all = all && seen[o.Spec.Containers[i].Name]
	}
	for i := range o.Spec.InitContainers {
		all = all && seen[o.Spec.InitContainers[i].Name]
	}
	for i := range o.Spec.EphemeralContainers {
		all = all && seen[o.Spec.EphemeralContainers[i].Name]
	}
	for i := range o.Status.Conditions {
		if c := &o.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			all = false
		}
	}
	return all, last
}

// HasUID reports whether a sandbox with this UID is the pod's; no UID is nobody's.
func (p *Pod) HasUID(uid string) bool { return uid != "" && (uid == p.UID || uid == p.RuntimeUID) }

// IsOverdue reports whether the pod should have been gone five minutes ago.
func (p *Pod) IsOverdue(now time.Time) bool {
	return !p.DeletionTime.IsZero() && now.After(p.OverdueAfter())
}

// OverdueAfter is after when the pod is overdue; zero if it is not being deleted.
func (p *Pod) OverdueAfter() time.Time {
	if p.DeletionTime.IsZero() {
		return time.Time{}
	}
	return p.DeletionTime.Add(overdueAfter)
}

const overdueAfter = 5 * time.Minute
