package statuscmd

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

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
	workloads
)

// checks are all checks, in the order of their lines in the document.
var checks = []check{
	{"reconciler", nothing, sayReconciler},
	{"leader", aReconciler, sayLeader},
	{"schedule", aReconciler, saySchedule},
	{"last-pass", aReconciler, sayLastPass},
	{"paused", nothing, sayPaused},
	{"paused-pools", aJudgement, sayPausedPools},
	{"restore", aJudgement, sayRestore},
	{"breaker", nothing, sayBreaker},
	{"gates", aJudgement, sayGates},
	{"stale", nothing, sayStale},
	{"pools", aJudgement, sayPools},
	{"findings", aJudgement, sayFindings},
	{"agents", aJudgement, sayAgents},
	{"admission-policy", nothing, sayPolicy},
	{"versions", aReconciler, sayVersions},
	{"crd-" + neededDefinitions[0].resource.Resource, nothing, neededDefinitions[0].say},
	{"crd-" + neededDefinitions[1].resource.Resource, nothing, neededDefinitions[1].say},
	{"crd-" + neededDefinitions[2].resource.Resource, nothing, neededDefinitions[2].say},
	{"crd-" + neededDefinitions[3].resource.Resource, nothing, neededDefinitions[3].say},
	{"crds", nothing, sayDefinitions},
	{"unreadable", aJudgement, sayUnreadable},
	{"rights-reconciler", aReconciler, sayAccountRights},
	{"rights-cli", nothing, sayOwnRights},
	{"competing", workloads, sayCompeting},
	{"whereabouts-lease", nothing, sayAddLeases},
	{"fence", nothing, sayFence},
}

// say makes lines of what was read: the same facts always give the same lines.
func say(f *facts) []document.StatusLine {
	l := &lines{}
	isKnown := map[need]bool{nothing: true, aReconciler: f.own() != nil, aJudgement: f.judged.err == nil, workloads: f.workloads.err == nil}
	for _, c := range checks {
		if l.id = c.id; isKnown[c.needs] {
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

// known reports whether there is an answer, and else adds a line that says why there is none. what is as in "The leader is".
func known[T any](l *lines, a answer[T], what string) bool {
	if a.err != nil {
		l.unknown("%s not known: %s.", what, a.why())
	}
	return a.err == nil
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

// plural is as in "0 errors", "1 error", "2 errors".
func plural(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

// ago is a duration as kubectl has it.
func ago(d time.Duration) string { return duration.HumanDuration(max(d, 0)) }

func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }
