package sim

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	jsonpatch "github.com/evanphx/json-patch/v5"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
)

// apiServer answers requests as kube-apiserver does: resourceVersions, preconditions,
// JSON patches whose tests fail with 422, conflicts with 409, lists and watches.
type apiServer struct {
	*store
	now     func() time.Time // by the server's clock
	watches []*watch         // that are open, in the order in which they were opened
	// stale is the state of a watch cache that lags behind: it serves lists at resourceVersion 0.
	stale   *backup
	stalled bool // the watches of pods stand still
}

const (
	pods         = "/pods"
	nodes        = "/nodes"
	leases       = "coordination.k8s.io/leases"
	pools        = "whereabouts.cni.cncf.io/ippools"
	reservations = "whereabouts.cni.cncf.io/overlappingrangeipreservations"
	nads         = "k8s.cni.cncf.io/network-attachment-definitions"
	reports      = "ip-reconcile.dev/sandboxreports"
)

// served are the kinds: apiVersion and kind by resource.
var served = map[string]struct{ apiVersion, kind string }{
	pods:           {"v1", "Pod"},
	nodes:          {"v1", "Node"},
	"/namespaces":  {"v1", "Namespace"},
	"/events":      {"v1", "Event"},
	leases:         {"coordination.k8s.io/v1", "Lease"},
	pools:          {"whereabouts.cni.cncf.io/v1alpha1", "IPPool"},
	reservations:   {"whereabouts.cni.cncf.io/v1alpha1", "OverlappingRangeIPReservation"},
	nads:           {"k8s.cni.cncf.io/v1", "NetworkAttachmentDefinition"},
	reports:        {"ip-reconcile.dev/v1alpha1", "SandboxReport"},
	nodeSlicePools: {"whereabouts.cni.cncf.io/v1alpha1", "NodeSlicePool"},
	claims:         {"k8s.cni.cncf.io/v1alpha1", "IPAMClaim"},
}

// kind returns the apiVersion and kind of the answer.
func (q *request) kind() (apiVersion, kind string) {
	if q.metadataOnly() {
		return "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	return served[q.resource].apiVersion, served[q.resource].kind
}

// request is a request as the server receives it.
type request struct {
	key
	method string
	query  url.Values
	accept string
	body   []byte
	by     string // the client
}

// answer is the server's answer; watch is the stream of a watch.
type answer struct {
	status int
	body   []byte
	date   time.Time
	retry  string // Retry-After
	watch  *watch
	err    error // instead of an answer
	// versions are those of the objects in the answer, see versionsFor.
	versions map[key]uint64
}

func parseRequest(r *http.Request, body []byte, by string) *request {
	q := &request{method: r.Method, query: r.URL.Query(), accept: r.Header.Get("Accept"), body: body, by: by}
	q.query.Del("timeoutSeconds") // any is drawn, and no watch lasts as long
	// A copy: the store would keep the whole URL by a part of it.
	parts := strings.Split(strings.Clone(strings.Trim(r.URL.Path, "/")), "/")
	group := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = parts[1], parts[3:]
	default: // discovery
		q.resource = "discovery"
		q.name = r.URL.Path
		return q
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.namespace, parts = parts[1], parts[2:]
	}
	q.resource = group + "/" + parts[0]
	if len(parts) > 1 {
		q.name = parts[1]
	}
	if field := q.query.Get("fieldSelector"); q.name == "" && field != "" {
		for term := range strings.SplitSeq(field, ",") {
			name, value, _ := strings.Cut(term, "=")
			switch name {
			case "metadata.name":
				q.query.Set("name", value)
			case "metadata.namespace":
				q.namespace = value
			}
		}
	}
	return q
}

// writes reports whether a request may change an object.
func (q *request) writes() bool { return q.method != http.MethodGet }

// traced reports whether a reader of a trace needs the request.
func (q *request) traced() bool {
	switch q.resource {
	case leases, reports, "/events", "authorization.k8s.io/selfsubjectaccessreviews":
		return false
	}
	return q.writes()
}

func (q *request) String() string { return q.by + ": " + q.method + " " + q.key.String() }

// serve performs a request and answers it.
func (s *apiServer) serve(q *request) answer {
	a := s.answerTo(q)
	a.date = s.now()
	return a
}

func (s *apiServer) answerTo(q *request) answer {
	if q.resource == "discovery" {
		return s.discovery(q)
	}
	if q.resource == "authorization.k8s.io/selfsubjectaccessreviews" {
		return ok(map[string]any{"kind": "SelfSubjectAccessReview", "apiVersion": "authorization.k8s.io/v1",
			"status": map[string]any{"allowed": true}})
	}
	if served[q.resource].kind == "" {
		return s.emptyList(q)
	}
	switch q.method {
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
	return failure(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, q.method)
}

func ok(content any) answer {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return answer{status: http.StatusOK, body: text}
}

func failure(code int, reason metav1.StatusReason, message string) answer {
	a := ok(map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"reason": string(reason), "code": code, "message": message})
	a.status = code
	return a
}

func (s *apiServer) discovery(q *request) answer {
	if q.name == "/apis" {
		return ok(map[string]any{"kind": "APIGroupList", "groups": []any{map[string]any{"name": "ip-reconcile.dev"}}})
	}
	return ok(map[string]any{"kind": "APIResourceList", "groupVersion": strings.TrimPrefix(q.name, "/apis/"),
		"resources": []any{
			map[string]any{"name": "sandboxreports", "kind": "SandboxReport"},
			map[string]any{"name": "overlappingrangeipreservations", "kind": "OverlappingRangeIPReservation",
				"namespaced": true},
		}})
}

