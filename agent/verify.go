package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// DroppedError says that the API server stored a report without some of its fields. Its hash can
// match no Lease, and nobody may rely upon what is left.
type DroppedError struct {
	Node   string
	Fields []string // sandboxes.addressesUnread and the like
}

func (e *DroppedError) Error() string {
	return fmt.Sprintf("the API server stored SandboxReport %s without %s: the CustomResourceDefinition sandboxreports.ip-reconcile.dev is older than this agent (Helm never upgrades one); "+
		"apply the one of this version (kubectl apply --server-side --force-conflicts -f deploy/crds, or the crds folder of the chart)", e.Node, strings.Join(e.Fields, ", "))
}

// fieldPaths are fields of JSON, those of all entries of a list as one: sandboxes.id.
type fieldPaths map[string]bool

func (p fieldPaths) add(prefix string, v any) {
	switch v := v.(type) {
	case map[string]any:
		for name, field := range v {
			path := strings.TrimPrefix(prefix+"."+name, ".")
			p[path] = true
			p.add(path, field)
		}
	case []any:
		for _, entry := range v {
			p.add(prefix, entry)
		}
	}
}

// contentFields are the fields of a report but its metadata.
func contentFields(report []byte) (fieldPaths, error) {
	var fields map[string]any
	if err := json.Unmarshal(report, &fields); err != nil {
		return nil, err
	}
	delete(fields, "metadata")
	p := fieldPaths{}
	p.add("", fields)
	return p, nil
}

// verifyStored reads the report back when it is the first one, or has a field that none before
// it had: an older CustomResourceDefinition makes the API server drop what it does not
// know, without an error.
func (a *APIStore) verifyStored(ctx context.Context, report *v1alpha1.SandboxReport) error {
	sent, err := json.Marshal(report)
	if err != nil {
		return err
	}
	want, err := contentFields(sent)
	if err != nil {
		return err
	}
	known := func(path string, _ bool) bool { return a.storedFields[path] }
	if maps.DeleteFunc(want, known); len(want) == 0 {
		return nil
	}
	text, err := a.getReport(ctx)
	if err != nil {
		return err
	}
	var head metav1.PartialObjectMetadata
	err = json.Unmarshal(text, &head)
	stored, cerr := contentFields(text)
	if err := cmp.Or(err, cerr); err != nil {
		return fmt.Errorf("get SandboxReport %s: the answer cannot be read: %w", a.node, err)
	}
	if head.ResourceVersion != a.report.ResourceVersion {
		return fmt.Errorf("get SandboxReport %s: someone else changed it as soon as it was written", a.node)
	}
	dropped := maps.Clone(want)
	maps.DeleteFunc(dropped, func(path string, _ bool) bool { return stored[path] })
	if len(dropped) > 0 {
		return &DroppedError{Node: a.node, Fields: slices.Sorted(maps.Keys(dropped))}
	}
	if a.storedFields == nil {
		a.storedFields = fieldPaths{}
	}
	maps.Copy(a.storedFields, want)
	return nil
}
