package podstate

import (
	"math"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Phase is the phase of a pod's life. The order is that of precedence: a finished pod is Finished even while it is
// being deleted.
type Phase int8

const (
	// None means that no pod has that name.
	None Phase = iota
	// Pending means that the pod has not started. CNI ADD runs in this phase.
	Pending
	// Live means Running, or Unknown.
	Live
	// Terminating means that the pod has a deletionTimestamp and is not Finished.
	Terminating
	// Finished means the phase Failed or Succeeded.
	Finished
)

func (p Phase) String() string {
	return [...]string{"none", "Pending", "live", "terminating", "finished"}[p]
}

// mirrorAnnotation has the UID that the runtime uses for a static pod (kubelet, pkg/kubelet/types/pod_update.go).
const mirrorAnnotation = corev1.MirrorPodAnnotationKey

// Pod has the facts about a pod object that rules read.
type Pod struct {
	types.NamespacedName
	UID             string // of the API object
	RuntimeUID      string // in the runtime, which differs for a static pod
	ResourceVersion string
	Node            string
	Phase           Phase
	CreatedAt       time.Time
	DeletionTime    time.Time     // deletionTimestamp, the end of the grace period; zero if not deleted
	GracePeriod     time.Duration // how long a deletion waits for the containers
	Status          NetworkStatus
	Interfaces      []Interface // of the network-status; none if Finished
	IPs             []netip.Addr
	// RequestedNetworks are the NetworkAttachmentDefinitions that the pod requests, one for each interface. They
	// are read only if the pod is Pending or Finished, or has no readable status, to save memory.
	RequestedNetworks []types.NamespacedName
	// RequestedCount is the number of requested networks of a pod with a readable status; 0 for a Pending pod.
	RequestedCount int
	// Unattached are the requested networks that a readable status does not have.
	Unattached []types.NamespacedName
	Workload   string // its controller as "<kind>/<name>", "" for none
	// HasUniqueName means that the pod's controller is of a kind that gives each name once.
	HasUniqueName bool
	// NeverBound means that the scheduler reported that it found no node, and nothing shows that the pod was ever on one.
	NeverBound bool
	// StoppedByKubelet means that every container has a status, every status is terminated, and Ready is not True.
	// Only kubelet leaves a pod like this. Other writers of a terminal phase do not change the statuses.
	StoppedByKubelet bool
	LastFinishedAt   time.Time // latest finishedAt of a container
	// Contradiction is the reason why the pod proves nothing, "" for none: a snapshot has two versions of it, or lacks
	// fields that every such pod has.
	Contradiction string
	Machine       *Machine // whose guest runs in the pod; nil for a pod that is no virt-launcher
}

// ReadPod reads a pod object. It ignores the addresses of a Finished pod, which stay in the object's status.
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
		HasUniqueName:   hasUniqueName(o),
		Machine:         readMachine(o),
	}
	if uid := o.Annotations[mirrorAnnotation]; uid != "" {
		p.RuntimeUID = uid
	}
	if o.DeletionTimestamp != nil {
		p.DeletionTime = o.DeletionTimestamp.Time
	}
	if g := o.DeletionGracePeriodSeconds; g != nil {
		p.GracePeriod = seconds(*g)
	} else if g := o.Spec.TerminationGracePeriodSeconds; g != nil {
		p.GracePeriod = seconds(*g)
	}
	p.StoppedByKubelet, p.LastFinishedAt = readStop(o)
	p.NeverBound = p.Phase == Pending && isNeverBound(o)
	if p.Phase == Finished {
		p.RequestedNetworks = readSelection(o)
		return p
	}
	if !isCopied(o) {
		p.Status, p.Interfaces = readNetworkStatus(o.Annotations)
	}
	if p.Phase == Pending || p.Status != StatusReadable {
		p.RequestedNetworks = readSelection(o)
	} else {
		selected := readSelection(o)
		p.RequestedCount, p.Unattached = len(selected), unattached(selected, p.Interfaces)
	}
	for _, ip := range slices.Concat(o.Status.PodIPs, []corev1.PodIP{{IP: o.Status.PodIP}}) {
		if a, err := parseAddr(ip.IP); err == nil && !slices.Contains(p.IPs, a) {
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
	// A new pod may have no phase yet.
	case o.Status.Phase == corev1.PodPending || o.Status.Phase == "":
		return Pending
	}
	return Live
}

