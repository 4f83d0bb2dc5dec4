package snapshot

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Writable reports whether it is a folder: an archive, a single file and a stream are only
// read, and every write is an error.
func (f *Folder) Writable() bool { return f.dir != nil }

var errReadOnly = errors.New("only a folder can be written to: unpack the snapshot, and give the folder")

// List reads everything that is in the folder.
func (f *Folder) List(context.Context) (*judge.Observation, error) { return f.observe(), nil }

// Relist reads the folder as it is by now.
func (f *Folder) Relist(context.Context, *judge.Observation) (*judge.Observation, error) {
	return f.observe(), nil
}

// GetLive finds nothing changed: nobody else writes to a snapshot.
func (f *Folder) GetLive(context.Context, *judge.Observation, reconciler.LiveKeys) (*judge.Live, error) {
	return &judge.Live{}, nil
}

// Hold runs work, and then writes the files that it changed: nobody else writes
// to a snapshot, so there is no Lease to take.
func (f *Folder) Hold(ctx context.Context, _ string, _ []string, work func(context.Context, *reconciler.Hold) error) error {
	if !f.Writable() {
		return errReadOnly
	}
	err := work(ctx, &reconciler.Hold{})
	for _, file := range f.files {
		if file.changed {
			if werr := file.write(); werr != nil {
				err = errors.Join(err, werr)
				continue
			}
			file.changed = false
		}
	}
	return err
}

// PatchPool applies the patch, its tests included, and does in the file what it
// did to the object.
func (f *Folder) PatchPool(_ context.Context, p *ippool.Pool, patch []byte) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	i := slices.IndexFunc(f.pools, func(x pool) bool { return x.Namespace == p.Namespace && x.Name == p.Name })
	if i < 0 {
		return "", fmt.Errorf("patch IPPool %s: %w", p.Ref(), reconciler.ErrConflict)
	}
	o := f.pools[i].object
	s, err := f.inFile(o)
	if err != nil {
		return "", fmt.Errorf("patch IPPool %s in %s: %w", p.Ref(), o.file.path, err)
	}
	before, err := s.whole()
	if err != nil {
		return "", fmt.Errorf("patch IPPool %s in %s: %w", p.Ref(), o.file.path, err)
	}
	if before.GetResourceVersion() == "" {
		before.SetResourceVersion(noVersion)
	}
	after, err := ippool.ApplyPatch(before, patch)
	if err != nil {
		return "", fmt.Errorf("patch IPPool %s: %w: %v", p.Ref(), reconciler.ErrConflict, err) //nolint:errorlint // its cause decides nothing
	}
	had, _, _ := unstructured.NestedMap(before.Object, "spec", "allocations")
	has, _, _ := unstructured.NestedMap(after.Object, "spec", "allocations")
	for key := range had {
		if _, still := has[key]; !still {
			s.removeEntry(key)
		}
	}
	for key, entry := range has {
		if was, already := had[key]; !already || !reflect.DeepEqual(was, entry) {
			if err := s.setEntry(key, entry); err != nil {
				return "", fmt.Errorf("patch IPPool %s in %s: %w", p.Ref(), o.file.path, err)
			}
		}
	}
	f.pools[i].Pool, o.file.changed = ippool.ReadPool(after), true
	return p.ResourceVersion, nil
}

var errAliased = errors.New("the file has YAML aliases, and a change might reach other objects; write it without them")

func (s *stored) removeEntry(key string) {
	if s.node != nil {
		removeKey(child(child(s.node, "spec"), "allocations"), key)
		return
	}
	delete(s.value["spec"].(map[string]any)["allocations"].(map[string]any), key)
}

// setEntry writes an entry, in the place of one that has the key.
func (s *stored) setEntry(key string, entry any) error {
	if s.node == nil {
		spec := s.value["spec"].(map[string]any)
		entries, ok := spec["allocations"].(map[string]any)
		if !ok {
			entries = map[string]any{}
			spec["allocations"] = entries
		}
		entries[key] = entry
		return nil
	}
	entries := child(child(s.node, "spec"), "allocations")
	if entries == nil || entries.Kind != yaml.MappingNode {
		return errors.New("spec.allocations is not a map")
	}
	value := &yaml.Node{}
	if err := value.Encode(entry); err != nil {
		return err
	}
	if was := child(entries, key); was != nil {
		value.Style = was.Style
		*was = *value
		return nil
	}
	entries.Style &^= yaml.FlowStyle
	entries.Content = append(entries.Content, &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Style: yaml.DoubleQuotedStyle, Value: key}, value)
	return nil
}

