package kube_test

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
)

// sentWrite is a write to whereabouts' objects that reached the API server.
type sentWrite struct {
	method string
	at     time.Time
	holder string // of the shared Lease, then
}

// writeLog is what a leaseAPI recorded.
type writeLog struct {
	api          *leaseAPI
	writes       []sentWrite
	failRenewals bool
}

// recording records the writes to whereabouts' objects from now on.
func (a *leaseAPI) recording() *writeLog {
	log := &writeLog{api: a}
	a.fails = func(_ string, r *http.Request) int { // the caller holds the lock
		switch {
		case r.Method == http.MethodPut && log.failRenewals:
			return http.StatusInternalServerError
		case r.Method == http.MethodGet || !strings.Contains(r.URL.Path, "/apis/whereabouts.cni.cncf.io/"):
			return 0
		}
		w := sentWrite{method: r.Method, at: time.Now()}
		if l := a.lease(shared); l != nil {
			w.holder = *l.Spec.HolderIdentity
		}
		log.writes = append(log.writes, w)
		return 0
	}
	return log
}

func (l *writeLog) refuseRenewals() {
	l.api.Lock()
	defer l.api.Unlock()
	l.failRenewals = true
}

func (l *writeLog) sent() []sentWrite {
	l.api.Lock()
	defer l.api.Unlock()
	return l.writes
}

// notSent checks the error of a write that was not sent: it may have been, for all that its caller knows.
func notSent(t *testing.T, what string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), "not sent") || errors.Is(err, apply.ErrHoldSpent) ||
		errors.Is(err, apply.ErrConflict) {
		t.Errorf("%s: %v", what, err)
	}
}

// each makes every kind of write.
var each = map[string]apply.Work{
	http.MethodPatch: func(ctx context.Context, s apply.Session) error {
		_, err := s.PatchPool(ctx, readPool("7"), []byte(`[]`))
		return err
	},
	http.MethodDelete: func(ctx context.Context, s apply.Session) error {
		return s.DeleteReservation(ctx, readReservation())
	},
	http.MethodPost: func(ctx context.Context, s apply.Session) error {
		return s.CreateReservation(ctx, readReservation())
	},
	"POST of a pool": func(ctx context.Context, s apply.Session) error {
		_, err := s.CreatePool(ctx, readPool("7"), nil)
		return err
	},
}

// Writes wait in client-go's rate limiter, more than one hold has time for.
func TestSession_QueuedWritesEndWithTheHold(t *testing.T) {
	for name, c := range map[string]struct {
		event func(log *writeLog, stop func()) // after a second
		last  time.Duration                    // when the last write is sent at the latest
	}{
		"its time is over":        {func(*writeLog, func()) {}, 4 * time.Second},
		"the run is stopped":      {func(_ *writeLog, stop func()) { stop() }, time.Second},
		"it could not be renewed": {func(log *writeLog, _ func()) { log.refuseRenewals() }, 1700 * time.Millisecond},
		"somebody else has taken it": { // which the next renewal shows
			func(log *writeLog, _ func()) { log.api.has(shared, "an ADD", 0) }, 1250 * time.Millisecond},
	} {
		t.Run(name, func(t *testing.T) {
			onLeases(t, func(t *testing.T, a *leaseAPI) {
				log := a.recording()
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				var began time.Time
				var failed []error
				_ = a.clusterWith(t, "us", rest.Config{QPS: 7, Burst: 1}).Hold(ctx, "kube-system", []string{"whereabouts"},
					func(ctx context.Context, s apply.Session) error {
						began = time.Now()
						time.AfterFunc(time.Second, func() { c.event(log, stop) })
						errs := make([]error, 60)
						var writes sync.WaitGroup
						for i := range errs {
							writes.Go(func() { // as the executor, whose writes outlast the context of the hold
								ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
								defer cancel()
								errs[i] = s.DeleteReservation(ctx, readReservation())
							})
						}
						writes.Wait()
						for _, err := range errs {
							if err != nil {
								failed = append(failed, err)
							}
						}
						return nil
					})
				all := log.sent()
				if len(all) == 0 || len(all)+len(failed) != 60 {
					t.Fatalf("%d were sent, %d failed", len(all), len(failed))
				}
				last := all[len(all)-1]
				between(t, "the last write", last.at.Sub(began), c.last-400*time.Millisecond, c.last)
				equal(t, "it is sent when nobody has the Lease", last.holder == "", false)
				notSent(t, "a queued write", failed[0])
			})
		})
	}
}

// slowCredentials is a plugin that needs longer for the credentials of a delete than a hold lasts.
type slowCredentials struct{}

var errRegistered = rest.RegisterAuthProviderPlugin("slow", func(
	string, map[string]string, rest.AuthProviderConfigPersister) (rest.AuthProvider, error) {
	return slowCredentials{}, nil
})

func (slowCredentials) Login() error { return nil }

func (slowCredentials) WrapTransport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method == http.MethodDelete {
			time.Sleep(4500 * time.Millisecond)
		}
		return next.RoundTrip(r)
	})
}

