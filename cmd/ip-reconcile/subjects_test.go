package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// Each way to name a thing explains, and selects for a release, the same as the plain one.
func TestSubjects_KubectlNames(t *testing.T) {
	id := strings.Repeat("0f", 32)
	for plain, others := range map[string][]string{
		"pod/default/db-0": strings.Split("default/db-0,po/default/db-0,-n default db-0,db-0,po/db-0,pod/db-0,"+
			"-n default pod/db-0", ","),
		"node/worker-1":                  {"nodes/worker-1", "no/worker-1", "worker-1"},
		"pool/kube-system/10.0.0.0-24":   {"10.0.0.0-24", "kube-system/10.0.0.0-24", "-n kube-system 10.0.0.0-24"},
		"pool/10.0.0.0-24":               {"ippools.whereabouts.cni.cncf.io/10.0.0.0-24", "ippool/10.0.0.0-24"},
		"10.0.0.30":                      {"overlappingrangeipreservation.whereabouts.cni.cncf.io/10.0.0.30"},
		"containerd://" + id:             {id, id[:13], "cri-o://" + id},
		"10.0.0.7":                       {"10.0.0.7/24", "10.0.0.7/8"},
		"10.0.0.0/24":                    {"pool/10.0.0.0/24"},
		"10.0.0.20 node/worker-1 10.0.0": nil,
	} {
		want, code := explainedJSON(t, plain)
		for _, other := range others {
			if got, gotCode := explainedJSON(t, other); got != want || code != gotCode {
				t.Errorf("explain %s differs from explain %s:\n%.300s\nwant\n%.300s", other, plain, got, want)
			}
		}
	}
}

func explainedJSON(t *testing.T, args string) (out string, code int) {
	t.Helper()
	code, out, _ = run(t, strings.Fields("explain "+args+" -o json --snapshot "+sample)...)
	return out, code
}

func TestExplain_SeveralSubjects(t *testing.T) {
	code, out, _ := run(t, "explain", "10.0.0.20", "node/worker-1", "default/nobody", "--snapshot", sample, "-o", "json")
	var d view.ExplainReports
	check(t, json.Unmarshal([]byte(out), &d))
	if code != exitUnresolved || len(d.Explanations) != 3 || d.Explanations[0].Subject.Name != "10.0.0.20" ||
		d.Explanations[1].Subject.Kind != "Node" || d.Explanations[2].Found {
		t.Errorf("exit code %d: %.300s", code, out)
	}
	_, text, _ := run(t, "explain", "10.0.0.20", "node/worker-1", "--snapshot", sample)
	for _, want := range []string{"=== 10.0.0.20 ===", "=== node/worker-1 ==="} {
		if !strings.Contains(text, want) {
			t.Errorf("lacks %s:\n%s", want, text)
		}
	}
}

func TestRelease_SeveralSubjects(t *testing.T) {
	for args, want := range map[string]string{
		"10.0.0.20 default/web-13":         "10.0.0.20 10.0.0.27",
		"-n default db-0 web-13":           "10.0.0.20 10.0.0.27",
		"10.0.0.20 10.0.0.20 default/db-0": "10.0.0.20",
		strings.Repeat("0f", 32):           "10.0.0.20",
		"worker-1-10.1.0.0-26":             "10.1.0.3 10.1.0.4",
		"ippool.whereabouts.cni.cncf.io/10.0.0.0-24": "10.0.0.20 10.0.0.21 10.0.0.22 10.0.0.23 10.0.0.24 " +
			"10.0.0.26 10.0.0.27",
		"pool/kube-system/worker-1-10.1.0.0-26 10.0.0.200": "10.1.0.3 10.1.0.4",
	} {
		_, out, errs := run(t, append(append([]string{"release"}, strings.Fields(args)...), "--snapshot", sample,
			"--confirm-after", "0", "-o", `jsonpath={.allocations[?(@.verdict=="Stale")].ip}`)...)
		if out != want {
			t.Errorf("release %s: got %q, want %q; stderr: %s", args, out, want, errs)
		}
	}
}

// A word is explained without a cluster, in any case.
func TestExplain_Words(t *testing.T) {
	t.Setenv("KUBECONFIG", t.TempDir()+"/none")
	for word, want := range map[string]string{
		"PodGone": "PodGone, a reason", "podgone?": "PodGone, a reason", "Breaker": "a refusal", "Conflict": "a finding",
		"Absent": "a sandbox state", "Held": "a verdict", "OutsideEveryPool": "an address state", "Fresh": "an agent state",
	} {
		code, out, errs := run(t, "explain", word)
		if code != exitClean || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d: %s%s", word, code, out, errs)
		}
	}
	_, out, _ := run(t, "explain", "PodGone", "NodeMissing", "-o", "yaml") // which checks the schema
	if strings.Contains(out, "observedAt") {
		t.Errorf("words are observed at some time:\n%s", out)
	}
}
