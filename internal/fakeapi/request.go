package fakeapi

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Request is a request as the server receives it.
type Request struct {
	Key
	Method string
	Query  url.Values
	accept string
	Body   []byte
	by     string // the client
}

// ParseRequest returns a request of a client as the server receives it.
func ParseRequest(r *http.Request, body []byte, by string) *Request {
	q := &Request{Method: r.Method, Query: r.URL.Query(), accept: r.Header.Get("Accept"), Body: body, by: by}
	q.Query.Del("timeoutSeconds") // any is drawn, and no watch lasts as long
	// A copy: the store would keep the whole URL by a part of it.
	parts := strings.Split(strings.Clone(strings.Trim(r.URL.Path, "/")), "/")
	group := ""
	switch {
	case len(parts) > 2 && parts[0] == "api":
		parts = parts[2:]
	case len(parts) > 3 && parts[0] == "apis":
		group, parts = parts[1], parts[3:]
	default: // discovery
		q.Resource = "discovery"
		q.Name = r.URL.Path
		return q
	}
	if parts[0] == "namespaces" && len(parts) > 2 {
		q.Namespace, parts = parts[1], parts[2:]
	}
	q.Resource = group + "/" + parts[0]
	if len(parts) > 1 {
		q.Name = parts[1]
	}
	if field := q.Query.Get("fieldSelector"); q.Name == "" && field != "" {
		for term := range strings.SplitSeq(field, ",") {
			name, value, _ := strings.Cut(term, "=")
			switch name {
			case "metadata.name":
				q.Query.Set("name", value)
			case "metadata.namespace":
				q.Namespace = value
			}
		}
	}
	return q
}

func (q *Request) String() string { return q.by + ": " + q.Method + " " + q.Key.String() }

// Writes reports whether a request may change an object.
func (q *Request) Writes() bool { return q.Method != http.MethodGet }

// group is the API group of a request, also of one for discovery.
func (q *Request) group() string {
	of := q.Resource
	if of == "discovery" {
		of = strings.TrimPrefix(q.Name, "/apis/")
	}
	group, _, _ := strings.Cut(of, "/")
	return group
}

// kind returns the apiVersion and kind of the answer.
func (q *Request) kind() (apiVersion, kind string) {
	if q.MetadataOnly() {
		return "meta.k8s.io/v1", "PartialObjectMetadata"
	}
	return served[q.Resource].apiVersion, served[q.Resource].kind
}

// MetadataOnly reports whether the client reads objects' metadata alone.
func (q *Request) MetadataOnly() bool { return strings.Contains(q.accept, "as=PartialObjectMetadata") }

// shown is an object in the form that the request accepts.
func (q *Request) shown(o *Object) []byte {
	if !q.MetadataOnly() {
		return o.JSON
	}
	var b bytes.Buffer
	b.WriteString(`{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":`)
	b.Write(o.meta)
	b.WriteByte('}')
	return b.Bytes()
}

// Answer is the server's answer; watch is the stream of a watch.
type Answer struct {
	Status int
	Body   []byte
	Date   time.Time
	Retry  string // Retry-After
	watch  *watch
	Err    error // instead of an answer
}

// OK answers with a document.
func OK(content any) Answer {
	text, err := json.Marshal(content)
	if err != nil {
		panic(err)
	}
	return Answer{Status: http.StatusOK, Body: text}
}

// Failure answers with a Status.
func Failure(code int, reason metav1.StatusReason, message string) Answer {
	a := OK(map[string]any{"kind": "Status", "apiVersion": "v1", "metadata": map[string]any{}, "status": "Failure",
		"reason": string(reason), "code": code, "message": message})
	a.Status = code
	return a
}

// Response is the answer as a client's transport returns it.
func (a Answer) Response(r *http.Request) (*http.Response, error) {
	if a.Err != nil {
		return nil, a.Err
	}
	h := http.Header{"Content-Type": {"application/json"}}
	if !a.Date.IsZero() { // a proxy has not removed it
		h.Set("Date", a.Date.UTC().Format(http.TimeFormat))
	}
	if a.Retry != "" {
		h.Set("Retry-After", a.Retry)
	}
	resp := &http.Response{StatusCode: a.Status, Status: strconv.Itoa(a.Status) + " " + http.StatusText(a.Status),
		Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1, Header: h, Request: r, ContentLength: -1}
	if a.watch != nil {
		resp.Body = a.watch.body(r.Context())
		return resp, nil
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(a.Body)), int64(len(a.Body))
	return resp, nil
}
