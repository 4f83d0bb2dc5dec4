package fakeapi

import (
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"
)

// managed are the fields that each manager wrote last, and when: the age of a report is derived from those times. Lists
// are one field.
type managed map[string]managedBy

type managedBy struct {
	at     time.Time
	fields map[string]any // by path
}

// after is the state after a write of a manager.
func (m managed) after(before, content map[string]any, by string, now time.Time) managed {
	was, is := map[string]any{}, map[string]any{}
	flatten(was, "", before)
	flatten(is, "", content)
	next := managed{}
	changed := map[string]any{}
	for path, value := range is {
		if old, there := was[path]; !there || !reflect.DeepEqual(old, value) {
			changed[path] = nil
		}
	}
	for name, entry := range m {
		kept := map[string]any{}
		for path := range entry.fields {
			_, taken := changed[path]
			if _, there := is[path]; there && (!taken || name == by) {
				kept[path] = nil
			}
		}
		if len(kept) > 0 {
			next[name] = managedBy{entry.at, kept}
		}
	}
	if len(changed) > 0 { // as in the API server, a write that only removes fields has no entry
		own := next[by]
		if own.fields == nil {
			own.fields = map[string]any{}
		}
		maps.Copy(own.fields, changed)
		own.at = now
		next[by] = own
	}
	return next
}

func flatten(into map[string]any, prefix string, content map[string]any) {
	for name, value := range content {
		path := prefix + "\x00" + name
		if inner, is := value.(map[string]any); is {
			flatten(into, path, inner)
			continue
		}
		switch path {
		case "\x00metadata\x00resourceVersion", "\x00metadata\x00managedFields", "\x00metadata\x00uid",
			"\x00metadata\x00creationTimestamp", "\x00metadata\x00name", "\x00metadata\x00namespace", "\x00kind",
			"\x00apiVersion":
		default:
			into[path] = value
		}
	}
}

// entries are the managedFields of an object.
func (m managed) entries() []any {
	all := []any{}
	for _, name := range slices.Sorted(maps.Keys(m)) {
		fields := map[string]any{}
		for path := range m[name].fields {
			at := fields
			for part := range strings.SplitSeq(path[1:], "\x00") {
				next, _ := at["f:"+part].(map[string]any)
				if next == nil {
					next = map[string]any{}
					at["f:"+part] = next
				}
				at = next
			}
		}
		all = append(all, map[string]any{"manager": name, "operation": "Update",
			"time": m[name].at.UTC().Format(time.RFC3339), "fieldsType": "FieldsV1", "fieldsV1": fields})
	}
	return all
}
