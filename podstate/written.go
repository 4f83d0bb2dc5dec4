package podstate

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
)

// ReducedAnnotations returns the annotations that ReadPod reads of a pod, with what it reads of them and nothing else:
// neither the CNI arguments of a network nor a text that is no list. ReadPod reads the same from both. rename gives the
// namespaces of networks other names.
func ReducedAnnotations(annotations map[string]string, namespace string, rename func(namespace string) string,
) map[string]string {
	reduced := map[string]string{}
	for name, reduce := range map[string]func(text string) string{
		mirrorAnnotation:         strings.Clone,
		statusAnnotation:         func(text string) string { return reducedStatus(text, rename) },
		oldStatusAnnotation:      func(text string) string { return reducedStatus(text, rename) },
		selectionAnnotation:      func(text string) string { return reducedSelection(text, namespace, rename) },
		defaultNetworkAnnotation: func(text string) string { return reducedSelection(text, multusNamespace, rename) },
	} {
		if text, has := annotations[name]; has {
			reduced[name] = reduce(text)
		}
	}
	return reduced
}

// unreadable is in place of a text that cannot be read, and cannot be read either.
const unreadable = "[unreadable"

// writtenEntry is a statusEntry as it is written.
type writtenEntry struct {
	Name      string    `json:"name,omitempty"`
	Interface string    `json:"interface,omitempty"`
	Default   bool      `json:"default,omitempty"`
	IPs       []*string `json:"ips,omitempty"`
}

func reducedStatus(text string, rename func(string) string) string {
	if strings.TrimSpace(text) == "" {
		return text
	}
	entries, err := readEntries([]byte(text))
	if err != nil || len(text) > maxAnnotation {
		return unreadable
	}
	reduced := make([]*writtenEntry, len(entries))
	for i, e := range entries {
		if e == nil {
			continue
		}
		w := &writtenEntry{Name: cut(e.Name), Interface: cut(e.Interface), Default: e.Default}
		if namespace, name, ok := (Interface{Network: e.Name}).NAD(); ok && w.Name == e.Name {
			w.Name = rename(namespace) + "/" + name
		}
		for _, ip := range e.IPs {
			if ip != nil {
				if _, err := parseAddr(*ip); err != nil {
					ip = new("unreadable")
				}
			}
			w.IPs = append(w.IPs, ip)
		}
		reduced[i] = w
	}
	return asText(reduced)
}

// cut returns a name, or one that is too long to be kept in place of one that is.
func cut(name string) string {
	if len(name) > maxName {
		return strings.Repeat("x", maxName+1)
	}
	return name
}

func reducedSelection(text, namespace string, rename func(string) string) string {
	selected, ok := parseSelection(text, namespace)
	isRenamed := func(network types.NamespacedName) bool { return rename(network.Namespace) != network.Namespace }
	switch {
	case !ok:
		return unreadable
	case !strings.ContainsAny(text, `[{"`) && !slices.ContainsFunc(selected, isRenamed): // a list of names
		return text
	}
	type network struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	}
	reduced := make([]network, len(selected))
	for i, s := range selected {
		reduced[i] = network{rename(s.Namespace), s.Name}
	}
	return asText(reduced)
}

func asText(list any) string {
	text, err := json.Marshal(list)
	if err != nil {
		return unreadable
	}
	return string(text)
}

// multusPrefix begins the annotations with a network-status.
const multusPrefix = "k8s.v1.cni.cncf.io/network"

// ReducedPod returns the JSON of a pod with the fields that ReadPod reads. It has managedFields only of a pod that may
// have the network-status of another pod: one that has not started, with an annotation of Multus.
func ReducedPod(text []byte) ([]byte, error) {
	phase, head := "", lean.New(text)
	head.Object(func(name []byte) {
		if string(name) == "status" {
			head.Object(func(name []byte) {
				if string(name) == "phase" {
					phase = head.Text()
				}
			})
		}
	})
	kept := PodFields
	if (phase == "" || phase == string(corev1.PodPending)) && bytes.Contains(text, []byte(multusPrefix)) {
		kept = podFieldsAndManagers
	}
	r := lean.New(text)
	return kept.AppendJSON(nil, r), r.End()
}
