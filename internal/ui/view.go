package ui

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/audit"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// maxConflicts is how many conflicts the overview has with those who carry the address.
const maxConflicts = 20

// View has one judgement, and answers the page's questions by it with the documents and texts of the commands. It has
// nothing that writes. Its functions may ask the cluster, and are safe for concurrent use.
type View struct {
	// Result is that of a pass; what it wrote is not shown.
	Result       *reconciler.Result
	Advisor      advice.Advisor
	Cluster      view.Cluster
	ConfirmAfter time.Duration
	// Status returns the lines of status.
	Status func(context.Context) []view.StatusLine
	// Breaker returns what the breaker counts; nil for a snapshot.
	Breaker func(context.Context) (plan.BreakerState, error)
	// History returns all records; nil for a snapshot.
	History func(context.Context) ([]audit.Line, error)

	mu    sync.Mutex
	pools *usage.Pools // of the judgement, with mu; nil before the first question
}

// problem is an answer that is not a document.
type problem struct {
	code int
	text string
}

func (p problem) Error() string { return p.text }

// Overview is the answer to "is it working, and what needs attention?".
type Overview struct {
	Status *view.StatusReport `json:"status"`
	Pools  *view.PoolsReport  `json:"pools"`
	// Check has the findings, and the items that are not in use.
	Check *view.CheckReport `json:"check"`
	// Conflicts are those of the first findings. The page lists no more.
	Conflicts []view.Conflict `json:"conflicts"`
	Commands  []view.Advice   `json:"commands"`
}

// PoolMap is a pool with the states of its addresses.
type PoolMap struct {
	Pool      *view.PoolReport  `json:"pool"`
	Addresses []view.AddressRun `json:"addresses"`
	// Definitions are those that assign from the pool, as they are today.
	Definitions     []DefinedRange `json:"definitions"`
	MoreDefinitions int            `json:"moreDefinitions"`
	// Outside are the findings OutsideDefinition on the pool, at most maxOutside.
	Outside     []view.Finding `json:"outside"`
	MoreOutside int            `json:"moreOutside"`
	Commands    []view.Advice  `json:"commands"`
}

// Printed is an explanation or a history, and the text that the command prints of it.
type Printed struct {
	Explanation *view.ExplainReport `json:"explanation,omitempty"`
	History     *view.HistoryReport `json:"history,omitempty"`
	Text        string              `json:"text"`
}

// question is what is asked about a subject. Equal ones have one answer.
type question struct {
	name, subject string
	change        change // of the question range
}

// answer returns the answer to a question.
func (v *View) answer(ctx context.Context, q question) (any, error) {
	subject := q.subject
	switch q.name {
	case "overview":
		return v.overview(ctx), nil
	case "pool":
		return v.pool(subject)
	case "range":
		return v.check(subject, q.change)
	case "explain":
		return v.explain(ctx, subject)
	case "history":
		return v.history(ctx, subject)
	}
	return nil, problem{http.StatusNotFound, fmt.Sprintf("no such question: %q", q.name)}
}

// signed is a document with the cluster that it is of.
func signed[D view.Document](v *View, d D) D {
	d.SetSource(version.Get().Version, v.Cluster)
	return d
}

// usage returns the usage of the pools. The caller holds mu.
func (v *View) usage() *usage.Pools {
	if v.pools == nil {
		v.pools = usage.Of(v.Result.Assessment)
	}
	return v.pools
}

func (v *View) overview(ctx context.Context) *Overview {
	lines := v.Status(ctx)
	v.mu.Lock()
	defer v.mu.Unlock()
	j := v.Result.Assessment
	lines = explain.CompleteStatus(v.Advisor, j, lines)
	attention := view.Filter{Has: func(it *judge.Item) bool { return it.Verdict != judge.InUse }}
	check := view.NewCheckReport(v.Result, attention)
	check.Filter = nil // the page does not show it
	commands := v.Advisor.Steps("more", "overview", advice.Facts{})
	if v.Cluster.Snapshot == "" {
		commands = append(commands, v.Advisor.Steps("more", "overview of a cluster", advice.Facts{})...)
	}
	return &Overview{
		Status:    signed(v, view.NewStatusReport(j.Observation.Now, lines)),
		Pools:     signed(v, view.NewPoolsReport(v.Result, v.usage())),
		Check:     signed(v, check).Full(),
		Conflicts: explain.Conflicts(j, maxConflicts),
		Commands:  lists.Clone(commands),
	}
}

func (v *View) pool(name string) (*PoolMap, error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	p, err := v.poolNamed(name)
	if err != nil {
		return nil, err
	}
	facts := advice.Facts{Names: map[string]string{"pool": name}}
	d := &PoolMap{
		Pool:      signed(v, view.NewPoolReport(v.Result, v.usage(), []*usage.Pool{p})),
		Addresses: lists.Clone(explain.Runs(v.Result.Assessment, p)),
		Commands:  lists.Clone(v.Advisor.Steps("more", "map of a pool", facts)),
	}
	d.Definitions, d.MoreDefinitions = definedRanges(p)
	d.Outside, d.MoreOutside = v.outside(p)
	return d, nil
}

// poolNamed returns a pool. The caller holds mu.
func (v *View) poolNamed(name string) (*usage.Pool, error) {
	all := v.usage()
	i := slices.IndexFunc(all.All, func(p *usage.Pool) bool { return p.Ref() == name })
	if i < 0 {
		return nil, problem{http.StatusNotFound, fmt.Sprintf("no pool has the name %q: %s", name, all.Known())}
	}
	return all.All[i], nil
}

func (v *View) screen(h view.Header) *screen.Screen {
	s := &screen.Screen{ConfirmAfter: v.ConfirmAfter, Width: 100}
	s.Head(h)
	return s
}

func (v *View) explain(ctx context.Context, text string) (*Printed, error) {
	subject, err := explain.ParseSubject(text)
	if err != nil {
		return nil, problem{http.StatusBadRequest, err.Error()}
	}
	var recent plan.BreakerState
	if v.Breaker != nil {
		if recent, err = v.Breaker(ctx); err != nil {
			return nil, problem{http.StatusBadGateway, fmt.Sprintf("the breaker's count could not be read: %v", err)}
		}
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	if subject, err = subject.Resolve(v.Result.Assessment); err != nil {
		return nil, problem{http.StatusBadRequest, err.Error()}
	}
	d := signed(v, explain.NewReport(explain.Question{Subject: subject, Result: v.Result,
		Recent: recent, Advisor: v.Advisor, Snapshot: v.Cluster.Snapshot != ""}))
	s := v.screen(d.Header)
	s.Explain(d)
	return &Printed{Explanation: d.Full(), Text: s.String()}, nil
}

func (v *View) history(ctx context.Context, text string) (*Printed, error) {
	if v.History == nil {
		return nil, problem{http.StatusNotFound, "a snapshot has no history"}
	}
	has := func(*audit.Record) bool { return true }
	if text != "" {
		subject, err := explain.ParseSubject(text)
		if err != nil {
			return nil, problem{http.StatusBadRequest, err.Error()}
		}
		has = subject.Has
	}
	lines, err := v.History(ctx)
	if err != nil {
		return nil, problem{http.StatusBadGateway, err.Error()}
	}
	d := signed(v, view.NewHistoryReport(lines, false, v.Result.Observation.Now, has))
	s := v.screen(d.Header)
	s.History(d, text != "", false)
	return &Printed{History: d, Text: s.String()}, nil
}
