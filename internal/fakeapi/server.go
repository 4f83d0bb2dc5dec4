package fakeapi

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// Server answers requests as kube-apiserver does: resourceVersions, preconditions, JSON patches whose tests fail with
// 422, conflicts with 409, lists and watches.
type Server struct {
	sync.Mutex // held by a Client for each request, and by a test that changes objects meanwhile
	*Store
	Now     func() time.Time // by the server's clock
	watches []*watch         // that are open, in the order in which they were opened
	// stale is the state of a watch cache that lags behind: it serves lists at resourceVersion 0.
	Stale   *Backup
	stalled string // the resource whose watches stand still
	// NotServed are groups whose CustomResourceDefinitions somebody deleted.
	NotServed map[string]bool
}

// NewServer returns a Server without objects, which sends changes to watches at once.
func NewServer() *Server {
	s := &Server{Store: NewStore(), Now: time.Now}
	s.Changed = func(c Change, _ *Object) { s.Publish(c) }
	return s
}

const (
	Pods         = "/pods"
	Nodes        = "/nodes"
	Namespaces   = "/namespaces"
	Events       = "/events"
	Leases       = "coordination.k8s.io/leases"
	Pools        = "whereabouts.cni.cncf.io/ippools"
	Reservations = "whereabouts.cni.cncf.io/overlappingrangeipreservations"
	NADs         = "k8s.cni.cncf.io/network-attachment-definitions"
	Reports      = "ip-reconcile.dev/sandboxreports"
	Claims       = "k8s.cni.cncf.io/ipamclaims"

	NodeSlicePools = "whereabouts.cni.cncf.io/nodeslicepools"
)

// served are the kinds: apiVersion and kind by resource.
var served = map[string]struct{ apiVersion, kind string }{
	Pods:           {"v1", "Pod"},
	Nodes:          {"v1", "Node"},
	Namespaces:     {"v1", "Namespace"},
	Events:         {"v1", "Event"},
	Leases:         {"coordination.k8s.io/v1", "Lease"},
	Pools:          {"whereabouts.cni.cncf.io/v1alpha1", "IPPool"},
	Reservations:   {"whereabouts.cni.cncf.io/v1alpha1", "OverlappingRangeIPReservation"},
	NADs:           {"k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"},
	Reports:        {"ip-reconcile.dev/v1alpha1", "SandboxReport"},
	NodeSlicePools: {"whereabouts.cni.cncf.io/v1alpha1", "NodeSlicePool"},
	Claims:         {"k8s.cni.cncf.io/v1alpha1", "IPAMClaim"},
}

// Serve performs a request and answers it.
func (s *Server) Serve(q *Request) Answer {
	a := s.answerTo(q)
	a.Date = s.Now()
	return a
}

func (s *Server) answerTo(q *Request) Answer {
	if s.NotServed[q.group()] {
		return s.notFound(q)
	}
	if q.Resource == "discovery" {
		return s.Discovery(q)
	}
	if q.Resource == "authorization.k8s.io/selfsubjectaccessreviews" {
		return OK(map[string]any{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
			"status": map[string]any{"allowed": true}})
	}
	if served[q.Resource].kind == "" {
		return s.emptyList(q)
	}
	switch q.Method {
	case http.MethodGet:
		return s.read(q)
	case http.MethodPost:
		return s.create(q)
	case http.MethodPut:
		return s.update(q)
	case http.MethodPatch:
		return s.patch(q)
	case http.MethodDelete:
		return s.remove(q)
	}
	return Failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, q.Method)
}

// Discovery answers requests for the groups and resources that the server has.
func (s *Server) Discovery(q *Request) Answer {
	if q.Name == "/apis" {
		return OK(map[string]any{"kind": "APIGroupList", "groups": []any{map[string]any{"name": "ip-reconcile.dev"}}})
	}
	return OK(map[string]any{"kind": "APIResourceList", "groupVersion": strings.TrimPrefix(q.Name, "/apis/"),
		"resources": []any{
			map[string]any{"name": "sandboxreports", "kind": "SandboxReport"},
			map[string]any{"name": "overlappingrangeipreservations", "kind": "OverlappingRangeIPReservation",
				"namespaced": true},
		}})
}

func (s *Server) emptyList(q *Request) Answer {
	if q.Method == http.MethodGet && q.Name == "" {
		return OK(map[string]any{"kind": "List", "apiVersion": "v1",
			"metadata": map[string]any{"resourceVersion": strconv.FormatUint(s.Revision, 10)}, "items": []any{}})
	}
	return Failure(http.StatusNotFound, metav1.StatusReasonNotFound, q.String())
}

