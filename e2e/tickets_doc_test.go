//go:build cluster

package e2e

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
)

// ticketsDoc is written by the scenario where UPDATE_DOCS is set.
const ticketsDoc = "../docs/tickets.md"

// tickets are the answers in docs/tickets.md: by the title of each section the command
// and what it prints.
type tickets struct {
	text     string
	answers  map[string]answered
	answered map[string]bool
}

type answered struct {
	command, output string
	block           string // as it stands in the text
}

var consoleBlock = regexp.MustCompile("(?ms)^```console\n\\$ (.*?)\n(.*?)^```\n")

func readTickets(t *testing.T) *tickets {
	t.Helper()
	d := &tickets{text: string(try(os.ReadFile(ticketsDoc)).must(t)), answers: map[string]answered{}, answered: map[string]bool{}}
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

// run gives a ticket's command and compares what it prints.
func (d *tickets) run(t *testing.T, s *stage, title string, code int) {
	t.Helper()
	a, known := d.answers[title]
	if !known {
		t.Fatalf("docs/tickets.md has no ticket %q", title)
	}
	d.answered[title] = true
	args := strings.Fields(strings.TrimPrefix(a.command, "ip-reconcile "))
	out := product(t, append(args, "--kubeconfig", s.Kubeconfig())...)
	out.exits(t, code)
	out.stdout = strings.ReplaceAll(out.stdout, " --kubeconfig="+s.Kubeconfig(), "") // commands repeat what the test gives
	if os.Getenv("UPDATE_DOCS") != "" {
		d.text = strings.Replace(d.text, a.block, fmt.Sprintf("```console\n$ %s\n%s```\n", a.command, out.stdout), 1)
		return
	}
	if got, want := withoutChance(out.stdout), withoutChance(a.output); got != want {
		t.Errorf("%q: the command prints\n%s\nand docs/tickets.md says\n%s", title, got, want)
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

// withoutChance replaces what differs from run to run, and breaks the text where the words
// do and not the lines.
func withoutChance(text string) string {
	for _, r := range []struct{ pattern, by string }{
		{`[0-9a-f]{64}`, "ID"},
		{`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`, "UID"},
		{`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"},
		{`\b\d\d:\d\d:\d\d\b`, "TIME"},
		{`\b\d+ (s|min|h) ago\b`, "DURATION ago"},
		{`https://[0-9.]+:\d+`, "SERVER"},
		{`etcd was restored at TIME \([^)]*\)`, "etcd was restored at TIME (CAUSE)"},
		{`\b\d+ sandbox records?\b`, "SANDBOXES"},
		{`\b(\d+h)?(\d+m)?\d+(\.\d+)?m?s\b`, "DURATION"},
		{`\bip-reconcile-[a-z0-9]{8,10}-[a-z0-9]{5}(_UID)?`, "POD"},
		{`\b([a-z]+)-[0-9a-f]{8,10}-[a-z0-9]{5}\b`, "$1-POD"},
	} {
		text = regexp.MustCompile(r.pattern).ReplaceAllString(text, r.by)
	}
	return strings.Join(strings.Fields(text), " ")
}
