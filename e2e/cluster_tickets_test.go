//go:build cluster

package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

// Each ticket of docs/operate/tickets.md is played in one cluster, and its command prints what the document shows.
func TestTickets(t *testing.T) {
	t.Parallel()
	i := ready(t, 2)
	i.deploy(t)
	d := readTickets(t)
	check(t, i.CreateNAD(t.Context(), simple("small", "10.2.0.0/30")))
	web := i.start(t, workload("web", "worker-1", "blue"))
	db := i.start(t, workload("db", "worker-2", "blue"))
	i.leader(t)
	i.waitReported(t, web, db)
	d.run(t, i.stage, "Is everything consistent before an upgrade?", 0)
	d.run(t, i.stage, "Can the range shrink?", 0)

	one, two := i.start(t, workload("one", "worker-1", "small")), i.start(t, workload("two", "worker-1", "small"))
	i.waitReported(t, one, two)
	try(i.Client().CoreV1().Pods("default").Create(t.Context(), workload("three", "worker-1", "small"),
		metav1.CreateOptions{})).must(t)
	eventuallyWithin(t, 3*time.Minute, "the third pod to be seen waiting", func() bool {
		return len(i.usage(t, "10.2.0.0-30").Waiting) == 1
	})
	equal(t, "the Event on the third pod", i.event(t, "IPPoolFull", "Pod", "three"),
		"Pool 10.2.0.0/30 is full: nothing is stale: widen the range")
	d.run(t, i.stage, "The range is full", 0)
	i.mustKubectl(t, "delete", "pod", "--grace-period=1", "one", "two", "three")

	i.playTwoThatAnswer(t, d, web)
	i.playNothingIsReleased(t, d)

	worker := i.cluster.Worker("worker-2")
	worker.Kubelet.Kill()
	worker.Kill()
	worker.PowerOff()
	check(t, i.DeletePod(t.Context(), db, 30)) // it terminates for ever: only its kubelet can end it
	unreachable := func() bool { return i.product(t, "check").judged("10.1.0.2").Reason == "NodeUnreachable" }
	eventuallyWithin(t, 3*time.Minute, "the node to be unreachable", unreachable)
	d.run(t, i.stage, "A node died, and its addresses are needed now", 0, part{from: "node worker-2"},
		part{from: "unconfirmed releases within"}, part{from: "FINDINGS"}, legend,
		part{"  See whether the agent of", "  worker-2 is not Ready."}, part{from: "  See every item with all columns."})

	snapshot := try(i.cluster.Snapshot()).must(t)
	newer := i.start(t, workload("newer", "worker-1", "blue"))
	i.waitReported(t, newer)
	revision := try(i.cluster.Revision(t.Context())).must(t)
	i.restore(t, snapshot)
	check(t, i.cluster.CatchUp(t.Context(), revision))
	eventuallyWithin(t, 3*time.Minute, "the restore to be detected, the other node to have reported, and its phantom to "+
		"be recorded", func() bool {
		out := i.product(t, "check")
		r := out.Summary.Restore
		return r != nil && fmt.Sprint(r.Awaiting) == "[worker-2]" && len(out.found("Phantom")) == 1 &&
			len(out.found("Unrecorded")) == 0 && unreachable()
	})
	d.run(t, i.stage, "etcd was restored: is it safe, and what is missing?", 0, part{from: "HELD ("}, legend,
		part{from: "WHAT YOU CAN DO"})
	d.done(t)
}

// playTwoThatAnswer deletes the allocation of a running pod, so that the next pod gets its address.
func (i *installation) playTwoThatAnswer(t *testing.T, d *tickets, web *corev1.Pod) {
	t.Helper()
	address := addressOn(t, web, "net1").String()
	i.oracle.ignores(addressOn(t, web, "net1")) // it is assigned twice on purpose
	i.unreserve(t, address)
	i.patch(t, harness.IPPools, "10.1.0.0-24",
		`{"metadata":{"annotations":{"ip-reconcile.dev/paused":"true"}},"spec":{"allocations":{"1":null}}}`)
	late := i.start(t, workload("late", "worker-2", "blue"))
	equal(t, "the address of the pod that came later", addressOn(t, late, "net1").String(), address)
	i.patch(t, harness.IPPools, "10.1.0.0-24", pausing("")) // not before, since --repair can be faster than a slow ADD
	i.waitReported(t, late)
	d.run(t, i.stage, "Two pods answer at one address", 0, part{from: "10.1.0.1 in kube-system/"},
		part{from: "node worker-2"}, part{from: "FINDINGS"}, legend)
	check(t, i.DeletePod(t.Context(), web, 0))
	eventuallyWithin(t, time.Minute, "the conflict to be over",
		func() bool { return len(i.product(t, "check").found("Conflict")) == 0 })
}

