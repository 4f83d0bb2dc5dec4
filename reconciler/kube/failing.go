package kube

import (
	"context"
	"errors"
	"net/http"
	"time"
)

const (
	// warnAfter is how long a request must fail again and again until that is logged.
	warnAfter = 10 * time.Second
	// warnEvery is the pause between two such logs. A failure that is older than that is another one.
	warnEvery = time.Minute
)

// failing is a request that the API server refuses for now, or does not answer, in each try since.
type failing struct {
	request             string // method and path; "" for none
	since, last, warned time.Time
}

// noteAnswer warns of a request that fails again and again. The error of its caller comes only when that gives up.
func (c *Cluster) noteAnswer(r *http.Request, sent time.Time, resp *http.Response, err error) {
	request, now, answer := r.Method+" "+r.URL.Path, time.Now(), ""
	switch {
	case errors.Is(r.Context().Err(), context.Canceled): // nobody waits for the answer
		return
	case err != nil:
		answer = err.Error()
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError:
		answer = resp.Status
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &c.failing
	isOther := f.request != request
	switch {
	case answer == "" && isOther, isOther && f.request != "" && now.Sub(f.last) < warnEvery:
		return
	case answer == "":
		f.request = ""
		return
	case isOther || now.Sub(f.last) >= warnEvery:
		f.request, f.since = request, sent
	}
	f.last = now
	if now.Sub(f.since) >= warnAfter && now.Sub(f.warned) >= warnEvery {
		f.warned = now
		c.Log.Warn("A request to the API server fails again and again", "request", request, "answer", answer,
			"since", f.since.UTC().Format(time.RFC3339), "for", now.Sub(f.since).Round(time.Second))
	}
}
