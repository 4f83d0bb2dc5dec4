// Package audit records what was done to addresses and why. Outcomes of package reconciler come in, each as it happens.
// A Trail makes Records of them, with the evidence as it was judged. It writes them as lines of JSON to a log, and to a
// Ring of few ConfigMaps in the cluster. Out come Lines, as they are read from there, and the Faults that Verify finds
// in them: it looks for missing numbers, and judges the evidence again.
package audit

import (
	"encoding/json"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// What names the kind of a record.
type What string

const (
	Released   What = "Released"   // an allocation with its reservations, or a reservation without an allocation
	Overridden What = "Overridden" // a release that rests on what a person asserts
	Refused    What = "Refused"    // a release, or the retirement of a pool, that a person asked for
	Retired    What = "Retired"    // an empty pool that was deleted
	Repaired   What = "Repaired"   // an allocation or a reservation that was written because of a finding
	Paused     What = "Paused"     // a pause, when a process first detects it
	Resumed    What = "Resumed"    // the end of that pause
)

// Record is what was done to one address, or the change of a pause.
type Record struct {
	Seq  uint64    `json:"seq"`  // the number of the record in the ring, or in the file by its process
	Time time.Time `json:"time"` // by the API server's clock
	What What      `json:"what"`
	Origin
	Pool         string   `json:"pool,omitempty"` // absent for a reservation without an allocation
	Reservations []string `json:"reservations,omitempty"`
	IP           string   `json:"ip,omitempty"`
	Entry                 // what was released, refused or written
	Before       *Entry   `json:"before,omitempty"` // what a repair replaced
	// Verdict, Proven and Row are absent for a repair, and its Reason is the kind of the finding.
	Verdict  judge.Verdict    `json:"verdict,omitempty"`
	Reason   string           `json:"reason,omitempty"`
	Proven   bool             `json:"proven,omitempty"`
	Row      string           `json:"row,omitempty"`
	Message  string           `json:"message"`
	Refusal  string           `json:"refusal,omitempty"` // why something Stale was not released
	Because  string           `json:"because,omitempty"` // what a person gave as the reason of an override
	Evidence *judge.Testimony `json:"evidence,omitempty"`
}

// Origin is who made a record.
type Origin struct {
	Actor   string `json:"actor"` // the user name by which the API server knows the process
	Pod     string `json:"pod,omitempty"`
	Command string `json:"command"`
	Run     string `json:"run"` // a number of the process
}

// Entry is an allocation or a reservation as it is recorded.
type Entry struct {
	Key         string `json:"key,omitempty"`
	PodRef      string `json:"podRef,omitempty"`
	ContainerID string `json:"containerID,omitempty"`
	IfName      string `json:"ifName,omitempty"`
}

// linesOf returns records as lines. Their numbers follow the last one.
func linesOf(records []Record, last uint64) (lines [][]byte) {
	for _, r := range records {
		last++
		r.Seq = last
		line, _ := json.Marshal(&r) // it has only texts, numbers and times
		lines = append(lines, line)
	}
	return lines
}
