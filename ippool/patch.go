package ippool

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

	// The library and version with which the API server applies patches.
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
)

// MaxRemovals is how many entries one patch changes at most. The API server takes 10,000 operations (apiserver,
// endpoints/handlers/patch.go, maxJSONPatchOperations). An entry needs two, and the resourceVersion one.
const MaxRemovals = 4999

// operation is an operation of a patch with a value. A test for null is true if the path does not exist.
type operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

func versionTest(p *Pool) operation {
	return operation{"test", versionPath, p.ResourceVersion}
}

const (
	versionPath = "/metadata/resourceVersion"
	entriesPath = "/spec/allocations/"
)

// The escapes of RFC 6901 in both directions.
var (
	pointerEscapes = strings.NewReplacer("~", "~0", "/", "~1")
	pointerNames   = strings.NewReplacer("~1", "/", "~0", "~")
)

func entryPath(key string) string { return entriesPath + pointerEscapes.Replace(key) }

// RemovePatch builds the JSON patch that removes the given entries of the pool. It tests the resourceVersion and each
// entry. The patch is applied to the pool as it was read, and is an error if it changes anything else there.
func RemovePatch(p *Pool, allocations []Allocation) ([]byte, error) {
	ops := []any{versionTest(p)}
	gone := map[string]bool{}
	for i := range allocations {
		a := &allocations[i]
		if a.Problem != "" {
			return nil, fmt.Errorf("pool %s: entry %q is %s and is never removed", p.Ref(), a.Key, a.Problem)
		}
		remove := map[string]string{"op": "remove", "path": entryPath(a.Key)}
		ops = append(ops, operation{"test", entryPath(a.Key), a.Entry()}, remove)
		gone[a.Key] = true
	}
	return marshalChecked(p, ops, len(allocations), change{gone: gone})
}

// NewEntry is an entry that WritePatch writes. An IfName of "" is not written. Replaces is the entry under that key;
// nil if the key is unused. One with a Claim is never replaced.
type NewEntry struct {
	Key, ContainerID, PodRef, IfName string
	Replaces                         *Allocation
}

// WritePatch builds the JSON patch that adds entries to the pool or replaces them. It tests the resourceVersion, and
// that each key is unused or has the entry that is replaced.
func WritePatch(p *Pool, entries []NewEntry) ([]byte, error) {
	ops := []any{versionTest(p)}
	meant := change{gone: map[string]bool{}, added: map[string]Entry{}}
	for i := range entries {
		e := &entries[i]
		test, write := operation{"test", entryPath(e.Key), nil}, "add"
		if old := e.Replaces; old != nil {
			if old.Problem != "" || old.Claim != nil || old.Key != e.Key {
				return nil, fmt.Errorf("pool %s: entry %q (%s) is never replaced under key %q",
					p.Ref(), old.Key, old.Problem, e.Key)
			}
			test.Value, write = old.Entry(), "replace"
			meant.gone[e.Key] = true
		}
		entry := Entry{ID: &e.ContainerID, PodRef: &e.PodRef}
		if e.IfName != "" {
			entry.IfName = &e.IfName
		}
		ops = append(ops, test, operation{write, entryPath(e.Key), entry})
		meant.added[e.Key] = entry
	}
	return marshalChecked(p, ops, len(entries), meant)
}

// change is the intended change of a patch to the entries of a pool, by key.
type change struct {
	gone  map[string]bool
	added map[string]Entry
}

// marshalChecked applies a patch to the pool as it was read and compares the result with the intended change. It is the
// last check before a write that could let an address be assigned twice.
func marshalChecked(p *Pool, ops []any, entries int, meant change) ([]byte, error) {
	if entries > MaxRemovals {
		return nil, fmt.Errorf("pool %s: %d entries in one patch; the API server takes %d", p.Ref(), entries, MaxRemovals)
	}
	if p.ResourceVersion == "" {
		return nil, fmt.Errorf("pool %s has no resourceVersion: a patch could not test it", p.Ref())
	}
	patch, err := json.Marshal(ops)
	if err != nil {
		return nil, fmt.Errorf("pool %s: build patch: %w", p.Ref(), err)
	}
	if err := check(p, patch, meant); err != nil {
		return nil, fmt.Errorf("pool %s: %w", p.Ref(), err)
	}
	return patch, nil
}

func check(p *Pool, patch []byte, meant change) error {
	decoded, err := jsonpatch.DecodePatch(patch)
	if err != nil {
		return fmt.Errorf("read the patch: %w", err)
	}
	keys, err := keysOf(decoded)
	if err != nil {
		return err
	}
	before, after, err := p.beforeAndAfter(keys, meant)
	if err != nil {
		return err
	}
	got, err := decoded.Apply(before)
	if err != nil {
		return fmt.Errorf("the patch does not apply to what was read: %w", err)
	}
	if !bytes.Equal(got, after) {
		return errors.New("the patch would change more than the entries meant; it was not sent")
	}
	return nil
}

// keysOf are the keys of all entries in a patch. Operations on anything else are an error, except the test of the
// resourceVersion.
func keysOf(patch jsonpatch.Patch) (map[string]bool, error) {
	keys := map[string]bool{}
	for _, op := range patch {
		path, err := op.Path()
		if err != nil {
			return nil, fmt.Errorf("read the patch: %w", err)
		}
		if op.Kind() == "test" && path == versionPath {
			continue
		}
		key, ok := strings.CutPrefix(path, entriesPath)
		if _, from := op["from"]; !ok || from || strings.Contains(key, "/") {
			return nil, fmt.Errorf("the patch would %s %q, which is no entry; it was not sent", op.Kind(), path)
		}
		keys[pointerNames.Replace(key)] = true
	}
	return keys, nil
}

// beforeAndAfter are the pool before and after a change as JSON with sorted names: the resourceVersion and the entries
// in the patch. An entry that must not change is a text of its own.
func (p *Pool) beforeAndAfter(keys map[string]bool, meant change) (before, after []byte, err error) {
	maps.Copy(keys, meant.gone)
	was, will := map[string]any{}, map[string]any{}
	for key := range keys {
		switch a := p.Find(key); {
		case a == nil:
		case a.Problem == "" && meant.gone[key]:
			was[key] = a.Entry()
		default:
			was[key] = "the entry under " + key
			will[key] = was[key]
		}
	}
	for key, e := range meant.added {
		will[key] = e
	}
	if before, err = p.marshalOutline(was); err == nil {
		after, err = p.marshalOutline(will)
	}
	return before, after, err
}

func (p *Pool) marshalOutline(entries map[string]any) ([]byte, error) {
	spec := map[string]any{"allocations": entries}
	if p.NoMap {
		spec = map[string]any{}
	}
	metadata := map[string]any{"resourceVersion": p.ResourceVersion}
	text, err := json.Marshal(map[string]any{"metadata": metadata, "spec": spec})
	if err != nil {
		return nil, fmt.Errorf("write what was read as JSON: %w", err)
	}
	return text, nil
}
