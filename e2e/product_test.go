package e2e

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

var full = flag.Bool("full", false, "in full size, as in 'make measure' and 'make linearize'; else in a tenth of it")

var update = flag.Bool("update", false, "write the golden files in testdata")

// sized is a number of pods, or of what grows with them, in a test that measures.
func sized(n int) int {
	if *full {
		return n
	}
	return n / 10
}

func TestMain(m *testing.M) {
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given {
		// Tests wait for Leases and confirmations more than they compute.
		flag.Set("test.parallel", strconv.Itoa(4*runtime.GOMAXPROCS(0)))
	}
	code := m.Run()
	if err := planes.Close(); err != nil {
		fmt.Fprintln(os.Stderr, "removing what control planes left:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

// planes are the control planes of the stages.
var planes harness.Planes

// A build returns the folder with the product's commands, up to date.
type build func() (folder string, err error)

// shipped is the product as it ships, raced with the race detector.
var (
	shipped = build(sync.OnceValues(func() (string, error) { return harness.BuildProduct("shipped") }))
	raced   = build(sync.OnceValues(func() (string, error) { return harness.BuildProduct("raced", "-race") }))
)

// program is the path of one of the commands.
func (b build) program(t testing.TB, name string) string {
	t.Helper()
	return filepath.Join(try(b()).must(t), name)
}

// An outcome is the result of one run of the command.
type outcome struct {
	document
	code           int
	stdout, stderr string
	took           time.Duration
}

// document is what -o json prints, by the field names that scripts read.
type document struct {
	Summary struct {
		counts
		Restore *awaits
	} `json:"summary"`
	Allocations  []item    `json:"allocations"`
	Reservations []item    `json:"reservations"`
	Findings     []finding `json:"findings"`
	Released     []item    `json:"released"`
	Failed       []item    `json:"failed"`
}

type counts struct {
	Pools, Allocations, InUse, Held, Stale, Reservations, Findings int
}

// awaits is what blocks releases after a restore of etcd.
type awaits struct {
	ID, Restored, Why string
	Awaiting          []string
}

// item is an allocation (with a pool) or a reservation.
type item struct {
	Pool        string `json:"pool,omitempty"`
	IP          string `json:"ip"`
	PodRef      string `json:"podRef"`
	PodUID      string `json:"podUID,omitempty"`
	ContainerID string `json:"containerID,omitempty"`
	IfName      string `json:"ifName,omitempty"`
	Node        string `json:"node,omitempty"`
	Sandbox     string `json:"sandbox,omitempty"`
	Reservation string `json:"reservation,omitempty"`
	Network     string `json:"network,omitempty"`
	Verdict     string `json:"verdict"`
	Reason      string `json:"reason"`
	Proven      bool   `json:"proven"`
	Message     string `json:"message"`
	Rule        string `json:"rule"`
	// Of a Stale item that is not released: why, in a word, and when it will be.
	Refusal      string    `json:"refusal,omitempty"`
	Detail       string    `json:"detail,omitempty"`
	ReleasableAt time.Time `json:"releasableAt,omitzero"`
}

type finding struct {
	Kind         string   `json:"kind"`
	IP           string   `json:"ip"`
	Pool         string   `json:"pool"`
	Pods         []string `json:"pods"`
	ContainerIDs []string `json:"containerIDs"`
	Node         string   `json:"node"`
	Message      string   `json:"message"`
}

// place names an item as contents does: "10.1.0.0-24 10.1.0.5" or "reservation 10.1.0.5".
func (i item) place() string {
	if i.Reservation != "" {
		return "reservation " + withoutNamespace(i.Reservation)
	}
	return withoutNamespace(i.Pool) + " " + i.IP
}

func withoutNamespace(ref string) string {
	_, name, _ := strings.Cut(ref, "/")
	return name
}

// verdict is "Stale PodGone", "Stale PodGone proven", "InUse PodPending", ...
func (i item) verdict() string {
	text := i.Verdict + " " + i.Reason
	if i.Proven {
		text += " proven"
	}
	return text
}

// A command is the product while it runs.
type command struct {
	t              testing.TB
	cmd            *exec.Cmd
	began          time.Time
	stdout, stderr buffer
}

// A buffer may be read while it is written.
type buffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// begin starts the product with an environment of its own.
func begin(t testing.TB, args ...string) *command {
	t.Helper()
	return beginProgram(t, shipped.program(t, "ip-reconcile"), args...)
}

func beginProgram(t testing.TB, path string, args ...string) *command {
	t.Helper()
	cmd := exec.Command(path, consenting(args)...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir(), "COLUMNS=100"}
	return start(t, cmd)
}

// consenting adds what a command that writes needs where nobody can be asked, and the log of what it does.
func consenting(args []string) []string {
	isGiven := func(flag string) bool {
		return slices.ContainsFunc(args, func(arg string) bool { return arg == flag || strings.HasPrefix(arg, flag+"=") })
	}
	if !slices.Contains([]string{"run", "apply", "release", "recover"}, args[0]) || isGiven("--snapshot") {
		return args
	}
	if !isGiven("--yes") && !isGiven("--dry-run") {
		args = append(slices.Clone(args), "--yes")
	}
	if !isGiven("--log-level") {
		args = append(slices.Clone(args), "--log-level", "info")
	}
	return args
}

func start(t testing.TB, cmd *exec.Cmd) *command {
	t.Helper()
	c := &command{t: t, cmd: cmd, began: time.Now()}
	c.cmd.Stdout, c.cmd.Stderr = &c.stdout, &c.stderr
	if err := c.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.cmd.Process.Kill()
		if _, race, found := strings.Cut(c.stderr.String(), "WARNING: DATA RACE"); found {
			t.Errorf("the product has a data race:%s", shortened(race))
		}
	})
	return c
}

// patience is how long one command may take. The longest takes a minute and a half on a fifth of a core.
const patience = 5 * time.Minute

// wait returns the outcome. With -o json the output must be the document and nothing else.
func (c *command) wait() *outcome {
	c.t.Helper()
	most := patience
	if *full {
		most = time.Hour // others may have more to release all the time
	}
	limit := time.AfterFunc(most, func() { c.cmd.Process.Kill() })
	var failed *exec.ExitError
	if err := c.cmd.Wait(); err != nil && !errors.As(err, &failed) {
		c.t.Fatal(err)
	}
	if !limit.Stop() {
		c.t.Errorf("%v was killed after %s; it said:\n%s", c.cmd.Args[1:], most, shortened(c.stderr.String()))
	}
	o := &outcome{code: c.cmd.ProcessState.ExitCode(), stdout: c.stdout.String(), stderr: c.stderr.String(),
		took: time.Since(c.began)}
	c.t.Cleanup(func() {
		if c.t.Failed() {
			c.t.Logf("%v: exit code %d after %.1fs\n%s%s", c.cmd.Args[1:], o.code, o.took.Seconds(), o.shown(),
				shortened(o.stderr))
		}
	})
	if !slices.Contains(c.cmd.Args, "json") || o.stdout == "" && o.code == 2 {
		return o
	}
	o.read(c.t)
	return o
}

// waits waits until a run waits for a confirmation.
func (c *command) waits(t testing.TB) {
	t.Helper()
	eventually(t, "the run to wait", func() bool {
		return strings.Contains(c.stderr.String(), "Waiting before the next pass")
	})
}

// read reads the document.
func (o *outcome) read(t testing.TB) {
	t.Helper()
	var whole map[string]any
	if err := errors.Join(json.Unmarshal([]byte(o.stdout), &whole), json.Unmarshal([]byte(o.stdout),
		&o.document)); err != nil {
		t.Fatalf("what was printed is not the JSON document: %v", err)
	}
	schemas, err := publishedSchemas()
	if err != nil {
		t.Fatal(err)
	}
	kind, _ := whole["kind"].(string)
	if s := schemas[kind]; s == nil {
		t.Errorf("the published schema has no kind %q", kind)
	} else if err := s.Validate(whole); err != nil {
		t.Errorf("what was printed is not as docs/reference/schema/output-v1.json says: %v", err)
	}
}

// product runs the command to its end.
func product(t testing.TB, args ...string) *outcome {
	t.Helper()
	return begin(t, args...).wait()
}

func shortened(text string) string { return shortenedTo(8000, text) }

func shortenedTo(most int, text string) string {
	if len(text) > most {
		text = text[:most/2] + "\n[…]\n" + text[len(text)-most/2:]
	}
	return text
}

// shown is the output. A document of thousands of items is shortened, so that other failures remain visible.
func (o *outcome) shown() string {
	if len(o.Allocations) > 100 {
		return shortenedTo(1000, o.stdout)
	}
	return shortened(o.stdout)
}

// verdicts are those of all items, by place. Allocations without a readable address are all at "<pool> ".
func (o *outcome) verdicts() map[string]string {
	return verdictsOf(slices.Concat(o.Allocations, o.Reservations))
}

// verdictsOf are those of items, by place.
func verdictsOf(items []item) map[string]string {
	all := map[string]string{}
	for _, i := range items {
		all[i.place()] = i.verdict()
	}
	return all
}

// expect checks verdicts: pairs of place and verdict.
func (o *outcome) expect(t testing.TB, pairs ...string) {
	t.Helper()
	all := o.verdicts()
	for i := 0; i < len(pairs); i += 2 {
		if got := all[pairs[i]]; got != pairs[i+1] {
			t.Errorf("%s: got %q, want %q", pairs[i], got, pairs[i+1])
		}
	}
}

// exits checks the exit code.
func (o *outcome) exits(t testing.TB, code int) {
	t.Helper()
	if o.code != code {
		t.Errorf("exit code %d, want %d", o.code, code)
	}
}

// judged is the item of a place or address, or an empty item.
func (o *outcome) judged(where string) item {
	for _, i := range slices.Concat(o.Failed, o.Allocations, o.Reservations) {
		if i.place() == where || i.IP == where {
			return i
		}
	}
	return item{}
}

// found are the findings of a kind.
func (o *outcome) found(kind string) []finding {
	return slices.DeleteFunc(slices.Clone(o.Findings), func(f finding) bool { return f.Kind != kind })
}

// contains checks that a text has every one of the parts.
func contains(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("%s does not say %q:\n%s", what, p, shortened(text))
		}
	}
}

// unwrapped joins wrapped lines.
func unwrapped(text string) string { return strings.Join(strings.Fields(text), " ") }

// places lists the places of items.
func places(items []item) string {
	var all []string
	for _, i := range items {
		all = append(all, i.place())
	}
	return strings.Join(all, ", ")
}

func containsNot(t testing.TB, what, text string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if strings.Contains(text, p) {
			t.Errorf("%s says %q:\n%s", what, p, shortened(text))
		}
	}
}
