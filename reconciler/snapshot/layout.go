package snapshot

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// This file has what is known of trees that must-gather, inspect and kubectl cluster-info dump write. It tells the
// files that hold objects of our kinds from those that hold none, such as logs and what other tools have written there.
// A pod's file that is left out makes what the pod has look leaked, so that a file is left out only where it is known to
// hold no such object: in case of doubt there is an error.

// hasEnding reports whether a file is read as YAML or JSON, compressed or not. Of others the head is read, save of logs.
func hasEnding(name string) bool {
	return slices.Contains([]string{".yaml", ".yml", ".json"}, path.Ext(strings.TrimSuffix(name, ".gz")))
}

// resources are the names by which tools write the resources that are read: of files that
// hold all of a namespace ('kubectl cluster-info dump': <namespace>/pods.json; 'oc adm
// inspect': namespaces/<namespace>/core/pods.yaml) and of folders with a file for each.
func resources() []string {
	return []string{"ippools", "overlappingrangeipreservations", "nodeslicepools", "network-attachment-definitions", "net-attach-def",
		"sandboxreports", "leases", "nodes", "pods", "namespaces"}
}

// byLayout reports whether a file must hold an object that is read, by where it is in the
// tree (oc, pkg/cli/admin/inspect; kubectl v0.36.3, pkg/cmd/clusterinfo).
func byLayout(name string) bool {
	folder := path.Dir(name)
	base, parent, above := strings.TrimSuffix(path.Base(name), ".gz"), path.Base(folder), path.Base(path.Dir(folder))
	base = strings.TrimSuffix(base, path.Ext(base))
	return slices.Contains(resources(), base) || slices.Contains(resources(), parent) ||
		base == parent && (above == "pods" || above == "namespaces") || slices.Contains(strings.Split(folder, "/"), "whereabouts.cni.cncf.io")
}

var (
	// mayHold matches a text with the kind of an object that is read, with a kind that cannot be told since the text
	// ends there, or with a field that objects of these kinds have and others hardly: items of a list may lack a kind.
	mayHold = regexp.MustCompile(`\b[kK]ind["']?[ \t]*:[ \t"']*((List|(` + strings.Join(slices.Sorted(maps.Keys(kinds)), "|") +
		`)(List)?)([^A-Za-z]|$)|[^A-Za-z \t"']|[A-Za-z]*\s*$)|"?\b(podref|podIPs?|containerStatuses|k8s\.v1\.cni\.cncf\.io/network-status)"?\s*:`)
	// objectHead is how a file begins that kubectl has written.
	objectHead = regexp.MustCompile(`^([^\w#]|#.*\n)*(apiVersion|kind|items|metadata)"?\s*:`)
)

// withoutZeros makes of UTF-16, as PowerShell writes it, what can be searched.
func withoutZeros(text []byte) []byte { return bytes.ReplaceAll(text, []byte{0}, nil) }

// timestampFile is what must-gather and inspect write beside what they gather: the times at which they began and
// ended, a line each (oc, pkg/cli/admin/mustgather and pkg/cli/admin/inspect).
const timestampFile = "timestamp"

// takeTimestamp takes in the first time of a timestamp file, as Go prints it: "2026-11-20 12:00:00.123 +0100 CET".
// Without a zone it is UTC. Of several files the earliest counts.
func (s *Snapshot) takeTimestamp(name string, head []byte) {
	fields := strings.Fields(string(head))
	if path.Base(name) != timestampFile || len(fields) < 2 {
		return
	}
	day := strings.Join(fields[:2], " ")
	at, err := time.Parse("2006-01-02 15:04:05 -0700", day+" "+strings.Join(fields[2:min(3, len(fields))], ""))
	if err != nil {
		at, err = time.Parse("2006-01-02 15:04:05", day)
	}
	if err == nil && (s.gathered.IsZero() || at.Before(s.gathered)) {
		s.gathered = at
	}
}

// time is when the snapshot was taken, and what says so: the newest Lease renewal or report, or where that is of
// before the snapshot was begun its timestamp file; where it has none of these the newest time of a pod, Node or
// reservation.
func (s *Snapshot) time() (at time.Time, by string) {
	newer := func(t time.Time, what string) {
		if t.After(at) {
			at, by = t, what
		}
	}
	newer(s.gathered, "its timestamp file")
	for _, l := range s.nodeLeases() {
		newer(l.Spec.RenewTime.Time, "the newest renewal of an agent's Lease")
	}
	for _, r := range s.reports {
		newer(r.ObservedAt.Time, "the newest SandboxReport")
	}
	if !at.IsZero() {
		return at, by
	}
	const newest = "its newest object"
	for _, p := range s.pods {
		newer(p.CreatedAt, newest)
		newer(p.LastFinishedAt, newest)
	}
	for _, n := range s.nodes {
		newer(n.CreatedAt, newest)
		newer(n.NotReadySince, newest)
	}
	for _, r := range s.reservations {
		newer(r.Created, newest)
	}
	if at.IsZero() {
		return time.Now(), "this machine's clock, since no object has a time"
	}
	return at, by
}