func (s *apiServer) emptyList(q *request) answer {
	if q.method == http.MethodGet && q.name == "" {
		return ok(map[string]any{"kind": "List", "apiVersion": "v1",
			"metadata": map[string]any{"resourceVersion": strconv.FormatUint(s.revision, 10)}, "items": []any{}})
	}
	return failure(http.StatusNotFound, metav1.StatusReasonNotFound, q.String())
}

func (q *request) metadataOnly() bool { return strings.Contains(q.accept, "as=PartialObjectMetadata") }

// shown is an object in the form that the request accepts.
func (q *request) shown(o *object) []byte {
	if !q.metadataOnly() {
		return o.json
	}
	var b bytes.Buffer
	b.WriteString(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`)
	b.Write(o.meta)
	b.WriteByte('}')
	return b.Bytes()
}

func (s *apiServer) read(q *request) answer {
	if watching := q.query.Get("watch"); watching == "true" || watching == "1" {
		return s.watch(q)
	}
	if q.name != "" {
		if o := s.get(q.key); o != nil {
			return answer{status: http.StatusOK, body: q.shown(o)}
		}
		return s.notFound(q)
	}
	from := &backup{objects: s.objects, revision: s.revision}
	if q.query.Get("resourceVersion") == "0" && s.stale != nil {
		from = s.stale
	}
	apiVersion, kind := q.kind()
	var b bytes.Buffer
	fmt.Fprintf(&b, `{"kind":"%sList","apiVersion":"%s","metadata":{"resourceVersion":"%d"},"items":[`, kind, apiVersion,
		from.revision)
	for i, k := range listOf(from.objects, q.resource, q.namespace, q.query.Get("name")) {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(q.shown(from.objects[k]))
	}
	b.WriteString("]}")
	return answer{status: http.StatusOK, body: b.Bytes()}
}

func (s *apiServer) notFound(q *request) answer {
	group, kind, _ := strings.Cut(q.resource, "/")
	a := ok(map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"reason": string(metav1.StatusReasonNotFound), "code": http.StatusNotFound, "message": q.key.String() + " not found",
		"details": map[string]any{"group": group, "kind": kind, "name": q.name}})
	a.status = http.StatusNotFound
	return a
}

func (s *apiServer) create(q *request) answer {
	content, err := decodeBody(q.body)
	if err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	k := q.key
	meta, _ := content["metadata"].(map[string]any)
	k.name, _ = meta["name"].(string)
	if s.get(k) != nil {
		return failure(http.StatusConflict, metav1.StatusReasonAlreadyExists, k.String()+" already exists")
	}
	delete(meta, "uid")
	return answer{status: http.StatusCreated, body: q.shown(s.put(k, content, s.now(), q.by))}
}

func (s *apiServer) update(q *request) answer {
	content, err := decodeBody(q.body)
	if err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	before := s.get(q.key)
	if before == nil {
		return s.notFound(q)
	}
	meta, _ := content["metadata"].(map[string]any)
	if v, _ := meta["resourceVersion"].(string); v != "" && v != before.ResourceVersion {
		return failure(http.StatusConflict, metav1.StatusReasonConflict, q.key.String()+": the object has been modified")
	}
	return answer{status: http.StatusOK, body: q.shown(s.put(q.key, content, s.now(), q.by))}
}

func (s *apiServer) patch(q *request) answer {
	before := s.get(q.key)
	if before == nil {
		return s.notFound(q)
	}
	p, err := jsonpatch.DecodePatch(q.body)
	if err != nil {
		return failure(http.StatusBadRequest, metav1.StatusReasonBadRequest, err.Error())
	}
	after, err := p.Apply(before.json)
	if err != nil {
		return failure(http.StatusUnprocessableEntity, metav1.StatusReasonInvalid, err.Error())
	}
	return answer{status: http.StatusOK, body: q.shown(s.put(q.key, decode(after), s.now(), q.by))}
}

func (s *apiServer) remove(q *request) answer {
	before := s.get(q.key)
	if before == nil {
		return s.notFound(q)
	}
	var options struct {
		Preconditions *metav1.Preconditions `json:"preconditions"`
	}
	if content, err := decodeBody(q.body); err == nil {
		text, _ := json.Marshal(content)
		_ = json.Unmarshal(text, &options)
	}
	if p := options.Preconditions; p != nil {
		if p.UID != nil && string(*p.UID) != before.UID || p.ResourceVersion != nil &&
			*p.ResourceVersion != before.ResourceVersion {
			return failure(http.StatusConflict, metav1.StatusReasonConflict, q.key.String()+": the precondition does not hold")
		}
	}
	s.delete(q.key)
	return ok(map[string]any{"kind": "Status", "apiVersion": "v1", "status": "Success"})
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
	return decode(text), nil
}

// response is the answer as a client's transport returns it.
func (a answer) response(r *http.Request) (*http.Response, error) {
	if a.err != nil {
		return nil, a.err
	}
	h := http.Header{"Content-Type": {"application/json"}, "Date": {a.date.UTC().Format(http.TimeFormat)}}
	if a.retry != "" {
		h.Set("Retry-After", a.retry)
	}
	resp := &http.Response{StatusCode: a.status, Status: strconv.Itoa(a.status) + " " + http.StatusText(a.status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Request: r, ContentLength: -1}
	if a.watch != nil {
		resp.Body = a.watch.body(r.Context())
		return resp, nil
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(a.body)), int64(len(a.body))
	return resp, nil
}
