package snapshot

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

type object struct {
	kind, apiVersion string
	lean.Metadata
	isAny  bool   // has any field of an object
	isList bool   // has items
	isDump bool   // is in a List, or is one, with the resourceVersion that sysdump writes, and kubectl leaves empty
	event  string // the kind of the object of a watch event
	text   []byte // its JSON until it is decoded; nil for an empty list, which has the kind of its objects
	path   string // of its file, for messages

	metadata []byte // its JSON
	twice    string // a field of the head that appears twice; readers disagree on which one counts
}

// headFields are the fields that readHead reads of an object or a List.
var headFields = [...]string{"apiVersion", "kind", "metadata", "items"}

// readHead reads what is known of an object or List before it is decoded, and calls item for each of its items.
func (o *object) readHead(r *lean.Reader, item func()) (isObject bool) {
	var has [len(headFields)]bool
	return r.Object(func(name []byte) {
		if at := slices.Index(headFields[:], string(name)); at >= 0 {
			if has[at] {
				o.twice = headFields[at]
			}
			has[at] = true
		}
		switch string(name) {
		case "kind":
			o.kind = r.Text()
		case "apiVersion":
			o.apiVersion = r.Text()
		case "metadata":
			o.metadata = r.Raw()
			o.Read(lean.New(o.metadata), false)
		case "items":
			o.isList = o.isList || r.Kind() == '[' || r.Kind() == 'n' // null is a list without items
			r.Array(item)
		case "object":
			var inner object
			inner.readHead(r, func() {})
			o.event = inner.kind
			return
		default:
			return
		}
		o.isAny = true
	})
}

func (o *object) ref() string { return o.kind + " " + o.Namespace + "/" + o.Name }

// objectsOf returns the objects of a file and the items of its Lists. isAny is false where it has neither. An error
// with isAny is about an object or a List.
func objectsOf(e entry, text []byte) (objects []*object, isAny bool, err error) {
	documents := [][]byte{text}
	isJSON := path.Ext(strings.TrimSuffix(e.name, ".gz")) == ".json" || bytes.HasPrefix(bytes.TrimSpace(text), []byte("{"))
	if !isJSON {
		if documents, err = asJSON(e.path, text); err != nil {
			return nil, false, err
		}
	}
	for _, d := range documents {
		for r := lean.New(d); r.More(); {
			found, is, err := readObjects(r, e.path, 0)
			if isAny = isAny || is; err != nil {
				return nil, isAny, err
			}
			if objects = append(objects, found...); len(objects) > maxObjects {
				return nil, isAny, fmt.Errorf("%s %w: it has more than %d objects: export them in several files",
					e.path, errTooLarge, maxObjects)
			}
		}
	}
	return objects, isAny, nil
}

// readObjects reads one JSON value: an object, or a List with the items of Lists in it. A value without any field of an
// object is neither. An empty List is one object of its items' kind.
func readObjects(r *lean.Reader, path string, depth int) (found []*object, isAny bool, err error) {
	start, o := *r, &object{path: path}
	var items [][]byte
	isObject := o.readHead(r, func() {
		if raw := r.Raw(); len(items) <= maxObjects {
			items = append(items, raw)
		}
	})
	if err := r.Err(); err != nil {
		return nil, false, fmt.Errorf("%s is not JSON: %w", path, err)
	}
	if !isObject {
		return nil, hasObjects(&start), fmt.Errorf("%s: a value is not a Kubernetes object: "+
			"must hold one JSON object, a List for several", path)
	}
	if !o.isList {
		o.text = start.Raw()
		return []*object{o}, o.isAny && o.kind != "Status", o.check()
	}
	o.isDump = o.kind == "List" && o.ResourceVersion != ""
	kind, isTyped := strings.CutSuffix(o.kind, "List")
	if isTyped = isTyped && kind != ""; len(items) == 0 {
		err = o.checkList(depth, false)
		o.kind = kind
		return []*object{o}, true, err
	}
	_, isOfJudged := kinds[kind]
	isAny = isTyped && isOfJudged
	for i, raw := range items {
		inner, isInner, err := readObjects(lean.New(raw), path, depth+1)
		if isAny = isAny || isInner; err != nil && !errors.Is(err, errNoKind) {
			return nil, isAny, fmt.Errorf("%w (items[%d] of a %s)", err, i, o.kind)
		}
		if len(inner) == 1 && !inner[0].isList && inner[0].kind == "" && isTyped { // for example a PodList names no kinds
			inner[0].kind, inner[0].apiVersion = kind, o.apiVersion
			err = inner[0].check()
		}
		isOther := func(in *object) bool { // and would be ignored
			return isTyped && isOfJudged && in.kind != kind && in.judgedKind() == ""
		}
		if at := slices.IndexFunc(inner, isOther); err == nil && at >= 0 {
			err = fmt.Errorf("%s: %s is of another kind than its list: export it again", path, inner[at].ref())
		}
		if err != nil {
			return nil, isAny, fmt.Errorf("%w (items[%d] of a %s)", err, i, o.kind)
		}
		for _, in := range inner {
			in.isDump = in.isDump || o.isDump
		}
		if found = append(found, inner...); len(found) > maxObjects {
			break
		}
	}
	return found, isAny, o.checkList(depth, true)
}

