// Package audit has the records of what was done to addresses and why. A record has the evidence as it was judged.
//
// A Trail writes records as lines of JSON to a log, and to a Ring of few objects in the cluster. Both are chains: each
// record has the number and the hash of the one before it. Verify checks the chains, and judges the evidence again.
package audit

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// What names the kind of a record.
type What string

const (
	Released   What = "Released"   // an allocation with its reservations, or a reservation without an allocation
	Overridden What = "Overridden" // a release that rests on what a person asserts
	Refused    What = "Refused"    // a release that a person asked for
	Repaired   What = "Repaired"   // an allocation or a reservation that was written because of a finding
	Paused     What = "Paused"     // a pause, when a process first detects it
	Resumed    What = "Resumed"    // the end of that pause
)

// Record is what was done to one address, or the change of a pause.
type Record struct {
	Seq  uint64    `json:"seq"`  // the number of the record in its chain
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
	Prev     string           `json:"prev,omitempty"` // the hash of the record before
	// Hash is the start of the SHA-256 of the record without this field, in hexadecimal.
	Hash string `json:"hash,omitempty"`
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

// OfItem is the record of an item without its Origin.
func OfItem(what What, at time.Time, it *judge.Item) Record {
	r := Record{What: what, Time: at.UTC(), IP: it.Text(), Message: it.Message(), Evidence: it.Testimony(),
		Entry:   Entry{it.Key(), it.PodRef(), it.ContainerID(), it.IfName()},
		Verdict: it.Verdict, Reason: it.Reason.String(), Proven: it.Proven, Row: it.RuleID()}
	if it.Pool != nil {
		r.Pool = it.Object()
	} else {
		r.Reservations = []string{it.Object()}
	}
	return r
}

// chain is the end of a chain: the number and the hash of its last record.
type chain struct {
	seq  uint64
	hash string
}

// mark is the end of the line of the last record.
func (c chain) mark() []byte { return []byte(`,"hash":"` + c.hash + `"}`) }

// hashOf is the hash of a line without its field hash.
func hashOf(body []byte) string {
	sum := sha256.Sum256(body)
	return hex.EncodeToString(sum[:16])
}

func (c *chain) add(records []Record) (lines [][]byte) {
	for _, r := range records {
		r.Seq, r.Prev, r.Hash = c.seq+1, c.hash, ""
		body, _ := json.Marshal(&r) // it has only texts, numbers and times
		*c = chain{r.Seq, hashOf(body)}
		lines = append(lines, append(body[:len(body)-1], c.mark()...))
	}
	return lines
}
