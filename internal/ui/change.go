package ui

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/reconciler/ranges"
)

const (
	// maxField is the maximum length of a field of a change. Some 20 excluded ranges fit in.
	maxField = 400
	// maxMore is how many more pods can be asked about.
	maxMore = 1_000_000
)

// change is what somebody asks about a pool, as it was typed: the fields of a definition that does not exist yet. An
// empty field is absent.
type change struct{ newRange, start, end, exclude, add string }

// Checked is the answer of pools check about a pool, as the command prints it, and the command that gives it again.
type Checked struct {
	Answer  string `json:"answer"`
	Text    string `json:"text"`
	Command string `json:"command"`
}

// changeOf reads a change from a query.
func changeOf(q url.Values) (c change, err error) {
	for name, field := range map[string]*string{"range": &c.newRange, "start": &c.start, "end": &c.end,
		"exclude": &c.exclude, "add": &c.add} {
		if *field = strings.TrimSpace(q.Get(name)); len(*field) > maxField {
			return change{}, problem{http.StatusBadRequest, "the field " + name + " is too long"}
		}
	}
	return c, nil
}

// excludes are the ranges and addresses in the field, which commas or spaces separate.
func (c change) excludes() []string {
	return strings.FieldsFunc(c.exclude, func(r rune) bool { return r == ',' || r == ' ' })
}

// more is how many more pods are asked about.
func (c change) more() (int, error) {
	if c.add == "" {
		return 0, nil
	}
	n, err := strconv.Atoi(c.add)
	if err != nil || n < 0 || n > maxMore {
		return 0, problem{http.StatusBadRequest, fmt.Sprintf("%q more pods: must be a number from 0 to %d", c.add, maxMore)}
	}
	return n, nil
}

// check answers as pools check does. It asks nothing of the cluster.
func (v *View) check(pool string, c change) (*Checked, error) {
	more, err := c.more()
	if err != nil {
		return nil, err
	}
	v.mu.Lock()
	defer v.mu.Unlock()
	p, err := v.poolNamed(pool)
	if err != nil {
		return nil, err
	}
	asked, err := ranges.OfRange(v.Result.Assessment.Facts(), v.usage(), p,
		ranges.Bounds{Range: c.newRange, Start: c.start, End: c.end, Exclude: c.excludes()})
	if err != nil {
		return nil, problem{http.StatusBadRequest, fmt.Sprintf("the new range %q: %v", c.newRange, err)}
	}
	q := explain.PoolChange{Proposal: asked, More: more, Surge: intstr.Parse(explain.DefaultSurge)}
	d, err := q.PoolCheck(v.Result, v.usage(), v.Advisor)
	if err != nil {
		return nil, err
	}
	s := v.screen(signed(v, d).Header)
	s.PoolCheck(d)
	return &Checked{Answer: d.Answer, Text: s.String(), Command: v.checkCommand(pool, c, more)}, nil
}

// checkCommand is the command that asks about a change.
func (v *View) checkCommand(pool string, c change, more int) string {
	a := v.Advisor
	a.Flags = nil
	add := func(name, value string) {
		if value != "" {
			a.Flag(name, value)
		}
	}
	add("range-start", c.start)
	add("range-end", c.end)
	add("exclude", strings.Join(c.excludes(), ","))
	if more > 0 {
		add("add", strconv.Itoa(more))
	}
	a.Flags = append(a.Flags, v.Advisor.Flags...)
	steps := a.Steps("more", "new range of a pool",
		advice.Facts{Names: map[string]string{"pool": pool, "newrange": c.newRange}})
	if len(steps) == 0 {
		return ""
	}
	return steps[0].Command
}
