package view

// Plan is the document of plan, and the file that apply reads.
type Plan struct {
	Header
	Limits
	// Items are ordered by pool or reservation, then address. A reviewer may delete items, and must not edit any.
	Items []PlanItem `json:"items"`
	// Pools are those that apply deletes once the items of them are released; absent without --retire.
	Pools []PlanPool `json:"pools,omitempty"`
}

// PlanPool is the removal of one pool that nothing stands against. apply judges that again.
type PlanPool struct {
	Pool  string `json:"pool"`
	Range string `json:"range"`
	UID   string `json:"uid"`
	// Digest is over the other fields, and the cluster and the time of the plan.
	Digest string `json:"digest"`
}

// PlanItem is one allocation, or one reservation without an allocation, that apply may release.
type PlanItem struct {
	AllocationRow
	// Key is an allocation's; Reservation and ReservationUID are a reservation's, which has no pool.
	Key            string `json:"key,omitempty"`
	Reservation    string `json:"reservation,omitempty"`
	ReservationUID string `json:"reservationUID,omitempty"`
	// Evidence is as in explain. Its nodes are empty where the verdict rests on all nodes.
	Evidence Evidence `json:"evidence"`
	// Digest is over the other fields of the item, and the cluster and the time of the plan.
	Digest string `json:"digest"`
}