// isNeverBound reports whether a pod has no node by its spec and by its condition PodScheduled, and kubelet has written
// nothing. The condition is the proof: a field that is missing from an export proves nothing.
func isNeverBound(o *corev1.Pod) bool {
	s := &o.Status
	return o.Spec.NodeName == "" && s.PodIP == "" && len(s.PodIPs) == 0 && s.StartTime == nil &&
		len(s.InitContainerStatuses)+len(s.ContainerStatuses)+len(s.EphemeralContainerStatuses) == 0 &&
		slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool {
			return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse
		})
}

// readStop returns StoppedByKubelet and LastFinishedAt.
func readStop(o *corev1.Pod) (isStopped bool, last time.Time) {
	hasStatus := make(map[string]bool, len(o.Status.ContainerStatuses))
	isStopped = true
	s := &o.Status
	for _, list := range [][]corev1.ContainerStatus{
		s.InitContainerStatuses, s.ContainerStatuses, s.EphemeralContainerStatuses,
	} {
		for i := range list {
			hasStatus[list[i].Name] = true
			if t := list[i].State.Terminated; t == nil {
				isStopped = false
			} else if t.FinishedAt.After(last) {
				last = t.FinishedAt.Time
			}
		}
	}
	isStopped = isStopped && len(hasStatus) > 0
	for i := range o.Spec.Containers {
		isStopped = isStopped && hasStatus[o.Spec.Containers[i].Name]
	}
	for i := range o.Spec.InitContainers {
		isStopped = isStopped && hasStatus[o.Spec.InitContainers[i].Name]
	}
	for i := range o.Spec.EphemeralContainers {
		isStopped = isStopped && hasStatus[o.Spec.EphemeralContainers[i].Name]
	}
	for i := range o.Status.Conditions {
		if c := &o.Status.Conditions[i]; c.Type == corev1.PodReady && c.Status == corev1.ConditionTrue {
			isStopped = false
		}
	}
	return isStopped, last
}

// Networks are the networks that the pod may be on, as "<namespace>/<NAD>": those of its network-status, and those that
// it requests and that are kept.
func (p *Pod) Networks() (names []string) {
	for _, i := range p.Interfaces {
		if _, _, ok := i.NAD(); ok {
			names = append(names, i.Network)
		}
	}
	for _, name := range slices.Concat(p.RequestedNetworks, p.Unattached) {
		names = append(names, name.String())
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// WasBound reports whether a pod was bound to a node by what its status says: then it has a node, whatever its spec
// says.
func WasBound(o *corev1.Pod) bool {
	s := &o.Status
	isScheduled := slices.ContainsFunc(s.Conditions, func(c corev1.PodCondition) bool {
		return c.Type == corev1.PodScheduled && c.Status == corev1.ConditionTrue
	})
	return o.Spec.NodeName != "" || isScheduled || s.Phase == corev1.PodRunning || s.Phase == corev1.PodSucceeded ||
		s.HostIP != "" || s.PodIP != "" || len(s.PodIPs) > 0 || s.StartTime != nil ||
		len(s.ContainerStatuses)+len(s.InitContainerStatuses)+len(s.EphemeralContainerStatuses) > 0
}

// MayCarryAny reports whether nothing is known of the addresses of a pod that proves nothing: it may carry any.
func (p *Pod) MayCarryAny() bool { return p.Contradiction != "" && p.Status == StatusUnreadable }

// MissingNetworks are the requested networks that the network-status does not have: all of them if there is none. Of an
// unreadable one nothing is known.
func (p *Pod) MissingNetworks() []types.NamespacedName {
	if p.Status == StatusMissing {
		return p.RequestedNetworks
	}
	return p.Unattached
}

// HasUID reports whether a sandbox with this UID belongs to the pod.
func (p *Pod) HasUID(uid string) bool { return uid != "" && (uid == p.UID || uid == p.RuntimeUID) }

// IsOverdue reports whether the pod should have been gone for five minutes.
func (p *Pod) IsOverdue(now time.Time) bool {
	return !p.DeletionTime.IsZero() && now.After(p.OverdueAfter())
}

// OverdueAfter returns the time after which the pod is overdue; zero if it is not being deleted.
func (p *Pod) OverdueAfter() time.Time {
	if p.DeletionTime.IsZero() {
		return time.Time{}
	}
	return p.DeletionTime.Add(overdueAfter)
}

const overdueAfter = 5 * time.Minute

// seconds is n seconds: 0 if n is negative, and the longest Duration of whole seconds if n is larger than that, since
// Kubernetes sets no upper limit.
func seconds(n int64) time.Duration {
	const longest = int64(math.MaxInt64 / time.Second)
	return time.Duration(min(max(n, 0), longest)) * time.Second
}
