package fakeapi

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Key names an object: its resource as group/plural, its namespace and its name.
type Key struct{ Resource, Namespace, Name string }

// At returns the Key of an object; cluster-wide ones have no namespace.
func At(resource, namespace, name string) Key { return Key{resource, namespace, name} }

func (k Key) String() string {
	return strings.TrimPrefix(k.Resource[strings.IndexByte(k.Resource, '/')+1:]+" "+strings.TrimPrefix(k.Namespace+"/"+
		k.Name, "/"), "/")
}

// Object is one stored version of an object. It is immutable, so that a backup is a copy of the map.
type Object struct {
	UID, ResourceVersion, created string
	Content                       map[string]any
	JSON                          []byte
	meta                          []byte // the metadata alone
	managed                       managed
	Memo                          any // what a reader of the store made of it
}

// Change is one event of a watch.
type Change struct {
	Key
	Kind     string // ADDED, MODIFIED, DELETED
	revision uint64
	Object   *Object
}

// Store is etcd: objects at versions that are revisions of one counter.
type Store struct {
	Objects  map[Key]*Object
	Revision uint64
	changes  []Change
	Changed  func(Change, *Object) // called for each change with the version before
}

// NewStore returns an empty Store.
func NewStore() *Store { return &Store{Objects: map[Key]*Object{}, Revision: 100} }

// Backup is what etcd's snapshot has.
type Backup struct {
	At       time.Time
	objects  map[Key]*Object
	Revision uint64
}

// Backup returns what is stored now.
func (s *Store) Backup() *Backup { return &Backup{time.Now(), maps.Clone(s.Objects), s.Revision} }

// Restore restores a backup: revisions run backwards, as with etcdutl snapshot restore.
func (s *Store) Restore(b *Backup) {
	s.Objects, s.Revision, s.changes = maps.Clone(b.objects), b.Revision, nil
}

// Get returns an object, or nil.
func (s *Store) Get(k Key) *Object { return s.Objects[k] }

// ListOf returns the keys of a resource in the order of a list. An empty namespace or name selects all.
func ListOf(objects map[Key]*Object, resource, namespace, name string) []Key {
	var keys []Key
	for k := range objects {
		if k.Resource == resource && (namespace == "" || k.Namespace == namespace) && (name == "" || k.Name == name) {
			keys = append(keys, k)
		}
	}
	slices.SortFunc(keys, func(a, b Key) int { return strings.Compare(a.Namespace+"/"+a.Name, b.Namespace+"/"+b.Name) })
	return keys
}

// Put stores an object at a new revision, completed as the API server does at its time.
func (s *Store) Put(k Key, content map[string]any, now time.Time, by string) *Object {
	before := s.Objects[k]
	meta, _ := content["metadata"].(map[string]any)
	if meta == nil {
		meta = map[string]any{}
	}
	meta["name"] = k.Name
	if k.Namespace != "" {
		meta["namespace"] = k.Namespace
	}
	if before == nil {
		if meta["uid"] == nil {
			meta["uid"] = fmt.Sprintf("%08x-%s", s.Revision+1, by)
		}
		meta["creationTimestamp"] = now.UTC().Format(time.RFC3339)
	} else {
		meta["uid"] = before.UID
		if before.created != "" { // otherwise a test has stored it
			meta["creationTimestamp"] = before.created
		}
	}
	s.Revision++
	meta["resourceVersion"] = strconv.FormatUint(s.Revision, 10)
	content["metadata"] = meta
	var fields managed
	if k.Resource == Leases || k.Resource == Reports { // nobody reads those of others
		var old map[string]any
		if before != nil {
			old, fields = before.Content, before.managed
		}
		fields = fields.after(old, content, by, now)
		meta["managedFields"] = fields.entries()
	}
	o := Encode(content)
	o.managed = fields
	s.Objects[k] = o
	kind := "ADDED"
	if before != nil {
		kind = "MODIFIED"
	}
	s.record(Change{k, kind, s.Revision, o}, before)
	return o
}

// Encode makes an object of content that it owns from then on.
func Encode(content map[string]any) *Object {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err) // decoded JSON can be encoded
	}
	meta := content["metadata"].(map[string]any)
	o := &Object{Content: content, JSON: text}
	o.meta, _ = json.Marshal(meta)
	o.UID, _ = meta["uid"].(string)
	o.ResourceVersion, _ = meta["resourceVersion"].(string)
	o.created, _ = meta["creationTimestamp"].(string)
	return o
}

// Delete removes an object. Watches get its last state at the revision of the delete.
func (s *Store) Delete(k Key) {
	before := s.Objects[k]
	if before == nil {
		return
	}
	delete(s.Objects, k)
	s.Revision++
	last := maps.Clone(before.Content)
	meta := maps.Clone(last["metadata"].(map[string]any))
	meta["resourceVersion"] = strconv.FormatUint(s.Revision, 10)
	last["metadata"] = meta
	s.record(Change{k, "DELETED", s.Revision, Encode(last)}, before)
}

func (s *Store) record(c Change, before *Object) {
	s.changes = append(s.changes, c)
	if s.Changed != nil {
		s.Changed(c, before)
	}
}

// Decode returns the content of JSON, which is nil if it is none.
func Decode(text []byte) map[string]any {
	var m map[string]any
	if json.Unmarshal(text, &m) != nil {
		return nil
	}
	return m
}
