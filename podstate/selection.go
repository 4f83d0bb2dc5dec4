package podstate

import (
	"encoding/json"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	selectionAnnotation      = "k8s.v1.cni.cncf.io/networks"
	defaultNetworkAnnotation = "v1.multus-cni.io/default-network"
	// multusNamespace is where Multus looks for a default network without a namespace, unless its
	// configuration says otherwise (v4.2.4, pkg/types/conf.go, defaultMultusNamespace).
	multusNamespace = "kube-system"
)

// maxSelected is how many networks of a pod are read: a tenant writes as many as fit.
const maxSelected = 64

// readSelection are the NetworkAttachmentDefinitions that a pod asks Multus for, one for each interface: by
// name, by namespace and name, with or without an interface, or in JSON (multus v4.2.4, pkg/k8sclient/k8sclient.go,
// parsePodNetworkAnnotation and tryLoadK8sPodDefaultNetwork). None where Multus could not read them either.
func readSelection(o *corev1.Pod) []types.NamespacedName {
	selected, ok := parseSelection(o.Annotations[selectionAnnotation], o.Namespace)
	first, defaultOK := parseSelection(o.Annotations[defaultNetworkAnnotation], multusNamespace)
	if !ok || !defaultOK || len(first) > 1 || len(selected) > maxSelected {
		return nil
	}
	return append(first, selected...)
}

func parseSelection(text, namespace string) (selected []types.NamespacedName, ok bool) {
	add := func(ns, name string) {
		if ns == "" {
			ns = namespace
		}
		selected = append(selected, types.NamespacedName{Namespace: intern(ns), Name: intern(name)})
	}
	switch {
	case text == "":
		return nil, true
	case strings.ContainsAny(text, `[{"`):
		var list []*struct {
			Namespace string `json:"namespace"`
			Name      string `json:"name"`
		}
		if json.Unmarshal([]byte(text), &list) != nil {
			return nil, false
		}
		for _, e := range list {
			if e == nil || len(selected) > maxSelected {
				return nil, false
			}
			add(e.Namespace, e.Name)
		}
		return selected, true
	}
	for item := range strings.SplitSeq(text, ",") {
		ns, rest, slash := strings.Cut(strings.TrimSpace(item), "/")
		if !slash {
			ns, rest = "", ns
		}
		name, _, _ := strings.Cut(rest, "@")
		ns, name = strings.TrimSpace(ns), strings.TrimSpace(name)
		if strings.Contains(rest, "/") || strings.Count(rest, "@") > 1 || !isLabel(ns) || !isLabel(name) || len(selected) > maxSelected {
			return nil, false
		}
		add(ns, name)
	}
	return selected, true
}

// isLabel reports whether Multus takes a text for a name in a list of names; it does not mind an empty one.
func isLabel(text string) bool {
	return strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" && !strings.HasPrefix(text, "-") && !strings.HasSuffix(text, "-")
}

// workload is the kind and name of the pod's controller, such as "ReplicaSet/web-7d4b9c", "" for none.
func workload(o *corev1.Pod) string {
	for i := range o.OwnerReferences {
		if r := &o.OwnerReferences[i]; r.Controller != nil && *r.Controller {
			return intern(r.Kind + "/" + r.Name)
		}
	}
	return ""
}
