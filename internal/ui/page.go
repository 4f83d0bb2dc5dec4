// Package ui is a page for a browser about one cluster: what works and what needs attention, each pool as a map, and
// the explanation of an address, a pod or a node. It shows the documents and texts of the commands and cannot write:
// what would act is a command to copy.
//
// view.go, defined.go and change.go answer questions by one judgement, page.go serves the answers and the files of the
// folder web, and stream.go reports new judgements to open pages.
package ui

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// Root is the path of the page. All other paths are below it, but for those that lead to it.
const Root = "/ui/"

const (
	// answerFor limits an answer, which may ask the cluster.
	answerFor = 20 * time.Second
	// writeFor limits the writing of an answer to a slow reader.
	writeFor = 30 * time.Second
	// maxKept is how many answers are kept for one judgement.
	maxKept = 64
	// maxSubject is the maximum length of a subject. A name has at most 253 bytes, and a namespace 63.
	maxSubject = 400
)

//go:embed web
var files embed.FS

// Page is the handler. It is safe for concurrent use.
type Page struct {
	isLocal   bool
	slowAfter time.Duration

	mu      sync.Mutex
	state   state
	streams atomic.Int32
	closed  chan struct{}
}

// state is what a Page shows until changed is closed.
type state struct {
	kept    *kept  // of the newest judgement; nil before the first
	problem string // why no newer judgement is shown; "" for none
	changed chan struct{}
}

// kept are the answers of one View, by question and subject, at most maxKept. Each is made once. An error is not kept:
// the same question is asked again.
type kept struct {
	view    *View
	shown   time.Time
	mu      sync.Mutex
	answers map[question]*answer
}

// answer is one that is kept. make makes it at the first call.
type answer struct{ make func() ([]byte, error) }

// New returns a Page without a judgement. problem says why it has none. isLocal is true for a page without replicas
// behind a Service.
func New(isLocal bool, problem string) *Page {
	return &Page{isLocal: isLocal, slowAfter: slowAfter, closed: make(chan struct{}),
		state: state{problem: problem, changed: make(chan struct{})}}
}

// Show replaces the judgement that is shown.
func (p *Page) Show(v *View) {
	p.set(&kept{view: v, shown: time.Now(), answers: map[question]*answer{}}, "")
}

// Fail says why no newer judgement is shown.
func (p *Page) Fail(problem string) { p.set(nil, problem) }

func (p *Page) set(k *kept, problem string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.state.changed)
	p.state = state{cmp.Or(k, p.state.kept), problem, make(chan struct{})}
}

func (p *Page) current() state {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.state
}

// IsPublic reports whether a path is that of a file of the page, or leads to the page: it has no data of the cluster.
func (*Page) IsPublic(urlPath string) bool { return isFile(urlPath) || isEntrance(urlPath) }

func isFile(urlPath string) bool {
	_, err := fs.Stat(files, fileName(urlPath))
	return err == nil && strings.HasPrefix(urlPath, Root)
}

// isEntrance reports whether a path leads to the page: the host alone, or Root without its last slash.
func isEntrance(urlPath string) bool { return urlPath == "/" || urlPath+"/" == Root }

func fileName(urlPath string) string {
	name := cmp.Or(strings.TrimPrefix(urlPath, Root), "index.html")
	return path.Join("web", path.Clean("/"+name))
}

// policy lets the page load its own files and nothing else, and no other page frame it.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

func (p *Page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	for name, value := range map[string]string{
		"Content-Security-Policy": policy, "X-Content-Type-Options": "nosniff", "X-Frame-Options": "DENY",
		"Referrer-Policy": "no-referrer", "Cross-Origin-Resource-Policy": "same-origin",
		"Cross-Origin-Opener-Policy": "same-origin", "Cache-Control": "no-store",
	} {
		w.Header().Set(name, value)
	}
	now := p.current()
	isOther := now.kept == nil && !p.isLocal // another replica has the data
	if isOther {                             // the next connection to a Service may reach it
		w.Header().Set("Connection", "close")
	}
	asked, isQuestion := strings.CutPrefix(r.URL.Path, Root+"data/")
	switch {
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "this page is read-only", http.StatusMethodNotAllowed)
	case r.URL.Path == Root+"events" && isOther && r.Method == http.MethodGet:
		http.Error(w, now.problem, http.StatusServiceUnavailable)
	case r.URL.Path == Root+"events":
		p.stream(w, r)
	case isQuestion:
		now.answer(w, r, asked)
	case isEntrance(r.URL.Path): // a browser keeps the fragment, which has the token
		http.Redirect(w, r, Root, http.StatusFound)
	case r.URL.Path == Root || r.URL.Path != Root+"index.html" && isFile(r.URL.Path):
		http.ServeFileFS(w, r, files, fileName(r.URL.Path))
	default:
		http.NotFound(w, r)
	}
}

func (s state) answer(w http.ResponseWriter, r *http.Request, name string) {
	query := r.URL.Query()
	q := question{name: name, subject: query.Get("subject")}
	var body []byte
	var err error
	if name == "range" {
		q.change, err = changeOf(query)
	}
	switch {
	case err != nil:
	case s.kept == nil:
		err = problem{http.StatusServiceUnavailable, s.problem}
	case len(q.subject) > maxSubject:
		err = problem{http.StatusBadRequest, "the subject is too long"}
	default:
		body, err = s.kept.answer(r.Context(), q)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(writeFor)) // else the server's own limits apply
	if err != nil {
		code := http.StatusInternalServerError
		if x := (problem{}); errors.As(err, &x) {
			code = x.code
		}
		w.WriteHeader(code)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
		return
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		_, _ = w.Write(body) // the reader may be gone
		return
	}
	if plain, err := gzip.NewReader(bytes.NewReader(body)); err == nil {
		_, _ = io.Copy(w, plain)
	}
}

// answer returns an answer as compressed JSON. Whoever asks first makes it, for all that ask for the same.
func (k *kept) answer(ctx context.Context, q question) ([]byte, error) {
	a := &answer{sync.OnceValues(func() ([]byte, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerFor)
		defer cancel()
		d, err := k.view.answer(ctx, q)
		if err != nil {
			return nil, err
		}
		var text bytes.Buffer
		zip := gzip.NewWriter(&text)
		if err := json.NewEncoder(zip).Encode(d); err != nil {
			return nil, err
		}
		err = zip.Close()
		return text.Bytes(), err
	})}
	k.mu.Lock()
	if known := k.answers[q]; known != nil {
		a = known
	} else {
		k.makeRoom()
		k.answers[q] = a
	}
	k.mu.Unlock()
	body, err := a.make()
	if err != nil {
		k.mu.Lock()
		if k.answers[q] == a {
			delete(k.answers, q)
		}
		k.mu.Unlock()
	}
	return body, err
}

// makeRoom forgets any answer if there are as many as may be kept. The caller holds mu.
func (k *kept) makeRoom() {
	for q := range k.answers {
		if len(k.answers) < maxKept {
			return
		}
		delete(k.answers, q)
	}
}
