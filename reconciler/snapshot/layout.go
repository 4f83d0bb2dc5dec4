package snapshot

import (
	"bytes"
	"cmp"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"
)

// This file knows the trees that must-gather, inspect and kubectl cluster-info dump write. It distinguishes files with
// objects that are judged from others, such as logs. Skipping a pod's file would make the pod's addresses stale. So a
// file is skipped only if it is known to have no such object. In case of doubt it is an error.

// hasEnding reports whether a file is read as YAML or JSON, compressed or not. Of all others but logs the head is read.
// A must-gather of OpenShift before 4.14 has its definitions in net_attach_def, in YAML.
func hasEnding(name string) bool {
	name = path.Base(name)
	ending := path.Ext(name)
	if slices.Contains(packedEndings, strings.ToLower(ending)) {
		ending = path.Ext(strings.TrimSuffix(name, ending))
	}
	return slices.Contains([]string{".yaml", ".yml", ".json"}, strings.ToLower(ending)) || name == "net_attach_def"
}

// packedEndings are those of packed files. Of these only .gz is unpacked, and the others are an error.
var packedEndings = []string{".gz", ".xz", ".zst", ".bz2", ".zip", ".7z"}

// resources are the kinds by their resources, which are the names of files and folders. A file has all objects of a
// namespace ('kubectl cluster-info dump': <namespace>/pods.json; 'oc adm inspect':
// namespaces/<namespace>/core/pods.yaml). A folder has a file for each object.
var resources = map[string]string{
	"ippools": "IPPool", "overlappingrangeipreservations": "OverlappingRangeIPReservation",
	"nodeslicepools": "NodeSlicePool", "network-attachment-definitions": "NetworkAttachmentDefinition",
	"net-attach-def": "NetworkAttachmentDefinition", "ipamclaims": "IPAMClaim",
	"virtualmachineinstances": "VirtualMachineInstance", "sandboxreports": "SandboxReport", "leases": "Lease",
	"nodes": "Node", "pods": "Pod", "namespaces": "Namespace",
}

// kindByLayout returns the kind of the objects in a file by the name of the file or of its folder, "" for none.
func kindByLayout(name string) string {
	base, parent := baseOf(name), path.Base(path.Dir(name))
	return cmp.Or(resources[base], resources[parent])
}

// baseOf returns the name of a file without its folder and its ending.
func baseOf(name string) string {
	base := strings.TrimSuffix(path.Base(name), ".gz")
	return strings.TrimSuffix(base, path.Ext(base))
}

// byLayout reports whether a file must have an object that is judged, by its place in the tree (oc,
// pkg/cli/admin/inspect; kubectl v0.36.3, pkg/cmd/clusterinfo).
func byLayout(name string) bool {
	folder := path.Dir(name)
	base, parent, above := baseOf(name), path.Base(folder), path.Base(path.Dir(folder))
	return kindByLayout(name) != "" ||
		base == parent && (above == "pods" || above == "namespaces") ||
		slices.Contains(strings.Split(folder, "/"), "whereabouts.cni.cncf.io")
}

var (
	// mayHold matches a text with the kind of an object that is judged, or with a kind that is cut by the end of the
	// text. Items of a list may lack a kind, so it also matches fields that hardly any other kind has.
	mayHold = regexp.MustCompile(`\b[kK]ind["']?[ \t]*:[ \t"']*((List|(` +
		strings.Join(slices.Sorted(maps.Keys(kinds)), "|") +
		`)(List)?)([^A-Za-z]|$)|[^A-Za-z \t"']|[A-Za-z]*\s*$)|` +
		`"?\b(podref|podIPs?|containerStatuses|k8s\.v1\.cni\.cncf\.io/network-status)"?\s*:`)
	// describedPool matches an IPPool as kubectl describe writes it. In must-gathers of OpenShift before 4.14 pools are
	// like this only.
	describedPool = regexp.MustCompile(`(?m)^API Version:\s+whereabouts\.cni\.cncf\.io/\S+\s+^Kind:\s+IPPool$`)
	// objectHead matches the head of a file that kubectl writes.
	objectHead = regexp.MustCompile(`^([^\w#]|#.*\n)*(apiVersion|kind|items|metadata)"?\s*:`)
)

// withoutZeros makes UTF-16, which Windows writes, searchable.
func withoutZeros(text []byte) []byte { return bytes.ReplaceAll(text, []byte{0}, nil) }

// takeTimestamp reads the first time of a timestamp file of must-gather and inspect (oc, pkg/cli/admin/mustgather and
// pkg/cli/admin/inspect), in the form "2026-11-20 12:00:00.123 +0100 CET". Without a zone the time is UTC. Of several
// files the earliest time counts.
func (s *Snapshot) takeTimestamp(name string, head []byte) {
	fields := strings.Fields(string(head))
	if path.Base(name) != "timestamp" || len(fields) < 2 {
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