// playNothingIsReleased pauses everything while something is stale. A plan releases that afterwards.
func (i *installation) playNothingIsReleased(t *testing.T, d *tickets) {
	t.Helper()
	gone := fmt.Sprintf(`{"spec":{"allocations":{"77":{"id":%q,"podref":"default/gone","ifname":"net1"}}}}`, noID)
	i.patch(t, harness.IPPools, "10.1.0.0-24", gone)
	i.pauseAll(t, "true")
	d.run(t, i.stage, "Nothing is released: why?", 1, part{"✓ Deployment", "✓ 3 allocations"},
		part{from: "✓ No pod waits"})
	i.pauseAll(t, "")
	d.run(t, i.stage, "Release this address now", 0, part{from: "10.1.0.77 in kube-system/"}, legend,
		part{"The flags pick these", "Released"})
	d.run(t, i.stage, "Who released an address, and was it right?", 0)
	i.patch(t, harness.IPPools, "10.1.0.0-24", gone)
	d.files = t.TempDir()
	list := "10.1.0.2\n10.1.0.77\n10.1.0.78\n192.0.2.1\n"
	check(t, os.WriteFile(filepath.Join(d.files, "addresses.txt"), []byte(list), 0o600))
	d.run(t, i.stage, "Machines are imported with their addresses: which are free?", 1)
	d.run(t, i.stage, "Somebody must review releases first", 0, legend)
	out := i.product(t, "apply", filepath.Join(d.files, "plan.json"))
	out.exits(t, 0)
	equal(t, "what the plan released", places(out.Released), "10.1.0.0-24 10.1.0.77")
}

var clusterLine = regexp.MustCompile(`(?m)^Cluster https://.*\n`)

// legend is the last paragraph of a list or an explanation, which says what its words mean.
var legend = part{from: "SANDBOX: "}

// ticketsDoc is written by the scenario if UPDATE_DOCS is set.
const ticketsDoc = "../docs/operate/tickets.md"

// tickets are the answers in docs/operate/tickets.md: by section title the command and its output.
type tickets struct {
	text     string
	answers  map[string]answered
	answered map[string]bool
	files    string // the folder of files that commands name
}

type answered struct {
	command, output string
	block           string // as it is in the text
}

var consoleBlock = regexp.MustCompile("(?ms)^```console\n\\$ (.*?)\n(.*?)^```\n")

func readTickets(t *testing.T) *tickets {
	t.Helper()
	d := &tickets{text: string(try(os.ReadFile(ticketsDoc)).must(t)), answers: map[string]answered{},
		answered: map[string]bool{}}
	for _, section := range strings.Split(d.text, "\n## ")[1:] {
		title, _, _ := strings.Cut(section, "\n")
		blocks := consoleBlock.FindAllStringSubmatch(section, -1)
		if len(blocks) != 1 {
			t.Fatalf("the ticket %q has %d answers, want one command", title, len(blocks))
		}
		d.answers[title] = answered{command: blocks[0][1], output: blocks[0][2], block: blocks[0][0]}
	}
	return d
}

// run runs a ticket's command and compares its output. The page has … for these parts of it, and no line that names the
// cluster.
func (d *tickets) run(t *testing.T, s *stage, title string, code int, omitted ...part) {
	t.Helper()
	a, known := d.answers[title]
	if !known {
		t.Fatalf("docs/operate/tickets.md has no ticket %q", title)
	}
	d.answered[title] = true
	args := strings.Fields(strings.TrimPrefix(a.command, "ip-reconcile "))
	folder := d.files + "/"
	if last := args[len(args)-1]; strings.HasSuffix(last, ".json") || strings.HasSuffix(last, ".txt") {
		args[len(args)-1] = folder + last
	}
	out := product(t, append(args, "--kubeconfig", s.Kubeconfig())...)
	out.exits(t, code)
	// Commands repeat the test's flag.
	out.stdout = strings.NewReplacer(" --kubeconfig="+s.Kubeconfig(), "", folder+"plan", "plan").Replace(out.stdout)
	whole := out.stdout
	out.stdout = omit(t, strings.TrimPrefix(clusterLine.ReplaceAllString(out.stdout, ""), "\n"), omitted...)
	if os.Getenv("UPDATE_DOCS") != "" {
		if a.command == statusCommand {
			check(t, os.WriteFile(statusOutput, []byte(whole), 0o644))
		}
		d.text = strings.Replace(d.text, a.block, fmt.Sprintf("```console\n$ %s\n%s```\n", a.command, out.stdout), 1)
		return
	}
	if got, want := withoutChance(out.stdout), withoutChance(a.output); got != want {
		t.Errorf("%q: the command prints\n%s\nand docs/operate/tickets.md says\n%s", title, got, want)
	}
}

// done checks that every ticket was played, or writes the document.
func (d *tickets) done(t *testing.T) {
	t.Helper()
	for title := range d.answers {
		if !d.answered[title] {
			t.Errorf("nobody plays the ticket %q", title)
		}
	}
	if os.Getenv("UPDATE_DOCS") != "" && !t.Failed() {
		check(t, os.WriteFile(ticketsDoc, []byte(d.text), 0o644))
	}
}

// withoutChance replaces what differs between runs and ignores line breaks.
func withoutChance(text string) string {
	for _, r := range []struct{ pattern, by string }{
		{`\b([0-9a-f]{64}|[0-9a-f]{13})\b`, "ID"},
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "UID"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"},
		{`\b\d\d:\d\d:\d\d\b`, "TIME"},
		{`\b\d+ (s|min|h) ago\b`, "DURATION ago"},
		{`https://[0-9.]+:\d+`, "SERVER"},
		{`etcd was restored \([^)]*\)`, "etcd was restored (CAUSE)"},
		{`\b(sandboxes|attachments) +\d+`, "$1 NUMBER"},
		{`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`, "DURATION"},
		{`\bip-reconcile-[a-z0-9]{8,10}-[a-z0-9]{5}(_UID)?`, "POD"},
		{`\b([a-z]+)-[0-9a-f]{8,10}-[a-z0-9]{5}\b`, "$1-POD"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.by)
	}
	return strings.Join(strings.Fields(text), " ")
}