func (s *Server) read(q *Request) Answer {
	if watching := q.Query.Get("watch"); watching == "true" || watching == "1" {
		return s.watch(q)
	}
	if q.Name != "" {
		if o := s.Get(q.Key); o != nil {
			return Answer{Status: http.StatusOK, Body: q.shown(o)}
		}
		return s.notFound(q)
	}
	from := &Backup{objects: s.Objects, Revision: s.Revision}
	if q.Query.Get("resourceVersion") == "0" && s.Stale != nil {
		from = s.Stale
	}
	apiVersion, kind := q.kind()
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":"%sList","apiVersion":"%s","metadata":{"resourceVersion":"%d"},"items":[`, kind, apiVersion,
		from.Revision)
	for i, k := range ListOf(from.objects, q.Resource, q.Namespace, q.Query.Get("name")) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(q.shown(from.objects[k]))
	}
	b.WriteString("]}")
	return Answer{Status: http.StatusOK, Body: b.Bytes()}
}

func (s *Server) notFound(q *Request) Answer {
	group, kind, _ := strings.Cut(q.Resource, "/")
	a := OK(map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"reason": string(metav1.StatusReasonNotFound), "code": http.StatusNotFound, "message": q.Key.String() + " not found",
		"details": map[string]any{"group": group, "kind": kind, "name": q.Name}})
	a.Status = http.StatusNotFound
	return a
}

func (s *Server) create(q *Request) Answer {
	content, err := decodeObject(q.Body)
	if err != nil {
		return Failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	k := q.Key
	meta, _ := content["metadata"].(map[string]any)
	k.Name, _ = meta["name"].(string)
	if meta["resourceVersion"] != nil && meta["resourceVersion"] != "" {
		return Failure(http.StatusBadRequest, metav1.StatusReasonBadRequest,
			"resourceVersion should not be set on objects to be created")
	}
	if s.Get(k) != nil {
		return Failure(http.StatusConflict, metav1.StatusReasonAlreadyExists, k.String()+" already exists")
	}
	delete(meta, "uid")
	return Answer{Status: http.StatusCreated, Body: q.shown(s.Put(k, content, s.Now(), q.by))}
}

// isUpdatedBlindly has the resources that may be replaced without a resourceVersion.
var isUpdatedBlindly = map[string]bool{Pods: true, Nodes: true, Namespaces: true, Events: true}

func (s *Server) update(q *Request) Answer {
	content, err := decodeObject(q.Body)
	if err != nil {
		return Failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	before := s.Get(q.Key)
	if before == nil {
		return s.notFound(q)
	}
	meta, _ := content["metadata"].(map[string]any)
	switch v, _ := meta["resourceVersion"].(string); {
	case v == "" && !isUpdatedBlindly[q.Resource]:
		return Failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid,
			"metadata.resourceVersion: must be specified for an update")
	case v != "" && v != before.ResourceVersion:
		return Failure(http.StatusConflict, metav1.StatusReasonConflict, q.Key.String()+": the object has been modified")
	}
	return Answer{Status: http.StatusOK, Body: q.shown(s.Put(q.Key, content, s.Now(), q.by))}
}

func (s *Server) patch(q *Request) Answer {
	before := s.Get(q.Key)
	if before == nil {
		return s.notFound(q)
	}
	after, err := applyPatch(before.JSON, q.Body)
	switch {
	case errors.Is(err, errNoPatch):
		return Failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	case err != nil:
		return Failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, err.Error())
	}
	return Answer{Status: http.StatusOK, Body: q.shown(s.Put(q.Key, Decode(after), s.Now(), q.by))}
}

func (s *Server) remove(q *Request) Answer {
	before := s.Get(q.Key)
	if before == nil {
		return s.notFound(q)
	}
	var options struct {
		Preconditions *metav1.Preconditions `json:"preconditions"`
	}
	if content, err := decodeBody(q.Body); err == nil {
		text, _ := json.Marshal(content)
		_ = json.Unmarshal(text, &options)
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && string(*p.UID) != before.UID || p.ResourceVersion != nil &&
			*p.ResourceVersion != before.ResourceVersion {
			return Failure(http.StatusConflict, metav1.StatusReasonConflict, q.Key.String()+": the precondition does not hold")
		}
	}
	s.Delete(q.Key)
	return OK(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
}

// decodeObject reads a body that is an object.
func decodeObject(body []byte) (map[string]any, error) {
	content, err := decodeBody(body)
	if err == nil && (content["apiVersion"] == nil || content["kind"] == nil) {
		err = errors.New("the object has no apiVersion or no kind")
	}
	return content, err
}

// decodeBody reads a body in JSON or protobuf.
func decodeBody(body []byte) (map[string]any, error) {
	if !bytes.HasPrefix(body, []byte("k8s\x00")) {
		var m map[string]any
		err := json.Unmarshal(body, &m)
		return m, err
	}
	o, _, err := scheme.Codecs.UniversalDeserializer().Decode(body, nil, nil)
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(o)
	if err != nil {
		return nil, err
	}
	return Decode(text), nil
}
