package snapshot

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
)

// Manifest is what a bundle says of its files, and what judging needs that is in no object.
type Manifest struct {
	// Lists are the lists of objects, one for each kind that could be read.
	Lists []ListFile `json:"lists"`
	// Unknown are the sources that could not be read, each with the cause.
	Unknown []UnknownKind `json:"unknown"`
	// Paused is true where an operator paused all releases, or where that could not be read.
	Paused bool `json:"paused"`
	// Acknowledged is the ID of the etcd restore that an operator acknowledged.
	Acknowledged string `json:"acknowledged,omitempty"`
	// RestoreState is what ip-reconcile had stored of the last etcd restore; absent where names are hidden.
	RestoreState string `json:"restoreState,omitempty"`
	// Restored says how a restore of etcd was detected.
	Restored string `json:"restored,omitempty"`
	// Warnings are sentences on what could not be read.
	Warnings []string `json:"warnings"`
	// Unreadable are sentences on the objects that could not be decoded.
	Unreadable []string `json:"unreadable"`
}

// NewManifest returns a manifest without any list. Its lists are empty, and not null in JSON.
func NewManifest() Manifest {
	return Manifest{Lists: []ListFile{}, Unknown: []UnknownKind{}, Warnings: []string{}, Unreadable: []string{}}
}

// ListFile is a file with all objects of a kind.
type ListFile struct {
	// File is the name of the file.
	File string `json:"file"`
	// Kind is the kind of the objects.
	Kind string `json:"kind"`
	// Objects is the number of objects in the file.
	Objects int `json:"objects"`
	// ResourceVersion is that of the list.
	ResourceVersion string `json:"resourceVersion"`
}

// UnknownKind is a kind of objects that could not be read.
type UnknownKind struct {
	// Kind is the kind of the objects.
	Kind string `json:"kind"`
	// Why is the cause.
	Why string `json:"why"`
}

// List is a list of objects in JSON, as the API server answered it. Reduce may have reduced them.
type List struct {
	ResourceVersion string
	Objects         [][]byte
}

// Encoder writes the objects of an observation: what judging reads, and nothing else of the cluster.
type Encoder struct {
	Labels []string                       // the keys of the labels of Nodes that are kept
	Rename func(kind, name string) string // returns another name of a pod, namespace, node, workload or claim
}

// Encode calls add with each file of an observation, a List as kubectl writes it, and returns what the manifest says
// of them. list returns the objects of a resource.
func (e *Encoder) Encode(o *facts.Observation, list func(resource string) List, add func(name string, text []byte),
) (Manifest, error) {
	w := &writer{Encoder: e, nodes: nodesOf(o), hashes: map[string]string{}}
	m := NewManifest()
	m.Paused, m.Acknowledged, m.Restored, m.RestoreState = o.Paused, o.Acknowledged, o.Restored, o.RestoreState
	m.Warnings, m.Unreadable = append(m.Warnings, o.Warnings...), append(m.Unreadable, o.Unreadable...)
	if e.Rename != nil {
		m.hideNames()
	}
	for i := range writtenKinds {
		k := &writtenKinds[i]
		known := readOf(o, k.kind)
		if known.err != nil {
			m.Unknown = append(m.Unknown, UnknownKind{k.kind, e.why(known.err)})
			continue
		}
		copied := list(k.resource.Resource)
		if known.objects >= 0 && known.objects != len(copied.Objects) {
			return m, fmt.Errorf("%s: %d objects were read, and %d copied", k.kind, known.objects, len(copied.Objects))
		}
		text, count, err := w.list(k, copied)
		if err != nil {
			return m, fmt.Errorf("write a %s: %w", k.kind, err)
		}
		file := ListFile{k.resource.Resource + ".json", k.kind, count, copied.ResourceVersion}
		m.Lists = append(m.Lists, file)
		add(file.File, text)
	}
	return m, nil
}

// hideNames replaces the sentences that may have names, each by one that has none.
func (m *Manifest) hideNames() {
	m.Warnings = slices.Repeat([]string{"a warning that may have names"}, len(m.Warnings))
	m.Unreadable = slices.Repeat([]string{"an object could not be read"}, len(m.Unreadable))
	m.RestoreState = ""
	if m.Restored != "" {
		m.Restored = "an object had an older version than before"
	}
}

// why is the cause of an error: of one that may have names, only what the API server calls its reason.
func (e *Encoder) why(err error) string {
	if e.Rename == nil {
		return err.Error()
	}
	return "it could not be read: " + cmp.Or(string(apierrors.ReasonForError(err)), "the error may have names")
}

// nodesOf are the names of all nodes that an observation knows.
func nodesOf(o *facts.Observation) map[string]bool {
	nodes := map[string]bool{}
	for name := range o.Nodes.Or(nil) {
		nodes[name] = true
	}
	for _, r := range o.Reports.Or(nil) {
		nodes[r.Name] = true
	}
	for _, p := range o.Pods {
		nodes[p.Node] = p.Node != ""
	}
	return nodes
}

// list returns a List as kubectl writes it, with a line for each object.
func (w *writer) list(k *writtenKind, l List) (text []byte, count int, err error) {
	var out bytes.Buffer
	version, err := json.Marshal(l.ResourceVersion)
	if err != nil {
		return nil, 0, err
	}
	fmt.Fprintf(&out, `{"apiVersion":"v1","kind":"List","metadata":{"resourceVersion":%s},"items":[`, version)
	for _, object := range l.Objects {
		o, err := w.object(k, object)
		if err != nil {
			return nil, 0, err
		}
		if o == nil {
			continue
		}
		text, err := json.Marshal(o)
		if err != nil {
			return nil, 0, err
		}
		if count++; count > 1 {
			out.WriteByte(',')
		}
		out.WriteByte('\n')
		out.Write(text)
	}
	out.WriteString("\n]}\n")
	return out.Bytes(), count, nil
}

func (e *Encoder) name(kind, name string) string {
	if e.Rename == nil || name == "" {
		return name
	}
	return e.Rename(kind, name)
}

// source is how many objects of a kind were read, -1 if that is not counted, or why they are unknown.
type source struct {
	objects int
	err     error
}

func readOf(o *facts.Observation, kind string) source {
	switch kind {
	case "IPPool":
		return source{len(o.Pools), nil}
	case "Pod":
		return source{len(o.Pods), nil}
	case "OverlappingRangeIPReservation":
		return source{len(o.Reservations.Or(nil)), o.Reservations.Err()}
	case "NetworkAttachmentDefinition":
		return source{len(o.NADs.Or(nil)), o.NADs.Err()}
	case "IPAMClaim":
		return source{len(o.IPAMClaims.Or(nil)), o.IPAMClaims.Err()}
	case "VirtualMachineInstance":
		return source{len(o.Guests.Or(nil)), o.Guests.Err()}
	case "Node":
		return source{len(o.Nodes.Or(nil)), o.Nodes.Err()}
	case "SandboxReport":
		return source{len(o.Reports.Or(nil)), o.Reports.Err()}
	}
	return source{-1, o.AgentLeases.Err()} // of the Leases only those of agents are written
}
