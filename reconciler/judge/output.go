package judge

import (
	"slices"
)

// Document is what check and run print as JSON or YAML. Its names are a
// contract: scripts read them.
type Document struct {
	Summary      Summary          `json:"summary"`
	Allocations  []AllocationRow  `json:"allocations"`
	Reservations []ReservationRow `json:"reservations"`
	Findings     []Finding        `json:"findings"`
	// Released and Failed are of run only: items as in Allocations and
	// Reservations. Failed are the Stale ones that are left, each with why at
	// the end of its message.
	Released *[]any `json:"released,omitempty"`
	Failed   *[]any `json:"failed,omitempty"`
}

// Summary counts. InUse, Held and Stale are of allocations.
type Summary struct {
	Pools        int `json:"pools"`
	Allocations  int `json:"allocations"`
	InUse        int `json:"inUse"`
	Held         int `json:"held"`
	Stale        int `json:"stale"`
	Reservations int `json:"reservations"`
	Findings     int `json:"findings"`
	// Restore is there while nothing is released because etcd was restored.
	Restore *RestoreRow `json:"restore,omitempty"`
}

// RestoreRow is what a restore of etcd still waits for.
type RestoreRow struct {
	Restored string   `json:"restored"` // RFC 3339
	Why      string   `json:"why"`
	Awaiting []string `json:"awaiting"` // nodes
}

// AllocationRow is one allocation.
type AllocationRow struct {
	Pool        string  `json:"pool"`
	IP          string  `json:"ip"`
	PodRef      string  `json:"podRef"`
	PodUID      string  `json:"podUID"`
	ContainerID string  `json:"containerID"`
	IfName      string  `json:"ifName"`
	Node        string  `json:"node"`
	Sandbox     string  `json:"sandbox"`
	Verdict     Verdict `json:"verdict"`
	Reason      Reason  `json:"reason"`
	Proven      bool    `json:"proven"`
	Message     string  `json:"message"`
}

// ReservationRow is one OverlappingRangeIPReservation.
type ReservationRow struct {
	Reservation string  `json:"reservation"`
	IP          string  `json:"ip"`
	Network     string  `json:"network"`
	PodRef      string  `json:"podRef"`
	Verdict     Verdict `json:"verdict"`
	Reason      Reason  `json:"reason"`
	Proven      bool    `json:"proven"`
	Message     string  `json:"message"`
}

// Document lists a judgement as check prints it.
func (j *Judgement) Document() *Document {
	d := &Document{
		Summary:      j.Summary(),
		Allocations:  make([]AllocationRow, 0, len(j.Allocations)),
		Reservations: make([]ReservationRow, 0, len(j.Reservations)),
		Findings:     append([]Finding{}, j.Findings...),
	}
	for _, it := range j.Allocations {
		d.Allocations = append(d.Allocations, it.Row(it.Message()).(AllocationRow))
	}
	for _, it := range j.Reservations {
		d.Reservations = append(d.Reservations, it.Row(it.Message()).(ReservationRow))
	}
	return d
}

// Sorted puts allocations first, each kind by place.
func Sorted(items []*Item) []*Item {
	sorted := slices.Clone(items)
	slices.SortStableFunc(sorted, func(a, b *Item) int {
		if (a.Allocation == nil) != (b.Allocation == nil) {
			if a.Allocation != nil {
				return -1
			}
			return 1
		}
		return ByPlace(a, b)
	})
	return sorted
}

// Summary counts a judgement.
func (j *Judgement) Summary() Summary {
	s := Summary{Pools: len(j.Observation.Pools), Allocations: len(j.Allocations), Reservations: len(j.Reservations), Findings: len(j.Findings), Restore: j.Restore.row()}
	for _, it := range j.Allocations {
		switch it.Verdict {
		case InUse:
			s.InUse++
		case Held:
			s.Held++
		case Stale:
			s.Stale++
		}
	}
	return s
}

// Stale is how many allocations and reservations are stale.
func (j *Judgement) Stale() int { return len(j.StaleItems()) }

// Row is the item as AllocationRow or ReservationRow, with this message.
func (it *Item) Row(message string) any {
	if it.Allocation == nil {
		return ReservationRow{
			Reservation: it.Object(), IP: it.Text(), Network: it.Network(), PodRef: it.PodRef(),
			Verdict: it.Verdict, Reason: it.Reason, Proven: it.Proven, Message: message,
		}
	}
	e := it.Evidence()
	uid := e.SandboxUID
	if uid == "" && e.Pod != nil {
		uid = e.Pod.UID
	}
	return AllocationRow{
		Pool: it.Object(), IP: it.Text(), PodRef: it.PodRef(), PodUID: uid, ContainerID: it.ContainerID(), IfName: it.IfName(),
		Node: e.node(), Sandbox: e.Sandbox.String(), Verdict: it.Verdict, Reason: it.Reason, Proven: it.Proven, Message: message,
	}
}
