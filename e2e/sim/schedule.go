package sim

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"sort"
	"strings"
	"sync/atomic"
	"syscall"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// A client is a process as the API server sees it. Its transport leads into the simulation, which answers one request
// after the other, in an order that the seed decides.
type client struct {
	s    *Simulation
	name string
	id   int // in the order of their starts
	// product is true for a reconciler, whose writes are checked.
	product  bool
	identity string // as which it holds Leases; "" for one that takes none
	isByHand bool   // it releases without waiting for a confirmation
	// reviewed are the allocations that it may release; nil for any.
	reviewed map[allocation]bool
	node     *node // that it runs on; nil for the control plane
	killed   atomic.Bool
	// recreates are the reservations that it found when it created them last.
	recreates map[key]bool
	versions  versions // of a product that makes passes one after the other
}

// call is a request that waits for its answer.
type call struct {
	*fakeapi.Request
	client *client
	answer chan fakeapi.Answer
	at     time.Time // when it arrived
	knew   time.Time // which restore its process had detected then
	held   time.Time // not answered before
	tries  int
	text   string // method, object and query
	// versions are those of the objects in the answer, see versionsFor.
	versions map[key]uint64
	// twins are the same reads by other goroutines of the process at the same time. They get the same answer: which of
	// them came first depends on the scheduling of goroutines.
	twins []*call
}

// reply ends a call.
func (w *call) reply(a fakeapi.Answer) {
	for _, twin := range w.twins {
		twin.versions = w.versions
		twin.answer <- a
	}
	w.answer <- a
}

// isTwinOf reports whether a call is the same read as another that arrived with it. A watch is a stream, of which each
// needs its own.
func (w *call) isTwinOf(other *call) bool {
	return w.compare(other) == 0 && !w.Writes() && !w.Query.Has("watch")
}

// traced reports whether a reader of a trace needs the call.
func (w *call) traced() bool {
	switch w.Resource {
	case fakeapi.Leases, fakeapi.Reports, fakeapi.Events, "authorization.k8s.io/selfsubjectaccessreviews":
		return false
	}
	return w.Writes()
}

// compare orders calls that differ.
func (w *call) compare(other *call) int {
	return cmp.Or(cmp.Compare(w.client.id, other.client.id), strings.Compare(w.text, other.text),
		bytes.Compare(w.Body, other.Body))
}

// post is what a process does in the simulation, in the order of processes.
type post struct {
	by int // its client's id
	do func()
}

func (c *client) post(do func()) { c.s.posted <- post{c.id, do} }

var errCut = fmt.Errorf("the simulation cut the connection: %w", syscall.ECONNRESET)

