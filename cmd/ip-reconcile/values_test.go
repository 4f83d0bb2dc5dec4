package main

import (
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// A variable of a script may be empty. Its flag must not be taken for one that is not given.
func TestFlags_EmptyValues(t *testing.T) {
	dir, config := retirableIn(t), kubeconfigOf(t, "https://"+nobody)
	for _, args := range []string{
		"plan --retire= --snapshot " + dir, "plan --retire=, --snapshot " + dir, "plan --output-file= --snapshot " + dir,
		"check --now= --snapshot " + dir, "release 10.9.0.1 --pod= --snapshot " + dir,
		"release 10.9.0.1 --override= --because= --snapshot " + dir, "run --dry-run= --snapshot " + dir,
		"history --filename= --kubeconfig " + config, "explain --filename= 10.9.0.1 --snapshot " + dir,
		"run --yes --cri= --node=worker-1 --kubeconfig " + config, "run --yes --audit-log= --kubeconfig " + config,
		"check -n default, --snapshot " + dir, "run --yes --on-node worker-1, --kubeconfig " + config,
		"run --yes --repair --pool ,10.9.0.0-24 --kubeconfig " + config,
		"recover --yes --dry-run= --kubeconfig " + config,
		"pools retire 10.9.0.0-24 --yes --dry-run= --kubeconfig " + config,
	} {
		t.Run(args, func(t *testing.T) {
			refused(t, strings.Fields(args), []string{"is empty: give it a value, or leave it out"})
		})
	}
}

// An empty --dry-run is not consent to write.
func TestDryRun_EmptyValueReleasesNothing(t *testing.T) {
	server, config, _ := planned(t)
	code, out, errs := run(t, "run", "--yes", "--dry-run=", "--confirm-after", "0s", "--kubeconfig", config,
		"--reconciler-namespace", "kube-system")
	server.Lock()
	defer server.Unlock()
	pool := server.Get(fakeapi.At(fakeapi.Pools, "kube-system", "10.9.0.0-24"))
	if code != exitFailed || !strings.Contains(string(pool.JSON), "box-1") {
		t.Errorf("exit code %d, or it was released:\n%s%s", code, out, errs)
	}
}

// The last value of a flag would replace the others, and the command would say that everything is done.
func TestFlags_GivenTwice(t *testing.T) {
	for _, args := range []string{
		"release --pod default/db-0 --pod default/web-13", "release --on-node worker-1 --on-node worker-2",
		"apply -f a.json -f b.json --yes", "explain -f a.txt -f b.txt", "run --dry-run --snapshot a --snapshot b",
		"pools check 10.0.0.0-24 --new-range 10.0.0.0/25 --new-range 10.0.0.0/26", "plan --output-file a --output-file b",
	} {
		t.Run(args, func(t *testing.T) {
			refused(t, strings.Fields(args), []string{"the flag is given twice, and takes one value"})
		})
	}
	code, out, errs := run(t, "check", "--on-node", "worker-1", "--on-node", "worker-2", "--snapshot", sample)
	if code == exitFailed {
		t.Errorf("a list cannot be given twice:\n%s%s", out, errs)
	}
}

// A program that reads the document cannot read it behind the lines of the log.
func TestFlags_AuditLogAndDocumentOnStdout(t *testing.T) {
	server, config, _ := planned(t)
	args := strings.Fields("run --yes --audit-log - --confirm-after 0s --reconciler-namespace kube-system --kubeconfig " +
		config)
	for _, output := range []string{"json", "yaml", "name", "jsonpath={.kind}"} {
		refused(t, append(args, "-o", output), []string{"--audit-log - writes to stdout, as --output " + output + " does"})
	}
	server.Lock()
	pool := server.Get(fakeapi.At(fakeapi.Pools, "kube-system", "10.9.0.0-24"))
	server.Unlock()
	if !strings.Contains(string(pool.JSON), "box-1") {
		t.Error("it was released")
	}
	if code, out, errs := run(t, args...); code != exitClean || !strings.Contains(out, "Released 1 item") {
		t.Errorf("exit code %d:\n%s%s", code, out, errs)
	}
}

// A negative time would switch a limit off, or hide all records.
func TestFlags_NegativeValues(t *testing.T) {
	config := kubeconfigOf(t, "https://"+nobody)
	for args, want := range map[string]string{
		"run --dry-run --max-wait=-5m --snapshot " + sample:         "--max-wait -5m0s: must not be negative",
		"check --request-timeout=-1s --kubeconfig " + config:        "--request-timeout -1s: must not be negative",
		"check --confirm-after=-1s --snapshot " + sample:            "--confirm-after -1s: must not be negative",
		"check --kube-api-qps=NaN --kubeconfig " + config:           "must be above zero",
		"history --since=-12h --kubeconfig " + config:               `--since "-12h": must be an age`,
		"history --since=-7d --kubeconfig " + config:                `--since "-7d": must be an age`,
		"check --unreachable-node-timeout=-1s --snapshot " + sample: "must not be negative",
	} {
		t.Run(args, func(t *testing.T) { refused(t, strings.Fields(args), []string{want}) })
	}
}
