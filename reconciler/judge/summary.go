package judge

// Summary counts. InUse, Held and Stale are of allocations. The JSON names are a contract.
type Summary struct {
	Pools        int `json:"pools"`
	Allocations  int `json:"allocations"`
	InUse        int `json:"inUse"`
	Held         int `json:"held"`
	Stale        int `json:"stale"`
	Reservations int `json:"reservations"`
	// Lone are the reservations without an allocation, by verdict. All others share the verdict of theirs.
	Lone     Lone `json:"reservationsWithoutAllocation"`
	Findings int  `json:"findings"`
	// Restore is there while nothing is released because etcd was restored.
	Restore *RestoreRow `json:"restore,omitempty"`
}

// Lone counts reservations without an allocation.
type Lone struct {
	InUse int `json:"inUse"`
	Held  int `json:"held"`
	Stale int `json:"stale"`
}

// RestoreRow is what a restore of etcd still waits for.
type RestoreRow struct {
	Restored string   `json:"restored"` // RFC 3339
	Why      string   `json:"why"`
	Awaiting []string `json:"awaiting"` // nodes
}

// Summary counts a judgement.
func (j *Judgement) Summary() Summary {
	s := Summary{Pools: len(j.Observation.Pools), Allocations: len(j.Allocations), Reservations: len(j.Reservations), Findings: len(j.Findings), Restore: j.Restore.row()}
	for _, it := range j.Allocations {
		it.Verdict.count(&s.InUse, &s.Held, &s.Stale)
	}
	for _, it := range j.Reservations {
		if len(it.Related()) == 0 {
			it.Verdict.count(&s.Lone.InUse, &s.Lone.Held, &s.Lone.Stale)
		}
	}
	return s
}

func (v Verdict) count(inUse, held, stale *int) {
	switch v {
	case InUse:
		*inUse++
	case Held:
		*held++
	case Stale:
		*stale++
	}
}

// Stale is how many allocations and reservations are stale.
func (j *Judgement) Stale() int { return len(j.StaleItems()) }