func TestSession_CredentialsThatTakeLong(t *testing.T) {
	check(t, errRegistered)
	onLeases(t, func(t *testing.T, a *leaseAPI) {
		log := a.recording()
		c := a.clusterWith(t, "us", rest.Config{QPS: -1, AuthProvider: &clientcmdapi.AuthProviderConfig{Name: "slow"}})
		check(t, holdShared(t, c, func(ctx context.Context, s apply.Session) error {
			notSent(t, "a late delete", each[http.MethodDelete](context.WithoutCancel(ctx), s))
			return nil
		}))
		equal(t, "sent", len(log.sent()), 0)
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// A session that somebody keeps writes nothing, not even under the next hold.
func TestSession_EndsWithItsWork(t *testing.T) {
	for name, withoutLease := range map[string]bool{"with the Lease": false, "--without-lease": true} {
		t.Run(name, func(t *testing.T) {
			onLeases(t, func(t *testing.T, a *leaseAPI) {
				log := a.recording()
				c := a.cluster(t, "us")
				c.WithoutLease = withoutLease
				var kept apply.Session
				check(t, holdShared(t, c, func(_ context.Context, s apply.Session) error {
					kept = s
					equal(t, "it is open", s.IsOpen(), true)
					return nil
				}))
				tryAll := func(when string) {
					equal(t, "it is open "+when, kept.IsOpen(), false)
					for method, write := range each {
						notSent(t, method+" "+when, write(t.Context(), kept))
					}
				}
				tryAll("after its work")
				check(t, holdShared(t, c, func(_ context.Context, s apply.Session) error {
					equal(t, "the next one is open", s.IsOpen(), true)
					tryAll("under the next hold")
					return nil
				}))
				equal(t, "sent", len(log.sent()), 0)
			})
		})
	}
}

// A create completes a change, so it is sent after the time for writes. A patch and a delete are not.
func TestSession_LateWrites(t *testing.T) {
	for method, write := range each {
		onLeases(t, func(t *testing.T, a *leaseAPI) {
			log := a.recording()
			_, err := a.hold(t, t.Context(), func(ctx context.Context, s apply.Session) error {
				time.Sleep(4 * time.Second)
				equal(t, "it is open", s.IsOpen(), false)
				return write(ctx, s)
			})
			if strings.HasPrefix(method, http.MethodPost) {
				check(t, err)
				equal(t, method+": sent", len(log.sent()), 1)
				return
			}
			notSent(t, method, err)
			equal(t, method+": sent", len(log.sent()), 0)
		})
	}
}

// A write that the API server refuses for the moment is repeated while the Lease is renewed.
func TestSession_Repeats(t *testing.T) {
	for method, write := range each {
		synctest.Test(t, func(t *testing.T) {
			a, refusals := newLeaseAPI(), 2
			a.fails = func(_ string, r *http.Request) int { // the caller holds the lock
				if strings.Contains(r.URL.Path, "/apis/whereabouts.cni.cncf.io/") && refusals > 0 {
					refusals--
					return http.StatusTooManyRequests
				}
				return 0
			}
			began := time.Now()
			_, err := a.hold(t, t.Context(), write)
			if errors.Is(err, apply.ErrConflict) && method == http.MethodPatch { // there is no pool
				err = nil
			}
			check(t, err)
			equal(t, method+": refusals left", refusals, 0)
			between(t, method, time.Since(began), 2*time.Second, 2100*time.Millisecond)
		})
	}
}

// A session's requests carry the same credentials and names as all others.
func TestSession_Headers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, seen := newLeaseAPI(), map[string]int{}
		a.fails = func(_ string, r *http.Request) int { // the caller holds the lock
			h := r.Header
			seen[fmt.Sprint(h["Authorization"], h["User-Agent"], h["Impersonate-User"])]++
			return 0
		}
		c := a.clusterWith(t, "us", rest.Config{QPS: -1, BearerToken: "secret", UserAgent: "ip-reconcile/test",
			Impersonate: rest.ImpersonationConfig{UserName: "somebody"}})
		check(t, holdShared(t, c, each[http.MethodPost]))
		check(t, c.Recreate(t.Context(), readReservation(), time.Second))
		equal(t, "headers", len(seen), 1)
		if n := seen["[Bearer secret] [ip-reconcile/test] [somebody]"]; n < 5 {
			t.Errorf("%d requests carry them: %v", n, seen)
		}
	})
}

// Only a hold makes a session, and only clients that ask something first reach the API server.
func TestSession_OneConstructor(t *testing.T) {
	files, err := filepath.Glob("*.go")
	check(t, err)
	made, callers := []string{}, map[string][]string{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		check(t, err)
		for _, d := range file.Decls {
			in := "a variable"
			if f, ok := d.(*ast.FuncDecl); ok {
				in = f.Name.Name
			}
			ast.Inspect(d, func(n ast.Node) bool {
				var of ast.Expr
				switch n := n.(type) {
				case *ast.CompositeLit:
					of = n.Type
				case *ast.ValueSpec:
					of = n.Type
				case *ast.CallExpr:
					if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "new" {
						of = n.Args[0]
					}
					if f, ok := n.Fun.(*ast.SelectorExpr); ok {
						callers[f.Sel.Name] = append(callers[f.Sel.Name], in)
					}
				}
				if x, ok := of.(*ast.Ident); ok && x.Name == "session" {
					made = append(made, in)
				}
				return true
			})
		}
	}
	equal(t, "a session is made in", made, []string{"inSession"})
	equal(t, "and that is called by", callers["inSession"], []string{"holdUnderFence", "Hold", "Hold"})
	equal(t, "clients that may write are made in", callers["writers"], []string{"Recreate", "inSession"})
	equal(t, "clients are made in", callers["httpClient"], []string{"connect", "writers"})
	equal(t, "what is below the guard is made in", callers["TransportFor"], []string{"directTransport"})
}
