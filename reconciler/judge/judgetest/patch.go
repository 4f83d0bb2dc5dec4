package judgetest

import (
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ApplyPatch applies a JSON patch to an object, its tests included, and returns the outcome; the object itself stays as
// it is. It fails where the API server would answer 422.
func ApplyPatch(o *unstructured.Unstructured, patch []byte) (*unstructured.Unstructured, error) {
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return nil, err
	}
	doc, err := o.MarshalJSON()
	if err != nil {
		return nil, err
	}
	if doc, err = decoded.Apply(doc); err != nil {
		return nil, err
	}
	out := &unstructured.Unstructured{}
	return out, out.UnmarshalJSON(doc)
}
