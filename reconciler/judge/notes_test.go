package judge_test

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

func TestNotes_WithoutAgents(t *testing.T) {
	for trust, want := range map[bool]string{
		false: "A phantom pod on a Ready node would be judged as a leak",
		true:  "and an address that a user removed from a pod's network-status, would be judged as a leak",
	} {
		j := Judged(Observe(UsualPool, Node("worker-1")), facts.Policy{TrustNetworkStatus: trust})
		notes := strings.Join(j.Notes(), " ")
		if !strings.Contains(notes, want) {
			t.Errorf("trusted %v: %q", trust, notes)
		}
	}
}

// Many allocations of pods that this cluster does not have may be those of another cluster.
func TestNotes_AnotherClusterOnTheSamePools(t *testing.T) {
	for _, c := range []struct {
		unknown, known int
		want           bool
	}{{20, 60, true}, {19, 0, false}, {20, 61, false}} {
		var allocs []Allocation
		var parts []Part
		for i := range c.unknown + c.known {
			name := fmt.Sprint("web-", i)
			allocs = append(allocs, Alloc(fmt.Sprint(i+1), "default/"+name, "box of "+name, "net1"))
			if i >= c.unknown {
				parts = append(parts, Pod(name, UID("uid of "+name), Carrying(fmt.Sprint("10.0.0.", i+1))))
			}
		}
		j := Judged(Observe(append(parts, Pool("10.0.0.0-24", "10.0.0.0/24", allocs...), ReportingWorker())...),
			facts.Policy{})
		if got := strings.Contains(strings.Join(j.Notes(), " "), "another cluster"); got != c.want {
			t.Errorf("%d of %d are unknown: said %v", c.unknown, c.unknown+c.known, got)
		}
	}
}

// A selector that selects too few nodes is a note: without agents nothing depends on it.
func TestNotes_SelectorOfAgents(t *testing.T) {
	var many []Part
	for i := range 12 {
		name := fmt.Sprintf("worker-%02d", i)
		many = append(many, Node(name, WithoutAgent), Pod("web-"+name, OnNode(name)),
			Pool("10.1."+fmt.Sprint(i)+".0-24", "10.1."+fmt.Sprint(i)+".0/24", Alloc("5", "default/web-"+name, "box", "net1")))
	}
	none := labels.SelectorFromSet(labels.Set{"role": "edge"})
	zone, own := Label("zone", "a"), Label("kubernetes.io/hostname", "worker-1")
	for says, c := range map[string]struct {
		parts    []Part
		selector labels.Selector
		want     string
	}{
		"it selects none": {[]Part{Node("worker-1", zone, own), Node("worker-2", zone), StaleReport("worker-1")}, none,
			"--agent-nodes selects none of 2 nodes, so it is not known which nodes must report. The nodes have the labels " +
				"kubernetes.io/os=linux, zone=a"},
		"it selects none, and there are no agents": {[]Part{Node("worker-1", zone)}, none, ""},
		"it selects all": {[]Part{Node("worker-1"), FreshReport("worker-1")}, nil, ""},
		"a node that it does not select has a report": {[]Part{Node("worker-1", WithoutAgent), Node("worker-2"),
			FreshReport("worker-1")}, nil, ""},
		"a node that it does not select has no pod": {[]Part{Node("worker-1"), Node("worker-2", WithoutAgent),
			FreshReport("worker-1")}, nil, ""},
		"many that it does not select have pods": {append(many, Node("worker-1"), FreshReport("worker-1")), nil,
			"--agent-nodes does not select worker-00, worker-01, worker-02, worker-03, worker-04, worker-05, worker-06, " +
				"worker-07, worker-08, worker-09 and 2 more, and pods with addresses of pools are bound there"},
	} {
		parts := append([]Part{UsualPool, UsualPod(Carrying("10.0.0.5"))}, c.parts...)
		j := Judged(Observe(parts...), facts.Policy{AgentNodes: c.selector})
		var found []string
		for _, note := range j.Notes() {
			if strings.Contains(note, "--agent-nodes") {
				found = append(found, note)
			}
		}
		if c.want == "" && len(found) > 0 || c.want != "" && (len(found) != 1 || !strings.HasPrefix(found[0], c.want)) {
			t.Errorf("%s: %q, want %q", says, found, c.want)
		}
	}
}

