package lean

import "k8s.io/apimachinery/pkg/types"

// Metadata is what is read of the metadata of an object or a List. A field of another type than it must have is "".
type Metadata struct {
	types.NamespacedName
	UID, ResourceVersion, Continue       string
	CreationTimestamp, DeletionTimestamp string
	Annotations                          map[string]string
}

// Read reads one value, and its annotations if they are needed.
func (m *Metadata) Read(r *Reader, needsAnnotations bool) {
	r.Object(func(name []byte) {
		switch string(name) {
		case "namespace":
			m.Namespace = r.Text()
		case "name":
			m.Name = r.Text()
		case "uid":
			m.UID = r.Text()
		case "resourceVersion":
			m.ResourceVersion = r.Text()
		case "continue":
			m.Continue = r.Text()
		case "creationTimestamp":
			m.CreationTimestamp = r.Text()
		case "deletionTimestamp":
			m.DeletionTimestamp = r.Text()
		case "annotations":
			if needsAnnotations {
				m.Annotations = map[string]string{}
				r.Object(func(name []byte) {
					key := string(name)
					m.Annotations[key] = r.Text()
				})
			}
		}
	})
}
