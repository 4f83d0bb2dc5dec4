package kube_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// inProcess sends requests to a fakeAPI without a network, so that they can be made in a bubble.
type inProcess struct{ *fakeAPI }

func (p inProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	w.Header().Set("Date", time.Now().UTC().Format(http.TimeFormat))
	if r.Body == nil {
		r.Body = http.NoBody
	}
	p.ServeHTTP(w, r)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	resp := w.Result()
	resp.Request = r
	return resp, nil
}

// clusterInBubble has the default timeouts.
func (f *fakeAPI) clusterInBubble(t *testing.T, log io.Writer) *kube.Cluster {
	t.Helper()
	return clusterInBubble(t, rest.Config{QPS: -1, Transport: inProcess{f}},
		kube.Settings{Log: slog.New(slog.NewTextHandler(log, nil))})
}

// refuses answers as API priority and fairness does.
func refuses(seconds int) answer {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		w.Header().Set("Retry-After", fmt.Sprint(seconds))
		http.Error(w, "Too many requests, please try again later.", http.StatusTooManyRequests)
	}
}

// A pass that the API server does not answer ends within a minute, and by its words. Meanwhile that is logged.
func TestList_FailsAgainAndAgain(t *testing.T) {
	notConverted := func(w http.ResponseWriter, _ *http.Request, _ int) { // it has no reason
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = w.Write([]byte(`{"kind":"Status","apiVersion":"v1","status":"Failure","code":500,` +
			`"message":"conversion webhook failed"}`))
	}
	hangs := func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }
	for name, c := range map[string]struct {
		path   string
		answer answer
		says   string
		logged string // the answer
	}{
		"refused":          {pods, refuses(1), "list pods at http://api: the server has received too many", "429"},
		"refused for long": {pods, refuses(32), "list pods at http://api: the server has received too many", "429"},
		"it hangs":         {pods, hangs, "list pods: the API server at http://api is unreachable", "context deadline"},
		"not converted":    {pools, notConverted, "list IPPools at http://api: conversion webhook failed", "500"},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFakeAPI(t)
			f.answers[c.path] = c.answer
			synctest.Test(t, func(t *testing.T) {
				var log bytes.Buffer
				cluster, began := f.clusterInBubble(t, &log), time.Now()
				for time.Since(began) < 5*time.Minute {
					start := time.Now()
					if _, err := cluster.List(t.Context()); err == nil || !strings.Contains(err.Error(), c.says) {
						t.Fatalf("the error is %v", err)
					}
					if took := time.Since(start); took > 61*time.Second {
						t.Errorf("it took %s", took)
					}
					time.Sleep(time.Second)
				}
				lines := strings.Split(strings.TrimSpace(log.String()), "\n")
				for _, line := range lines {
					for _, part := range []string{"level=WARN", `request="GET ` + c.path + `" answer="` + c.logged,
						"since=" + began.UTC().Format(time.RFC3339)} {
						if !strings.Contains(line, part) {
							t.Errorf("not %s: %s", part, line)
						}
					}
				}
				if len(lines) < 3 || len(lines) > 6 {
					t.Errorf("logged %d times in %s", len(lines), time.Since(began))
				}
				f.nowAnswers(list(""), c.path)
				_, err := cluster.List(t.Context())
				check(t, err)
			})
		})
	}
}

// A burst of refusals fails no pass, and is not logged.
func TestList_RefusedForAMoment(t *testing.T) {
	f := newFakeAPI(t)
	f.answers[pods] = func(w http.ResponseWriter, r *http.Request, n int) {
		if n%9 != 0 {
			refuses(1)(w, r, n)
			return
		}
		list("", pod("a"))(w, r, n)
	}
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		cluster := f.clusterInBubble(t, &log)
		for range 100 {
			_, err := cluster.List(t.Context())
			check(t, err)
		}
		equal(t, "log", log.String(), "")
	})
}
