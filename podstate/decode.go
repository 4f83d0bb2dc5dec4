package podstate

import (
	"errors"
	"fmt"
	"slices"
	"unique"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
)

// The fields that are read of an object, by their numbers in k8s.io/api's generated.proto and their names in JSON.
// A test compares the result with that of decoding everything.
var (
	nameField, uidField, versionField = lean.F(1, "name"), lean.F(5, "uid"), lean.F(6, "resourceVersion")
	namespaceField, createdField      = lean.F(3, "namespace"), lean.F(8, "creationTimestamp")
	annotationsField, managedField    = lean.F(12, "annotations"), lean.F(17, "managedFields")
	// containers: in protobuf the name of an ephemeral container is one level deeper.
	containers = []lean.Field{lean.F(2, "containers", nameField), lean.F(20, "initContainers", nameField),
		lean.F(34, "ephemeralContainers", lean.F(0, "name"), lean.F(1, "", nameField))}
	finished = []lean.Field{nameField, lean.F(2, "state", lean.F(3, "terminated", lean.F(6, "finishedAt")))}

	conditionsField = lean.F(4, "conditions", lean.F(1, "type"), lean.F(2, "status"), lean.F(4, "lastTransitionTime"))

	podMetadata = []lean.Field{nameField, namespaceField, uidField, versionField, createdField,
		lean.F(9, "deletionTimestamp"), lean.F(10, "deletionGracePeriodSeconds"), annotationsField, lean.F(11, "labels"),
		lean.F(13, "ownerReferences", lean.F(1, "kind"), lean.F(3, "name"), lean.F(4, "uid"), lean.F(5, "apiVersion"),
			lean.F(6, "controller"))}
	podSpec   = append(containers, lean.F(4, "terminationGracePeriodSeconds"), lean.F(10, "nodeName"))
	podStatus = []lean.Field{lean.F(1, "phase"), lean.F(2, "conditions", lean.F(1, "type"), lean.F(2, "status")),
		lean.F(5, "hostIP"), lean.F(6, "podIP"), lean.F(12, "podIPs"), lean.F(7, "startTime"),
		lean.F(8, "containerStatuses", finished...),
		lean.F(10, "initContainerStatuses", finished...), lean.F(13, "ephemeralContainerStatuses", finished...)}
	// PodFields and NodeFields are the fields that ReadPod, WasBound and ReadNode read.
	PodFields = lean.Fields{lean.F(1, "metadata", podMetadata...), lean.F(2, "spec", podSpec...),
		lean.F(3, "status", podStatus...)}
	podFieldsAndManagers = lean.Fields{
		lean.F(1, "metadata", append(slices.Clip(podMetadata), managedField)...), PodFields[1], PodFields[2]}
	NodeFields = lean.Fields{
		lean.F(1, "metadata", nameField, uidField, versionField, createdField, lean.F(11, "labels")),
		lean.F(2, "spec", lean.F(5, "taints")),
		lean.F(3, "status", conditionsField, lean.F(5, "addresses", lean.F(1, "type"), lean.F(2, "address")),
			lean.F(7, "nodeInfo")),
	}
	leaseFields = lean.Fields{lean.F(1, "metadata", nameField, namespaceField, uidField, versionField,
		annotationsField, managedField), lean.F(2, "spec")}
	headFields = lean.Fields{lean.F(1, "metadata", nameField, namespaceField, uidField, versionField)}
)

// DecodePods decodes a LIST of pods in protobuf or JSON, and calls each with every pod. It omits none: a pod that
// cannot be decoded, or has no name, is an error.
func DecodePods(body []byte, each func(*Pod)) (metav1.ListMeta, error) {
	var text []byte
	return lean.List(body, "Pod", func(object []byte, isJSON bool) error {
		o, err := decodeObject[corev1.Pod](object, isJSON, PodFields, &text)
		if err == nil && mayBeCopied(o) {
			o, err = decodeObject[corev1.Pod](object, isJSON, podFieldsAndManagers, &text)
		}
		if err == nil && o.Namespace == "" {
			err = fmt.Errorf("a Pod without a namespace: %q", o.Name)
		}
		if err == nil {
			each(ReadPod(o))
		}
		return err
	})
}

// DecodeNodes is DecodePods for Nodes.
func DecodeNodes(body []byte, each func(*Node)) (metav1.ListMeta, error) {
	return decodeList(body, "Node", NodeFields, func(o *corev1.Node) { each(ReadNode(o)) })
}

// DecodeLeases is DecodePods for Leases, with the fields that ReadReport reads.
func DecodeLeases(body []byte, each func(*coordinationv1.Lease)) (metav1.ListMeta, error) {
	return decodeList(body, "Lease", leaseFields, each)
}

// DecodeHeads decodes the name, namespace, UID and resourceVersion of each object in a LIST.
func DecodeHeads(body []byte, each func(*metav1.PartialObjectMetadata)) (metav1.ListMeta, error) {
	return decodeList(body, "", headFields, each)
}

// message is an object of the API in protobuf.
type message[T any] interface {
	*T
	metav1.Object
	Unmarshal([]byte) error
}

func decodeList[T any, P message[T]](
	body []byte, kind string, kept lean.Fields, each func(P),
) (metav1.ListMeta, error) {
	var text []byte
	return lean.List(body, kind, func(object []byte, isJSON bool) error {
		o, err := decodeObject[T, P](object, isJSON, kept, &text)
		if err == nil {
			each(o)
		}
		return err
	})
}

// decodeObject decodes the kept fields of an object, which must have a name. text is a buffer.
func decodeObject[T any, P message[T]](object []byte, isJSON bool, kept lean.Fields, text *[]byte) (o P, err error) {
	o = P(new(T))
	if isJSON {
		*text = kept.AppendJSON((*text)[:0], lean.New(object))
		err = kjson.UnmarshalCaseSensitivePreserveInts(*text, o)
	} else if *text, err = kept.AppendProto((*text)[:0], object); err == nil {
		err = o.Unmarshal(*text)
	}
	switch name := o.GetName(); {
	case err != nil:
		return o, fmt.Errorf("an object %s/%s: %w", o.GetNamespace(), name, err)
	case name == "":
		return o, errors.New("an object without a name")
	}
	return o, nil
}

func intern(text string) string { return unique.Make(text).Value() }
