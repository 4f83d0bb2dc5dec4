package statuscmd

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
)

// check is one thing that status checks. It reads the facts alone, and adds no line where there is nothing to say.
type check struct {
	id    string
	needs need
	say   func(*facts, *lines)
}

// need is what a check needs to be known. Where it is not, another check says so.
type need int

const (
	nothing need = iota
	aReconciler
	aJudgement
)

// checks are all checks, in the order of their lines in the document.
func checks() []check {
	all := slices.Concat([]check{
		{"reconciler", nothing, sayReconciler},
		{"leader", aReconciler, sayLeader},
		{"schedule", aReconciler, saySchedule},
		{"last-pass", aReconciler, sayLastPass},
	}, gates, []check{
		{"gates", aJudgement, sayGates},
		{"stale", nothing, sayStale},
		{"pools", aJudgement, sayPools},
		{"findings", aJudgement, sayFindings},
		{"agents", aJudgement, sayAgents},
		{"admission-policy", nothing, sayPolicy},
		{"versions", aReconciler, sayVersions},
	})
	for _, n := range neededDefinitions() {
		all = append(all, check{"crd-" + n.resource.Resource, nothing, n.say})
	}
	return append(all, []check{
		{"crds", nothing, sayDefinitions},
		{"unreadable", aJudgement, sayUnreadable},
		{"rights-reconciler", nothing, sayAccountRights},
		{"rights-cli", nothing, sayOwnRights},
		{"competing", nothing, sayCompeting},
		{"whereabouts-lease", nothing, sayAddLeases},
		{"fence", nothing, sayFence},
	}...)
}

// say makes lines of what was read: the same facts always give the same lines.
func say(f *facts) []document.StatusLine {
	l := &lines{}
	for _, c := range checks() {
		if c.needs == nothing || c.needs == aReconciler && f.own() != nil || c.needs == aJudgement && f.judged.known() {
			l.id = c.id
			c.say(f, l)
		}
	}
	return l.all
}

// lines collects the lines of the checks; id is that of the check that runs.
type lines struct {
	id  string
	all []document.StatusLine
}

func (l *lines) ok(format string, args ...any) { l.add(document.LevelOK, "", format, args...) }
func (l *lines) unknown(format string, args ...any) {
	l.add(document.LevelUnknown, "", format, args...)
}

// warn and fail have the command to type next.
func (l *lines) warn(next, format string, args ...any) {
	l.add(document.LevelWarning, next, format, args...)
}
func (l *lines) fail(next, format string, args ...any) {
	l.add(document.LevelError, next, format, args...)
}

func (l *lines) add(level document.Level, next, format string, args ...any) {
	l.all = append(l.all, document.StatusLine{ID: l.id, Level: level, Message: fmt.Sprintf(format, args...), Next: next})
}

// few are the first n of many names.
func few(n int, names []string) string {
	if len(names) <= n {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:n], ", "), len(names)-n)
}

// shown is how many names a sentence has.
const shown = 5

// plural is as in "no errors", "1 error", "2 errors".
func plural(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func isAre(n int) string {
	if n == 1 {
		return "is"
	}
	return "are"
}

func capital(text string) string { return strings.ToUpper(text[:1]) + text[1:] }

// ago is a duration as a person says it.
func ago(d time.Duration) string {
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%.0f s", max(d, 0).Seconds())
	case d < 2*time.Hour:
		return fmt.Sprintf("%.0f min", d.Minutes())
	case d < 48*time.Hour:
		return fmt.Sprintf("%.0f h", d.Hours())
	}
	return fmt.Sprintf("%.0f days", d.Hours()/24)
}

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
