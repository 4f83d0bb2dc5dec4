package fakeapi

import (
	"errors"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4" // kube-apiserver's
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ApplyPatch applies a JSON patch to an object, its tests included, and returns the outcome; the object itself stays as
// it is. It fails where the API server would answer 422.
func ApplyPatch(o *unstructured.Unstructured, patch []byte) (*unstructured.Unstructured, error) {
	doc, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if doc, err = applyPatch(doc, patch); err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON(doc)
}

var errNoPatch = errors.New("it is no JSON patch")

func applyPatch(doc, patch []byte) ([]byte, error) {
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", errNoPatch, err)
	}
	return decoded.Apply(doc)
}
