package e2e

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/viewtest"
	"github.com/ip-reconcile/ip-reconcile/internal/monitoring"
)

// usedPool is a pool in the document of `pools`, by the field names that scripts read.
type usedPool struct {
	Range        string
	Usable, Free any // a number, a string, or nil if unknown
	Used         int
	Waiting      []string
	Definitions  []struct{ Ranges []string }
	Workloads    []struct {
		Name    string
		Entries int
	}
	FreeRanges []string
}

// usage is how full a pool is.
func (s *stage) usage(t testing.TB, name string) usedPool {
	t.Helper()
	out := product(t, "pools", name, "-ojson", "--kubeconfig", s.Kubeconfig())
	out.exits(t, 0)
	var d struct{ Pools []usedPool }
	if err := json.Unmarshal([]byte(out.stdout), &d); err != nil || len(d.Pools) != 1 {
		t.Fatalf("no document of one pool %s: %v: %s%s", name, err, out.stderr, out.stdout)
	}
	return d.Pools[0]
}

// usable are all addresses that the definitions assign, in order.
func (p usedPool) usable(t testing.TB) (all []netip.Addr) {
	t.Helper()
	for _, d := range p.Definitions {
		all = append(all, addressesIn(t, d.Ranges)...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// addressesIn are the addresses of ranges in the document's form: "10.0.0.1-10.0.0.4" or "10.0.0.1".
func addressesIn(t testing.TB, ranges []string) (all []netip.Addr) {
	t.Helper()
	for _, text := range ranges {
		from, to, several := strings.Cut(text, "-")
		if !several {
			to = from
		}
		last := try(netip.ParseAddr(to)).must(t)
		for a := try(netip.ParseAddr(from)).must(t); a.Compare(last) <= 0; a = a.Next() {
			all = append(all, a)
		}
	}
	return all
}

// publishedSchemas reads them once.
var publishedSchemas = sync.OnceValues(func() (map[string]*jsonschema.Resolved, error) {
	return viewtest.StrictSchemas("..")
})

// bundle are the files of a sysdump, by name.
func bundle(t testing.TB, path string) map[string]string {
	t.Helper()
	packed := try(gzip.NewReader(bytes.NewReader(try(os.ReadFile(path)).must(t)))).must(t)
	files := map[string]string{}
	for in := tar.NewReader(packed); ; {
		head, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		check(t, err)
		files[head.Name] = string(try(io.ReadAll(in)).must(t))
	}
}

// commandsUnder are the commands under a heading of a page that have these parts. "" is the page's head.
func commandsUnder(t testing.TB, page, heading string, parts ...string) (all []string) {
	t.Helper()
	sections := strings.Split(string(try(os.ReadFile("../"+page)).must(t)), "\n## ")
	sections[0] = "\n" + sections[0]
	for _, section := range sections {
		if title, _, _ := strings.Cut(section, "\n"); title != heading {
			continue
		}
		for _, c := range commandsOf(page, section) {
			if !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(c.text, part) }) {
				all = append(all, c.text)
			}
		}
	}
	if len(all) == 0 {
		t.Fatalf("%s has no command under %q with %q", page, heading, parts)
	}
	return all
}

// enter types commands in a folder with deploy, with the admin's kubectl.
func (s *stage) enter(t testing.TB, folder string, commands ...string) {
	t.Helper()
	bin := t.TempDir()
	for _, name := range []string{"kubectl", "oc"} {
		script := fmt.Sprintf("#!/bin/sh\nexec %s kubectl \"$@\"\n", s.KubectlProgram())
		check(t, os.WriteFile(filepath.Join(bin, name), []byte(script), 0o755))
	}
	for _, command := range commands {
		cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
		cmd.Dir = folder
		cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + bin, "KUBECONFIG=" + s.Kubeconfig()}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%s: %v\n%s", command, err, out)
		}
	}
}

// publishedChart is where the pages have the chart of a release.
const publishedChart = "oci://example.com/charts/ip-reconcile"

// A pageCommand is a command of a page, with the place where it begins.
type pageCommand struct {
	place, text string
}

var (
	remark     = regexp.MustCompile(` # .*`)
	inline     = regexp.MustCompile("`((?:kubectl|oc|ip-reconcile) [a-z-]+ [^`]+)`")
	heredoc    = regexp.MustCompile(`<<-?\s*'?(\w+)'?`)
	assignment = regexp.MustCompile(`^(export )?[A-Z_]+=\S+$`)
	program    = regexp.MustCompile(`^(\$ )?(kubectl|helm|oc|(?:bin/)?ip-reconcile|ip-reconciler|ip-reconcile-agent|sed|` +
		`make|mkdir|cd|for|crictl|systemctl|journalctl|docker|skopeo|cosign|gh|git|go|ln|sudo|curl) `)
)

// commandsOf are the commands in a page's blocks: all lines of sh, those after "$ " of console, and in
// blocks without a language those that begin with a program.
func commandsOf(page, text string) (all []pageCommand) {
	fenced, language, indent := false, "", ""
	lines := strings.Split(text, "\n")
	for i := 0; i < len(lines); i++ {
		line, bare := lines[i], strings.TrimSpace(lines[i])
		if after, ok := strings.CutPrefix(bare, "```"); ok {
			fenced, language, indent = !fenced, after, line[:len(line)-len(strings.TrimLeft(line, " "))]
			continue
		}
		line = strings.TrimPrefix(line, indent)
		if !fenced && !strings.HasPrefix(line, "    ") {
			for _, span := range inline.FindAllStringSubmatch(line, -1) {
				all = append(all, pageCommand{fmt.Sprintf("%s:%d", page, i+1), strings.ReplaceAll(span[1], `\|`, "|")})
			}
		}
		switch {
		case bare == "" || strings.HasPrefix(bare, "#"):
			continue
		case fenced && (language == "sh" || language == "bash" || language == "shell"):
		case fenced && language == "console":
			if !strings.HasPrefix(bare, "$ ") {
				continue
			}
		case fenced && language != "", !program.MatchString(bare), !fenced && !strings.HasPrefix(line, "    "):
			continue
		}
		margin := indent
		if !fenced {
			margin = "    "
		}
		c := pageCommand{fmt.Sprintf("%s:%d", page, i+1), strings.TrimPrefix(bare, "$ ")}
		for i+1 < len(lines) && (strings.HasSuffix(c.text, `\`) || strings.Count(remark.ReplaceAllString(c.text, ""),
			"'")%2 == 1) {
			i++
			c.text += "\n" + lines[i]
		}
		if end := heredoc.FindStringSubmatch(c.text); end != nil {
			for i++; i < len(lines) && strings.TrimSpace(lines[i]) != end[1]; i++ {
				c.text += "\n" + strings.TrimPrefix(lines[i], margin)
			}
			c.text += "\n" + end[1]
		}
		all = append(all, c)
	}
	return all
}

// queries are the queries of the panels, by their titles, as Grafana asks them for all pools.
func queries() map[string]string {
	all := map[string]string{}
	for _, row := range monitoring.Rows() {
		for _, p := range row.Panels {
			all[row.Title+": "+p.Title] = strings.NewReplacer("$pool", ".*", "$__rate_interval", "5m").Replace(p.Query)
		}
	}
	return all
}
