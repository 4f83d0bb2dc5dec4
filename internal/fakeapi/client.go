package fakeapi

import (
	"io"
	"maps"
	"net/http"
)

// Client is how one client reaches a Server: an http.RoundTripper, which needs no network and so works in a synctest
// bubble, or an http.Handler for tests of connections. It performs one request after the other.
type Client struct {
	*Server
	Name string // of the manager of its writes
	// Instead may answer a request, so that the server does not get it; nil for nothing. The server is locked meanwhile.
	Instead func(*Request) *Answer
	// After may replace the server's answer, as if that were lost.
	After func(*Request, Answer) Answer
}

// RoundTrip implements http.RoundTripper.
func (c *Client) RoundTrip(r *http.Request) (*http.Response, error) {
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	q := ParseRequest(r, body, c.Name)
	a := c.do(q)
	if err := r.Context().Err(); err != nil {
		return nil, err
	}
	return a.Response(r)
}

func (c *Client) do(q *Request) Answer {
	c.Lock()
	defer c.Unlock()
	if c.Instead != nil {
		if a := c.Instead(q); a != nil {
			if a.Date.IsZero() {
				a.Date = c.Now()
			}
			return *a
		}
	}
	a := c.Serve(q)
	if c.After != nil {
		a = c.After(q, a)
	}
	return a
}

// ServeHTTP implements http.Handler.
func (c *Client) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	resp, err := c.RoundTrip(r)
	if err != nil {
		panic(http.ErrAbortHandler) // cuts the connection
	}
	defer resp.Body.Close()
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	for text := make([]byte, 32<<10); ; {
		n, err := resp.Body.Read(text)
		if n > 0 {
			_, _ = w.Write(text[:n])
		}
		w.(http.Flusher).Flush()
		if err != nil {
			return
		}
	}
}
