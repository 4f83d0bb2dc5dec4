package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// A snapshot may be of another cluster than the one that the reader's kubeconfig names.
func TestExplain_CommandsOfASnapshotNameNoContext(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config")
	write(t, config, `{apiVersion: v1, kind: Config, current-context: mine, contexts: [{name: mine,`+
		` context: {cluster: mine}}], clusters: [{name: mine, cluster: {server: "https://127.0.0.1:1"}}]}`)
	t.Setenv("KUBECONFIG", config)
	commands := 0
	for _, given := range [][]string{nil, {"--server", "https://me:secret@10.0.0.1"}} {
		for _, ask := range subjects(t)[:5] {
			_, d := explained(t, sample, ask, given...)
			for _, a := range d.Advice {
				if a.Command == "" || a.OnNode != "" {
					continue
				}
				commands++
				if named := strings.Count(a.Command, ofThatCluster); named != strings.Count(a.Command, "kubectl ") && named != 1 ||
					named == 0 {
					t.Errorf("%v: %s", given, a.Command)
				}
				if fields := strings.Fields(a.Command); fields[0] == "ip-reconcile" && given == nil {
					refused(t, fields[1:], []string{`context "CONTEXT_OF_THAT_CLUSTER" does not exist`})
				}
			}
		}
	}
	if commands == 0 {
		t.Error("none is advised")
	}
	_, d := explained(t, sample, "10.0.0.20", "--context", "prod")
	for _, a := range d.Advice {
		if strings.Contains(a.Command, ofThatCluster) || !strings.Contains(a.Command, "--context=prod") {
			t.Errorf("of a cluster that is named: %s", a.Command)
		}
	}
	// What check prints is to be asked of the same cluster or snapshot, and has no program of its own.
	dir := copySample(t)
	leakMany(t, dir)
	if _, out, _ := run(t, "check", "--snapshot", dir); strings.Contains(out, "'ip-reconcile check") ||
		strings.Contains(out, "Not shown") {
		t.Error(out)
	}
}

// Nothing is advised about an entry of a pod whose namespace was not exported.
func TestExplain_NamespaceThatWasNotExported(t *testing.T) {
	dir := copySample(t)
	for path, text := range contents(t, dir) {
		write(t, filepath.Join(dir, path), strings.ReplaceAll(text, "default/web-8", "tenant/web-8"))
	}
	text, d := explained(t, dir, "10.0.0.11")
	ofLastReport := func(a view.Advice) bool { return a.Cause == "Phantom" }
	advice := slices.DeleteFunc(d.Advice, ofLastReport)
	if len(advice) != 1 || !strings.Contains(advice[0].Command, "get pods -n tenant") || strings.Contains(text, "taint") {
		t.Errorf("%+v\n%s", d.Advice, text)
	}
}

func TestExplain_AddressesOfAFile(t *testing.T) {
	const cluster = "10.0.0.20\n\n 10.0.0.200 \r\n10.99.0.1\n::ffff:10.0.0.10\n"
	file := filepath.Join(t.TempDir(), "addresses.txt")
	for text, want := range map[string]struct {
		code          int
		out, err, how string
	}{
		cluster: {1, `10.0.0.20   Stale             kube-system/10.0.0.0-24  default/db-0
10.0.0.200  Free              kube-system/10.0.0.0-24  -
10.99.0.1   OutsideEveryPool  -                        -
10.0.0.10   Held              kube-system/10.0.0.0-24  default/web-7
`, "", "--no-headers"},
		"10.0.0.200\n10.0.0.201": {0, "10.0.0.200\n10.0.0.201\n", "", "-o=name"},
		"10.0.0.200\n10.0.0.20\n": {1, "10.0.0.200/Free 10.0.0.20/Stale ", "",
			"-o=jsonpath={range .addresses[*]}{.ip}/{.state} {end}"},
		"10.0.0.20\n10.0.0.200": {1, "address,state,pool,pod,reserved_by,carried_by\n" +
			"10.0.0.20,Stale,kube-system/10.0.0.0-24,default/db-0,default/db-0,\n" +
			"10.0.0.200,Free,kube-system/10.0.0.0-24,,,\n", "", "-o=csv"},
		" \n":                   {2, "", "addresses.txt: no addresses in the file", "-o=name"},
		"10.0.0.1\n10.0.0.0/24": {2, "", `addresses.txt:2: "10.0.0.0/24": must be an IP address`, "-o=name"},
	} {
		write(t, file, text)
		code, out, errs := run(t, "explain", "-f", file, "--snapshot", sample, want.how)
		if code != want.code || out != want.out || !strings.Contains(errs, want.err) {
			t.Errorf("%q: exit code %d, printed %q, errors %q", text, code, out, errs)
		}
	}
	refused(t, []string{"explain", "-f", file, "10.0.0.1"}, []string{"or -f alone, got 1 arguments"})
	refused(t, []string{"explain", "-f", file + "x"}, []string{"no such file"})
}
