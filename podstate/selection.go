package podstate

import (
	"encoding/json"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

const (
	selectionAnnotation      = "k8s.v1.cni.cncf.io/networks"
	defaultNetworkAnnotation = "v1.multus-cni.io/default-network"
	// multusNamespace is Multus' default namespace of a default network (v4.2.4, pkg/types/conf.go,
	// defaultMultusNamespace).
	multusNamespace = "kube-system"
)

// maxSelected limits the networks of a pod, because a tenant may write any number.
const maxSelected = 64

// readSelection returns the NetworkAttachmentDefinitions that a pod requests, one for each interface, as Multus
// reads them (v4.2.4, pkg/k8sclient/k8sclient.go, parsePodNetworkAnnotation and tryLoadK8sPodDefaultNetwork). It
// returns none if Multus could not read them.
func readSelection(o *corev1.Pod) []types.NamespacedName {
	selected, ok := parseSelection(o.Annotations[selectionAnnotation], o.Namespace)
	first, defaultOK := parseSelection(o.Annotations[defaultNetworkAnnotation], multusNamespace)
	if !ok || !defaultOK || len(first) > 1 || len(selected) > maxSelected {
		return nil
	}
	return append(first, selected...)
}

// unattached returns the requested networks without an interface. It returns none if an interface has no network's
// name, since that may be any of them.
func unattached(selected []types.NamespacedName, interfaces []Interface) (missing []types.NamespacedName) {
	isOf := func(network string) bool {
		return slices.ContainsFunc(interfaces, func(i Interface) bool { return i.Network == network && !i.Default })
	}
	for _, name := range selected {
		if name.Name != "" && !isOf("") && !isOf(name.String()) {
			missing = append(missing, name)
		}
	}
	return missing
}

func parseSelection(text, namespace string) (selected []types.NamespacedName, ok bool) {
	if len(text) > maxAnnotation {
		return nil, false
	}
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
			if e == nil || len(selected) > maxSelected || len(e.Name)+len(e.Namespace) > maxName {
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
		if strings.Contains(rest, "/") || strings.Count(rest, "@") > 1 || !isLabel(ns) || !isLabel(name) ||
			len(selected) > maxSelected || len(item) > maxName {
			return nil, false
		}
		add(ns, name)
	}
	return selected, true
}

// isLabel reports whether Multus accepts a name in a list of names. It accepts "".
func isLabel(text string) bool {
	return strings.Trim(text, "abcdefghijklmnopqrstuvwxyz0123456789-") == "" &&
		!strings.HasPrefix(text, "-") && !strings.HasSuffix(text, "-")
}

// workload returns the pod's controller, such as "ReplicaSet/web-7d4b9c", "" for none.
func workload(o *corev1.Pod) string {
	for i := range o.OwnerReferences {
		if r := &o.OwnerReferences[i]; r.Controller != nil && *r.Controller {
			return intern(r.Kind + "/" + r.Name)
		}
	}
	return ""
}

// hasUniqueName reports whether the pod's controller gives each of its pods a name with random letters, by generateName
// (Kubernetes v1.36, pkg/controller/controller_utils.go, GetPodFromTemplate; KubeVirt v1.6,
// pkg/virt-controller/services/template.go). The name of a StatefulSet's pod is given again.
func hasUniqueName(o *corev1.Pod) bool {
	return slices.ContainsFunc(o.OwnerReferences, func(r metav1.OwnerReference) bool {
		kinds := []string{"v1/ReplicationController", "apps/v1/ReplicaSet", "apps/v1/DaemonSet", "batch/v1/Job",
			"kubevirt.io/v1/VirtualMachineInstance"}
		return r.Controller != nil && *r.Controller && slices.Contains(kinds, r.APIVersion+"/"+r.Kind)
	})
}
