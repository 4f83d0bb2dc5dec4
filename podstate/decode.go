package podstate

import (
	"bytes"
	"fmt"
	"strings"
	"unique"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/ip-reconcile/ip-reconcile/internal/protofields"
)

// What is read of an object, by the numbers in k8s.io/api's generated.proto. A
// test holds what is decoded so against decoding everything.
var (
	objectMeta = protofields.Fields{
		1: nil, 3: nil, 5: nil, 6: nil, // name, namespace, uid, resourceVersion
		8: nil, 9: nil, 10: nil, // creationTimestamp, deletionTimestamp, deletionGracePeriodSeconds
		12: nil,                      // annotations
		13: {1: nil, 3: nil, 6: nil}, // ownerReferences.{kind, name, controller}
	}
	containers        = protofields.Fields{1: nil}                   // name
	containerStatuses = protofields.Fields{1: nil, 2: {3: {6: nil}}} // name, state.terminated.finishedAt
	podFields         = protofields.Fields{
		1: objectMeta,
		2: {2: containers, 20: containers, 34: {1: containers}, 4: nil, 10: nil}, // (init, ephemeral) containers, terminationGracePeriodSeconds, nodeName
		3: {1: nil, 2: {1: nil, 2: nil}, 6: nil, 12: nil, // phase, conditions.{type, status}, podIP, podIPs
			8: containerStatuses, 10: containerStatuses, 13: containerStatuses},
	}
	nodeFields = protofields.Fields{
		1: {1: nil, 5: nil, 6: nil, 8: nil, 11: nil}, // metadata.{name, uid, resourceVersion, creationTimestamp, labels}
		2: {5: nil},                                  // spec.taints
		3: {4: {1: nil, 2: nil, 4: nil}, 7: nil},     // status.{conditions.{type, status, lastTransitionTime}, nodeInfo}
	}
	leaseFields = protofields.Fields{
		1: {1: nil, 3: nil, 5: nil, 6: nil, 12: nil, 17: nil}, // metadata, with managedFields
		2: nil,
	}
	headFields = protofields.Fields{1: {1: nil, 3: nil, 5: nil, 6: nil}} // metadata.{name, namespace, uid, resourceVersion}
)

// DecodePods reads a LIST of pods, in protobuf or JSON, and calls each with
// what ReadPod takes from every pod.
func DecodePods(body []byte, each func(*Pod)) (metav1.ListMeta, error) {
	return decodeList(body, podFields, func(o *corev1.Pod) { each(ReadPod(o)) })
}

// DecodeNodes is DecodePods for Nodes.
func DecodeNodes(body []byte, each func(*Node)) (metav1.ListMeta, error) {
	return decodeList(body, nodeFields, func(o *corev1.Node) { each(ReadNode(o)) })
}

// DecodeLeases is DecodePods for Leases, of which all is kept that ReadReport reads.
func DecodeLeases(body []byte, each func(*coordinationv1.Lease)) (metav1.ListMeta, error) {
	return decodeList(body, leaseFields, each)
}

// DecodeHeads reads a LIST of metadata: the name, namespace, UID and
// resourceVersion of each object.
func DecodeHeads(body []byte, each func(*metav1.PartialObjectMetadata)) (metav1.ListMeta, error) {
	return decodeList(body, headFields, each)
}

func decodeList[T any, P interface {
	*T
	Unmarshal([]byte) error
}](body []byte, kept protofields.Fields, each func(P)) (metav1.ListMeta, error) {
	envelope, ok := bytes.CutPrefix(body, []byte("k8s\x00"))
	if !ok {
		return decodeJSONList(body, func(o *T) { each(o) })
	}
	list, err := listIn(envelope)
	if err != nil {
		return metav1.ListMeta{}, err
	}
	var meta metav1.ListMeta
	var lean []byte
	err = protofields.Each(list, func(number protowire.Number, value []byte) (err error) {
		switch number {
		case 1:
			return meta.Unmarshal(value)
		case 2:
			if lean, err = kept.Append(lean[:0], value); err != nil {
				return err
			}
			o := P(new(T))
			if err = o.Unmarshal(lean); err == nil {
				each(o)
			}
		}
		return err
	})
	if err != nil {
		return metav1.ListMeta{}, fmt.Errorf("read a list: %w", err)
	}
	return meta, nil
}

// listIn is the message in the envelope that the API server puts around it
// (k8s.io/apimachinery, pkg/runtime/serializer/protobuf): after four bytes of its
// own a runtime.Unknown, with the kind in its first field and the message in its
// second.
func listIn(envelope []byte) (list []byte, err error) {
	kind, there := "", false
	err = protofields.Each(envelope, func(number protowire.Number, value []byte) error {
		switch number {
		case 1:
			return protofields.Each(value, func(number protowire.Number, value []byte) error {
				if number == 2 {
					kind = string(value)
				}
				return nil
			})
		case 2:
			list, there = value, true
		}
		return nil
	})
	if err == nil && (!there || !strings.HasSuffix(kind, "List")) {
		err = fmt.Errorf("the answer is a %q", kind)
	}
	if err != nil {
		return nil, fmt.Errorf("read a list: %w", err)
	}
	return list, nil
}

func decodeJSONList[T any](body []byte, each func(*T)) (metav1.ListMeta, error) {
	var list struct {
		metav1.TypeMeta `json:",inline"`
		metav1.ListMeta `json:"metadata"`
		Items           []T `json:"items"`
	}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(body, &list); err != nil {
		return metav1.ListMeta{}, fmt.Errorf("read a list: %w", err)
	}
	if !strings.HasSuffix(list.Kind, "List") {
		return metav1.ListMeta{}, fmt.Errorf("read a list: the answer is a %q", list.Kind)
	}
	for i := range list.Items {
		each(&list.Items[i])
	}
	return list.ListMeta, nil
}

// intern makes equal texts of many objects one.
func intern(text string) string { return unique.Make(text).Value() }
