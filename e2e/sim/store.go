package sim

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// key names an object: its resource as group/plural, its namespace and its name.
type key struct{ resource, namespace, name string }

func (k key) String() string {
	return strings.TrimPrefix(k.resource[strings.IndexByte(k.resource, '/')+1:]+" "+strings.TrimPrefix(k.namespace+"/"+
		k.name, "/"), "/")
}

// object is one stored version of an object. It is immutable, so that a backup is a copy of the map.
type object struct {
	UID, ResourceVersion, created string
	content                       map[string]any
	json                          []byte
	meta                          []byte // the metadata alone
	managed                       managed
	pod                           *podObject // the decoded pod, after its first use
}

// change is one event of a watch.
type change struct {
	key
	kind     string // ADDED, MODIFIED, DELETED
	revision uint64
	object   *object
}

// store is etcd: objects at versions that are revisions of one counter.
type store struct {
	objects  map[key]*object
	revision uint64
	changes  []change
	changed  func(change, *object) // called for each change with the version before
}

func newStore() *store { return &store{objects: map[key]*object{}, revision: 100} }

// backup is what etcd's snapshot has.
type backup struct {
	at       time.Time
	objects  map[key]*object
	revision uint64
}

func (s *store) backup() *backup { return &backup{time.Now(), maps.Clone(s.objects), s.revision} }

// restore restores a backup: revisions run backwards, as with etcdutl snapshot restore.
func (s *store) restore(b *backup) {
	s.objects, s.revision, s.changes = maps.Clone(b.objects), b.revision, nil
}

func (s *store) get(k key) *object { return s.objects[k] }

func listOf(objects map[key]*object, resource, namespace, name string) []key {
	var keys []key
	for k := range objects {
		if k.resource == resource && (namespace == "" || k.namespace == namespace) && (name == "" || k.name == name) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b key) int { return strings.Compare(a.namespace+"/"+a.name, b.namespace+"/"+b.name) })
	return keys
}

// put stores an object at a new revision, completed as the API server does at its time.
func (s *store) put(k key, content map[string]any, now time.Time, by string) *object {
	before := s.objects[k]
	meta, _ := content["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"] = k.name
	if k.namespace != "" {
		meta["namespace"] = k.namespace
	}
	if before == nil {
		if meta["uid"] == nil {
			meta["uid"] = fmt.Sprintf("%08x-%s", s.revision+1, by)
		}
		meta["creationTimestamp"] = now.UTC().Format(time.RFC3339)
	} else {
		meta["uid"], meta["creationTimestamp"] = before.UID, before.created
	}
	s.revision++
	meta["resourceVersion"] = strconv.FormatUint(s.revision, 10)
	content["metadata"] = meta
	var fields managed
	if k.resource == leases || k.resource == reports { // nobody reads those of others
		var old map[string]any
		if before != nil {
			old, fields = before.content, before.managed
		}
		fields = fields.after(old, content, by, now)
		meta["managedFields"] = fields.entries()
	}
	o := encode(content)
	o.managed = fields
	s.objects[k] = o
	kind := "ADDED"
	if before != nil {
		kind = "MODIFIED"
	}
	s.record(change{k, kind, s.revision, o}, before)
	return o
}

// encode makes an object of content that it owns from then on.
func encode(content map[string]any) *object {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err) // decoded JSON can be encoded
	}
	meta := content["metadata"].(map[string]any)
	o := &object{content: content, json: text}
	o.meta, _ = json.Marshal(meta)
	o.UID, _ = meta["uid"].(string)
	o.ResourceVersion, _ = meta["resourceVersion"].(string)
	o.created, _ = meta["creationTimestamp"].(string)
	return o
}

// delete removes an object. Watches get its last state at the revision of the delete.
func (s *store) delete(k key) {
	before := s.objects[k]
	if before == nil {
		return
	}
	delete(s.objects, k)
	s.revision++
	last := maps.Clone(before.content)
	meta := maps.Clone(last["metadata"].(map[string]any))
	meta["resourceVersion"] = strconv.FormatUint(s.revision, 10)
	last["metadata"] = meta
	s.record(change{k, "DELETED", s.revision, encode(last)}, before)
}

func (s *store) record(c change, before *object) {
	s.changes = append(s.changes, c)
	if s.changed != nil {
		s.changed(c, before)
	}
}

func decode(text []byte) map[string]any {
	var m map[string]any
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	return m
}