// What docs say a test shows is a claim where the test is gone. A name may be the beginning of several, as for go test
// -run.
func TestDocs_EveryTestThatTheyNameIsThere(t *testing.T) {
	const root = "../.."
	var pages []string
	for _, pattern := range []string{"docs/*.md", "docs/*/*.md"} {
		found, err := filepath.Glob(filepath.Join(root, pattern))
		check(t, err)
		pages = append(pages, found...)
	}
	there, named := keysOf(testsUnder(t, root)), 0
	for _, page := range pages {
		doc, err := os.ReadFile(page)
		check(t, err)
		for _, name := range sortedUnique(regexp.MustCompile(`\b(?:Test|Fuzz)[A-Z]\w+`).FindAllString(string(doc), -1)) {
			named++
			if !slices.ContainsFunc(there, func(test string) bool { return strings.HasPrefix(test, name) }) {
				t.Errorf("%s names %s, and there is no such test", filepath.Base(page), name)
			}
		}
	}
	if named < 5 { // the names that show rules are in internal/style, which checks them
		t.Fatalf("they name %d tests", named)
	}
}

// testsUnder are the names of all tests in a folder, whatever their build tags.
func testsUnder(t *testing.T, root string) map[string]bool {
	there, declaration := map[string]bool{}, regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)\w+)\(`)
	err := filepath.WalkDir(root, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		for _, m := range declaration.FindAllSubmatch(text, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	check(t, err)
	return there
}

func sortedUnique(names []string) []string {
	unique := map[string]bool{}
	for _, name := range names {
		unique[name] = true
	}
	return keysOf(unique)
}

// The hold by a sandbox whose network is unknown may last, so a note says what ends it.
func TestNotes_AttachmentsWhoseNetworkIsUnknown(t *testing.T) {
	const own = "unknown whether network namespaces exist: of sandbox box-1 of default/web-0 on node worker-1. "
	address := Address("10.0.0.5", "")
	for says, c := range map[string]struct {
		want  string
		parts []Part
	}{
		"an allocation names it": {own, []Part{ReportingWorker(Attachment("box-1", UsualUID, time.Hour, nil))}},
		"it has an address":      {"box-9", []Part{ReportingWorker(Attachment("box-9", "uid-9", time.Hour, nil, address))}},
		"it may still be set up": {"", []Part{ReportingWorker(Attachment("box-1", UsualUID, 14*time.Minute, nil))}},
		"nothing names it":       {"", []Part{ReportingWorker(Attachment("box-9", "uid-9", time.Hour, nil))}},
		"its network is open":    {"", []Part{ReportingWorker(Attachment("box-1", UsualUID, time.Hour, Open))}},
		"its network is closed":  {"", []Part{ReportingWorker(Attachment("box-1", UsualUID, time.Hour, Closed))}},
		"its node does not report": {own, []Part{Node("worker-1"),
			StaleReport("worker-1", Attachment("box-1", UsualUID, time.Hour, nil))}},
		"its node is proven dead": {"", []Part{dead1,
			StaleReport("worker-1", Attachment("box-1", UsualUID, time.Hour, nil))}},
	} {
		notes := strings.Join(Judged(Observe(append(c.parts, UsualPool)...), facts.Policy{}).Notes(), " ")
		isNoted := strings.Contains(notes, "network namespaces exist")
		if isNoted != (c.want != "") || !strings.Contains(notes, c.want) {
			t.Errorf("%s: %q", says, notes)
		}
	}
}

// What nobody can list may have findings, so a note names it.
func TestNotes_UnreadAddresses(t *testing.T) {
	requesting := UsualPod(NetworkStatus("nonsense"), Requesting("wb"))
	for says, c := range map[string]struct {
		want  string
		parts []Part
	}{
		"a sandbox": {"of sandbox box-1 of default/web-0 on node worker-1:",
			[]Part{ReportingWorker(Sandbox("box-1", UsualUID, Unread))}},
		"a sandbox that has ended": {"", []Part{ReportingWorker(Sandbox("box-1", UsualUID, Unread, NotReady(Closed)))}},
		"a pod": {"of pod default/web-0:",
			[]Part{wb, Node("worker-1"), requesting}},
		"a pod whose definition does not exist": {"of pod default/web-0:", []Part{Node("worker-1"), requesting}},
		"a pod that a fresh report lists":       {"", []Part{ReportingWorker(box1), requesting}},
		"none":                                  {"", []Part{ReportingWorker(box1), UsualPod(Carrying("10.0.0.5"))}},
	} {
		notes := strings.Join(Judged(Observe(c.parts...), facts.Policy{}).Notes(), " ")
		isNoted := strings.Contains(notes, "findings on them may be missed")
		if isNoted != (c.want != "") || !strings.Contains(notes, c.want) {
			t.Errorf("%s: %q", says, notes)
		}
	}
}