// hasObjects reports whether a JSON value is an array with a Kubernetes object.
func hasObjects(r *lean.Reader) (has bool) {
	r.Array(func() {
		var o object
		o.readHead(r, func() {})
		has = has || o.isAny
	})
	return has
}

// maxListDepth limits Lists in Lists, which jq glues.
const maxListDepth = 4

var errNoKind = errors.New("has no kind, so it cannot be read: export it again, with -o yaml or -o json alone")

// checkList checks that a List has all of its objects.
func (o *object) checkList(depth int, hasItems bool) error {
	switch {
	case o.checkHead() != nil:
		return o.checkHead()
	case depth > maxListDepth:
		return fmt.Errorf("%s: Lists in more than %d Lists", o.path, maxListDepth)
	case o.Continue != "" || o.Remaining != 0:
		return fmt.Errorf("%s: the %s is incomplete: its metadata has a continue token or a remainingItemCount. "+
			"Export it again, all of it: kubectl get does so, and kubectl get --raw does so without a limit", o.path, o.kind)
	case hasItems && !strings.HasSuffix(o.kind, "List"): // kubectl writes the kind behind the items of YAML
		return fmt.Errorf("%s: the kind of a List does not follow its items: the file is cut, or it was edited. "+
			"Export it again, or add 'kind: List' if nothing is missing", o.path)
	}
	return nil
}

// checkHead checks that nothing by which an object or a List is known appears twice: an object of which one kind is
// judged, and another is not, would count as missing.
func (o *object) checkHead() error {
	v := values{Reader: lean.New(o.metadata), most: maxValues}
	if o.metadata != nil && o.twice == "" {
		v.check()
	}
	if twice := cmp.Or(o.twice, v.twice); twice != "" {
		return fmt.Errorf("%s: duplicate field %q in the head of a %s: export it again", o.path, twice, o.kind)
	}
	return nil
}

// check checks that a value is an object with all of its fields, by its kind.
func (o *object) check() error {
	_, isEventOfJudged := kinds[o.event]
	list, isList := strings.CutSuffix(o.kind, "List")
	_, isListOfJudged := kinds[list]
	group := schema.FromAPIVersionAndKind(o.apiVersion, o.kind).Group
	switch {
	case o.twice != "":
		return o.checkHead()
	case !o.isAny && isEventOfJudged:
		return fmt.Errorf("%s: a watch event of a %s is no object: export the objects without --watch", o.path, o.event)
	case o.kind == "" && o.Name != "":
		return fmt.Errorf("%s: %s/%s %w", o.path, o.Namespace, o.Name, errNoKind)
	case isList && (list == "" || isListOfJudged):
		return fmt.Errorf("%s: the %s has no items: the file is cut, or it was edited: export it again", o.path, o.kind)
	case group == metav1.GroupName && o.kind == "Table", strings.HasPrefix(o.kind, "PartialObjectMetadata"):
		return fmt.Errorf("%s: a %s has little of its objects: export them with -o yaml or -o json, "+
			"or remove the file", o.path, o.kind)
	}
	return nil
}

// shrink reduces the object to the fields that are judged.
func (o *object) shrink() {
	switch _, known := kinds[o.kind]; {
	case !known:
		o.text = nil
	case o.kind == "Pod":
		o.text, _ = podstate.ReducedPod(o.text) // checkValues returns the error
	case o.kind == "Node":
		o.text = podstate.NodeFields.AppendJSON(nil, lean.New(o.text))
	}
}

// checkValues checks the values of an object before it is decoded. A key that appears twice is an error: readers
// disagree on which one counts. So are more values than an API server's object has.
func (o *object) checkValues() error {
	if o.text == nil {
		return nil
	}
	v := values{Reader: lean.New(o.text), most: maxValues}
	if o.kind == "Pod" || o.kind == "Node" {
		v.most = maxValuesOfPod
	}
	v.check()
	switch err := v.End(); {
	case v.twice != "":
		return fmt.Errorf("%s: %s: duplicate field %q", o.path, o.ref(), v.twice)
	case v.count > v.most:
		return fmt.Errorf("%s %w: %s has more than %d values", o.path, errTooLarge, o.ref(), v.most)
	case err != nil:
		return fmt.Errorf("%s: %s: %w", o.path, o.ref(), err)
	}
	return nil
}

// values counts the values of a JSON text, and finds a key that an object has twice.
type values struct {
	*lean.Reader
	count, most int
	path        []string
	twice       string
}

// check checks the next value. It reads no more once something is wrong.
func (v *values) check() {
	if v.count++; v.count > v.most || v.twice != "" {
		return
	}
	switch v.Kind() {
	case '{':
		var keys map[string]bool
		v.Object(func(name []byte) {
			if keys == nil {
				keys = map[string]bool{}
			}
			key := string(name)
			v.path = append(v.path, key)
			if keys[key] && v.twice == "" {
				v.twice = strings.Join(v.path, ".")
			}
			keys[key] = true
			v.check()
			v.path = v.path[:len(v.path)-1]
		})
	case '[':
		v.Array(v.check)
	}
}
