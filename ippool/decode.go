package ippool

import (
	"encoding/json"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
)

// DecodePools reads the JSON of a LIST of IPPools. It is an error if the text
// is no list.
func DecodePools(text []byte) ([]*Pool, metav1.ListMeta, error) { return decodeList(text, readPool) }

// DecodeReservations reads the JSON of a LIST of reservations. It is an error
// if the text is no list.
func DecodeReservations(text []byte) ([]*Reservation, metav1.ListMeta, error) {
	return decodeList(text, readReservation)
}

// DecodeNADs reads the JSON of a LIST of NetworkAttachmentDefinitions. It is an
// error if the text is no list.
func DecodeNADs(text []byte) ([]*NAD, metav1.ListMeta, error) { return decodeList(text, readNAD) }

func decode[T any](text []byte, read func(*lean.Reader) T) (T, error) {
	r := lean.New(text)
	v := read(r)
	return v, r.End()
}

func decodeObject[T any](o *unstructured.Unstructured, read func(*lean.Reader) T) (v T, err error) {
	text, err := json.Marshal(o.Object)
	if err != nil {
		return v, err
	}
	return decode(text, read)
}

func decodeList[T any](text []byte, read func(*lean.Reader) T) (all []T, page metav1.ListMeta, err error) {
	page, err = lean.List(text, func(object []byte, _ bool) error {
		v, err := decode(object, read)
		all = append(all, v)
		return err
	})
	if err != nil {
		return nil, metav1.ListMeta{}, err
	}
	return all, page, nil
}

// metadata is what is read of an object's. What is not a text is "", as in
// unstructured objects.
type metadata struct {
	namespace, name      string
	uid, resourceVersion string
	created, deleted     string
	paused               bool
	noUsageAlerts        bool
	more                 bool // fields that whereabouts does not write, and a copy of the object must have
}

func readMetadata(r *lean.Reader) metadata {
	var m metadata
	r.Object(func(name []byte) {
		switch string(name) {
		case "namespace":
			m.namespace = internedText(r)
		case "name":
			m.name = copyText(r)
		case "uid":
			m.uid = copyText(r)
		case "resourceVersion":
			m.resourceVersion = copyText(r)
		case "creationTimestamp":
			m.created = copyText(r)
		case "deletionTimestamp":
			m.deleted = copyText(r)
		case "annotations":
			m.readAnnotations(r)
			m.more = true
		case "generation", "managedFields", "selfLink", "deletionGracePeriodSeconds":
			// The API server's own.
		default:
			m.more = true
		}
	})
	return m
}

// readAnnotations reads the annotations that are known here. Of annotations that are
// not all texts none counts, as in unstructured objects.
func (m *metadata) readAnnotations(r *lean.Reader) {
	broken := false
	m.paused, m.noUsageAlerts = false, false // of a name that stands twice the last counts
	r.Object(func(name []byte) {
		text, ok := r.String()
		broken = broken || !ok
		switch string(name) {
		case PausedAnnotation:
			m.paused = isYes(string(text))
		case NoUsageAlertsAnnotation:
			m.noUsageAlerts = isYes(string(text))
		}
	})
	m.paused, m.noUsageAlerts = m.paused && !broken, m.noUsageAlerts && !broken
}

// copyText reads a text of its own: it does not keep the page in memory.
func copyText(r *lean.Reader) string {
	text, _ := r.String()
	return string(text)
}

// internedText reads a text that many objects have; they share it.
func internedText(r *lean.Reader) string {
	text, _ := r.String()
	return intern(text)
}

func intern(text []byte) string { return unique.Make(string(text)).Value() }
