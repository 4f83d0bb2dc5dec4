package servecmd

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
)

type transport func(*http.Request) (*http.Response, error)

func (f transport) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An API server that has just started, as after a restore of etcd, forbids an Event for a moment. Events are made
// once (Recorder), so EtcdRestored, FenceRaised and those of releases must be tried again, as they are after a 500 or
// while the API server is away.
func TestEvents_RefusedForAMoment(t *testing.T) {
	for says, first := range map[string]int{"created at once": 201, "the API server is away": 0, "forbidden": 403,
		"unavailable": 503} {
		t.Run(says, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				tries, created := 0, 0
				config := &rest.Config{Host: "http://api", Transport: transport(func(r *http.Request) (*http.Response, error) {
					answer := func(code int, body string) (*http.Response, error) {
						return &http.Response{StatusCode: code, Header: http.Header{"Content-Type": {"application/json"}},
							Body: io.NopCloser(bytes.NewReader([]byte(body))), Request: r}, nil
					}
					if tries++; tries == 1 && first == 0 {
						return nil, io.ErrUnexpectedEOF
					} else if tries == 1 && first != 201 {
						return answer(first, fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"code":%d}`,
							strings.ReplaceAll(http.StatusText(first), " ", ""), first))
					}
					created++
					return answer(201, `{"kind":"Event","apiVersion":"v1","metadata":{"name":"x","namespace":"kube-system"}}`)
				})}
				e, err := (&Options{}).events(t.Context(), config, slog.New(slog.DiscardHandler))
				check(t, err)
				e.Event(e.Self, corev1.EventTypeWarning, "EtcdRestored", "etcd was restored")
				time.Sleep(5 * time.Minute)
				synctest.Wait()
				if created != 1 {
					t.Errorf("%d tries in 5 minutes, %d Events", tries, created)
				}
			})
		})
	}
}