// RoundTrip implements http.RoundTripper.
func (c *client) RoundTrip(r *http.Request) (*http.Response, error) {
	if c.killed.Load() {
		return nil, errors.New("the process was killed")
	}
	var body []byte
	if r.Body != nil {
		var err error
		if body, err = io.ReadAll(r.Body); err != nil {
			return nil, err
		}
		r.Body.Close()
	}
	w := &call{Request: fakeapi.ParseRequest(r, body, c.name), client: c, answer: make(chan fakeapi.Answer, 1),
		at: time.Now()}
	w.text = w.String() + "?" + w.Query.Encode()
	c.s.calls <- w
	select {
	case a := <-w.answer:
		if c.killed.Load() {
			return nil, errors.New("the process was killed")
		}
		if a.Status/100 == 2 {
			c.versions.note(w.versions, w.Writes())
		}
		c.versions.noteRecord(w, a.Status)
		return a.Response(r)
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
}

// event is an action at a time.
type event struct {
	at time.Time
	do func()
}

// after schedules an action after a duration, behind those that are due at the same time.
func (s *Simulation) after(d time.Duration, do func()) {
	at := time.Now().Add(d)
	i := sort.Search(len(s.events), func(i int) bool { return s.events[i].at.After(at) })
	s.events = slices.Insert(s.events, i, event{at, do})
}

// between draws a duration.
func (s *Simulation) between(from, to time.Duration) time.Duration {
	return from + time.Duration(s.rng.Int64N(int64(to-from)+1)).Round(time.Millisecond)
}

// chance is true in this many of a hundred cases.
func (s *Simulation) chance(percent int) bool { return s.rng.IntN(100) < percent }

// runUntil continues the simulation until a time, or until an invariant is broken.
func (s *Simulation) runUntil(end time.Time) {
	for s.violation == "" {
		synctest.Wait() // from here on nothing else runs
		if s.takePosts() || s.signalAgents() {
			continue
		}
		s.takeCalls()
		now := time.Now()
		if len(s.events) > 0 && !s.events[0].at.After(now) {
			next := s.events[0]
			s.events = s.events[1:]
			next.do()
			continue
		}
		if i := s.pick(now); i >= 0 {
			w := s.waiting[i]
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			s.handle(w)
			continue
		}
		if !now.Before(end) {
			return
		}
		s.sleepUntil(s.nextTime(now, end))
	}
}

// nextTime is when the next event happens.
func (s *Simulation) nextTime(now, end time.Time) time.Time {
	next := end
	if len(s.events) > 0 && s.events[0].at.Before(next) {
		next = s.events[0].at
	}
	for _, w := range s.waiting {
		if w.held.After(now) && w.held.Before(next) {
			next = w.held
		}
	}
	for _, n := range s.nodes {
		if soon := now.Add(signalEvery); n.agent.hasSignals() && soon.Before(next) {
			next = soon
		}
	}
	return next
}

// sleepUntil lets time pass until then, or until a request arrives.
func (s *Simulation) sleepUntil(at time.Time) {
	timer := time.NewTimer(time.Until(at))
	defer timer.Stop()
	select {
	case w := <-s.calls:
		s.arrivals = append(s.arrivals, w)
	case p := <-s.posted:
		s.results = append(s.results, p)
	case <-timer.C:
	}
}

// takePosts does what processes have posted, and reports whether there was any.
func (s *Simulation) takePosts() bool {
	for len(s.posted) > 0 {
		s.results = append(s.results, <-s.posted)
	}
	results := s.results
	s.results = nil
	slices.SortStableFunc(results, func(a, b post) int { return cmp.Compare(a.by, b.by) })
	for _, p := range results {
		p.do()
	}
	return len(results) > 0
}

// takeCalls takes what has arrived since the last call, in an order that does not depend on the scheduling of
// goroutines.
func (s *Simulation) takeCalls() {
	for len(s.calls) > 0 {
		s.arrivals = append(s.arrivals, <-s.calls)
	}
	slices.SortStableFunc(s.arrivals, (*call).compare)
	var last *call
	for _, w := range s.arrivals {
		if last != nil && w.isTwinOf(last) {
			last.twins = append(last.twins, w)
			continue
		}
		s.arrived(w)
		last = w
	}
	s.arrivals = nil
}

func (s *Simulation) arrived(w *call) {
	if w.Writes() && w.client.product {
		w.knew = s.detectedBy(w.client)
		s.checkHold(w)
	}
	if s.plan.Latency > 0 && s.faulty {
		w.held = time.Now().Add(s.between(0, s.plan.Latency))
	}
	if s.requests++; s.requests > 200_000+20*int(time.Since(s.began).Seconds()) {
		s.fail("%d requests were made: somebody asks without a pause; the last is %s", s.requests, w)
	}
	s.waiting = append(s.waiting, w)
}

// pick is the index of the next call to answer: any of those that wait, by name. -1 for none.
func (s *Simulation) pick(now time.Time) int {
	var ready []int
	for i, w := range s.waiting {
		if !w.held.After(now) {
			ready = append(ready, i)
		}
	}
	if len(ready) == 0 {
		return -1
	}
	slices.SortStableFunc(ready, func(a, b int) int { return s.waiting[a].compare(s.waiting[b]) })
	return ready[s.rng.IntN(len(ready))]
}

// handle answers a call, or applies a fault.
func (s *Simulation) handle(w *call) {
	s.record(w, w.text, w.Body)
	if w.client.killed.Load() && !s.chance(50) { // a sent request may still arrive
		w.reply(fakeapi.Answer{Err: errCut})
		return
	}
	if s.away || w.client.node != nil && !w.client.node.reaches() {
		s.unreachable(w)
		return
	}
	if s.forbids(w) || s.deniesYet() {
		s.deliver(w, withDate(s, fakeapi.Failure(http.StatusForbidden, metav1.StatusReasonForbidden,
			w.Resource+" is forbidden")))
		return
	}
	if s.withholds(w) {
		return
	}
	if w.tries == 0 {
		s.atWrite(w, true)
		if s.take != nil && w.client.product && s.take(w) {
			return
		}
		if fault := s.drawFault(w); fault != nil {
			s.count("fault " + fault.name)
			if w.traced() {
				s.say("%s: %s", w, fault.name)
			}
			fault.happen(s, w)
			return
		}
	}
	s.answer(w)
}

// unreachable fails a call: some connections are refused at once, others hang until the caller gives up.
func (s *Simulation) unreachable(w *call) {
	if w.tries == 0 && s.chance(30) {
		w.tries++
		w.held = time.Now().Add(s.between(time.Second, 5*time.Second))
		s.waiting = append(s.waiting, w)
		return
	}
	w.reply(fakeapi.Answer{Err: syscall.ECONNREFUSED})
}

// answer performs a call and answers it.
func (s *Simulation) answer(w *call) { s.deliver(w, s.serve(w)) }

func (s *Simulation) deliver(w *call, a fakeapi.Answer) {
	s.record(w, fmt.Sprint(a.Status, " ", a.Err), a.Body)
	s.atWrite(w, false) // may kill the process
	w.reply(a)
}

// serve lets the API server perform the call.
func (s *Simulation) serve(w *call) fakeapi.Answer {
	s.writer, s.asked, s.detected = w.client, w.at, w.knew
	defer func() { s.writer = nil }()
	s.skew = s.skews[s.rng.IntN(len(s.skews))]
	a := s.api.Serve(w.Request)
	s.noteRequest(w, a.Status)
	if w.client.product && a.Status/100 == 2 {
		w.versions = s.versionsFor(w.Request)
	}
	if w.traced() {
		s.say("%s → %d", w, a.Status)
	}
	return a
}

func (s *Simulation) say(format string, args ...any) {
	if !s.plan.Quiet {
		s.trace = append(s.trace, fmt.Sprintf("%9s  ", time.Since(s.began).Round(time.Millisecond))+
			fmt.Sprintf(format, args...))
	}
}

// record adds a request or its answer to the digest.
func (s *Simulation) record(w *call, text string, body []byte) {
	line := fmt.Sprintf("%s %d %s %s", time.Since(s.began), w.client.id, w.client.name, text)
	s.digest = crc32.Update(crc32.Update(s.digest, crc32.IEEETable, []byte(line)), crc32.IEEETable, body)
	if s.plan.Requests {
		s.trace = append(s.trace, fmt.Sprintf("%s %q", line, body))
	}
}

func (s *Simulation) fail(format string, args ...any) {
	if s.violation == "" {
		s.violation = fmt.Sprintf(format, args...)
		s.say("WRONG: %s", s.violation)
	}
}

func (s *Simulation) count(what string) { s.counts[what]++ }

func newRand(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 0x5bd1e995)) }