// DeleteReservation removes the object from its file, and the file where
// nothing else is in it.
func (f *Folder) DeleteReservation(_ context.Context, r *ippool.Reservation) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	found := f.find(r.Namespace, r.Name)
	if found == nil || found.uid != r.UID {
		return nil
	}
	o := found.object
	s, err := f.inFile(o)
	if err != nil {
		return fmt.Errorf("delete reservation %s in %s: %w", r.Ref(), o.file.path, err)
	}
	s.removed, o.file.changed = true, true
	found.deleted = true
	delete(f.byName, types.NamespacedName{Namespace: r.Namespace, Name: r.Name})
	return nil
}

// CreatePool writes the object to a file of its own.
func (f *Folder) CreatePool(_ context.Context, u *unstructured.Unstructured) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if slices.ContainsFunc(f.pools, func(p pool) bool { return p.Namespace == u.GetNamespace() && p.Name == u.GetName() }) {
		return "", fmt.Errorf("create pool %s/%s: %w", u.GetNamespace(), u.GetName(), reconciler.ErrConflict)
	}
	o, err := f.addFile("pool", u)
	if err != nil {
		return "", err
	}
	p := ippool.ReadPool(u)
	p.ResourceVersion = noVersion
	f.pools = append(f.pools, pool{Pool: p, object: o})
	return noVersion, nil
}

// CreateReservation writes the object to a file of its own.
func (f *Folder) CreateReservation(_ context.Context, u *unstructured.Unstructured) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.find(u.GetNamespace(), u.GetName()) != nil {
		return fmt.Errorf("create reservation %s/%s: %w", u.GetNamespace(), u.GetName(), reconciler.ErrConflict)
	}
	o, err := f.addFile("reservation", u)
	if err == nil {
		f.keep(&reservation{Reservation: ippool.ReadReservation(u), object: o})
	}
	return err
}

// addFile puts a new object into a file of its own.
func (f *Folder) addFile(kind string, u *unstructured.Unstructured) (*object, error) {
	// It becomes the name of a file, and comes from the snapshot.
	if wrong := slices.Concat(validation.IsDNS1123Label(u.GetNamespace()), validation.IsDNS1123Subdomain(u.GetName())); len(wrong) > 0 {
		return nil, fmt.Errorf("create %s %q in namespace %q: no object can have these names: %s", kind, u.GetName(), u.GetNamespace(), wrong[0])
	}
	doc := &yaml.Node{}
	if err := doc.Encode(u.Object); err != nil {
		return nil, fmt.Errorf("create %s %s/%s: %w", kind, u.GetNamespace(), u.GetName(), err)
	}
	name := f.unused(kind + "-" + u.GetNamespace() + "-" + u.GetName())
	file := &file{
		dir: f.dir, name: name, path: f.dir.path(name),
		mode: 0o644, changed: true,
		yaml: []*yaml.Node{{Kind: yaml.DocumentNode, Content: []*yaml.Node{doc}}},
	}
	file.loaded = []*stored{{node: doc, in: file.yaml[0]}}
	f.files = append(f.files, file)
	f.names[name] = true
	return &object{namespace: u.GetNamespace(), name: u.GetName(), uid: string(u.GetUID()), file: file}, nil
}

// inFile is the object where it is to be changed. One that stands in several files is not: the
// other copies would go on saying what was.
func (f *Folder) inFile(o *object) (*stored, error) {
	if where := f.twice[o.ref()]; where != "" {
		return nil, errors.New(where)
	}
	return o.inFile()
}

// keep takes in a reservation.
func (f *Folder) keep(r *reservation) {
	f.reservations = append(f.reservations, r)
	f.byName[types.NamespacedName{Namespace: r.Namespace, Name: r.Name}] = r
}

// find is the reservation of that name, nil if there is none.
func (f *Folder) find(namespace, name string) *reservation {
	return f.byName[types.NamespacedName{Namespace: namespace, Name: name}]
}

// unused is the name of a file that is not there.
func (f *Folder) unused(name string) string {
	for n := 1; ; n++ {
		free := name + ".yaml"
		if n > 1 {
			free = fmt.Sprintf("%s-%d.yaml", name, n)
		}
		if _, err := f.dir.root.Lstat(free); err != nil && !f.names[free] {
			return free
		}
	}
}
