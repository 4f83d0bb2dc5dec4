package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// TestOutput_Golden compares what commands print about the sample with testdata/NAME.txt, and the exit code.
func TestOutput_Golden(t *testing.T) {
	paused := copySample(t)
	const name = "  name: worker-1-10.1.0.0-26\n"
	edit(t, paused, "ippools.yaml", name, name+"  annotations: {ip-reconcile.dev/paused: \"true\"}\n")
	version := regexp.MustCompile(`("?toolVersion"?: ).*`)
	for file, commands := range map[string][]string{
		"check": {"check --all", "check --verdict Held --on-node worker-3 --no-headers", "check -o wide --pool 10.1.0.0/26",
			"check -o name", "check --fail-on none --address 10.0.0.20",
			"check -o jsonpath={.summary.stale}/{.allocations[?(@.reason=='PodFinished')].ip}"},
		"run": {"run --dry-run --repair", "run --dry-run --reason PodGone --confirm-after 0 -o name",
			"run --pool 10.0.0.0-24 --reason PodGone",
			"run --repair -o jsonpath={.deletes}{.patches}{.creates} --address 10.0.0.26,10.0.0.40"},
		"release": {"release 10.0.0.20", "release 10.1.0.4 10.0.0.20 10.0.0.7 10.0.0.200", "release --pod default/web-8",
			"release --pod default/web-8 --override NodeUnreachable --because it~was~scrapped", "release --on-node worker-4",
			"release 10.0.0.20 -o name", "release 10.0.0.11 10.1.0.4 -o jsonpath={.kind}{.dryRun}{.failed}"},
		"pools": {"pools", "pools -o wide --no-headers", "pools 10.0.0.0/24", "pools -o name",
			"pools --unused", "pools x --unused", "pools 10.0.0.0/24 --new-range 10.1.0.0/30"},
		"pools_check": {"pools check 10.0.0.0/24 --new-range 10.0.0.5-10.0.0.25/24 --exclude 10.0.0.8/30 --add 3",
			"pools check 10.0.0.0-24 --new-range 10.0.0.0/25", "pools check --definition testdata/nad.yaml",
			"pools check 10.0.0.0-24 --new-range 10.9.8.0/24 --range-start 10.9.8.9 -o yaml",
			"pools check 10.0.0.0-24 --new-range 10.0.0.0/16 -o name",
			"pools check --new-range 10.1.0.0/30", "pools check x --exclude 10.1.0.1", "pools check x y",
			"pools check x --new-range 10.0.0.0/24", "pools check 10.1.0.5 --new-range 10.1.0.0/25",
			"pools check 10.0.0.0-24 --new-range 10.1.0.0", "pools check 10.0.0.0-24 --new-range 10.1.0.0/24 --exclude y",
			"pools check x --new-range=", "pools check 10.0.0.0-24 --new-range fd00::/48",
			"pools check 10.0.0.0-24 --new-range 10.1.0.0/24 --range-start 10.2.0.1",
			"pools check --definition testdata/nad.yaml --exclude 10.0.0.1", "pools check --definition testdata/none.yaml",
			"pools check --definition testdata/pools.txt", "pools check x --new-range 10.0.0.0/24 --surge y",
			"pools check x --new-range 10.0.0.0/24 --add -1"},
		"retire": {"pools retire 10.0.0.0-24", "pools retire kube-system/worker-1-10.1.0.0-26 -o yaml",
			"pools retire --slices-without-node", "pools retire 10.0.0.7", "pools retire",
			"pools retire x --slices-without-node", "pools retire 10.0.0.0/24 -o name"},
		"recover": {"recover", "recover -o name",
			"recover -o jsonpath={range.writes[*]}{.kind}/{.ip}/{.podRef}/{.instead}/{.state},{end}"},
		// A filter of what is not there is an error, of a run at the end.
		"filters": {"check -o name --pool 10.0.0.0-24,10.0.0.0-42", "run -o name --pool 10.0.0.0/23",
			"check -o name --pod-namespace nope", "run -o name --on-node nope",
			"check -o name --on-node worker-11", "check --pool 10.0.0.0-25", "check -n defaul",
			"check -o name --pool pool/worker-1-10.1.0.0-26", "check -o name --verdict Stale --on-node node/worker-1",
			"check -o name --pool ippool.whereabouts.cni.cncf.io/kube-system/worker-1-10.1.0.0-26"},
		"documents": {"check -o json --pool worker-1-10.1.0.0-26 --address 10.9.9.9",
			"run -o json --dry-run --repair --pool worker-1-10.1.0.0-26",
			"recover -o yaml", "pools -o json", "pools -o yaml 10.1.0.5", "pools -o yaml --unused"},
	} {
		var got strings.Builder
		for _, command := range commands {
			args := append(strings.Fields(command), "--snapshot", paused, "--log-level", "error")
			for i, arg := range args {
				args[i] = strings.ReplaceAll(arg, "~", " ")
			}
			code, out, errs := run(t, args...)
			text := version.ReplaceAllString(strings.ReplaceAll(out, paused, "SNAPSHOT"), "${1}VERSION,")
			fmt.Fprintf(&got, "$ ip-reconcile %s\n%s%sexit code %d\n\n", command, text, errs, code)
		}
		golden(t, file+".txt", got.String())
	}
}

// A long document is written in parts, none of which ends within a character.
func TestOutput_WholeCharacters(t *testing.T) {
	dir := t.TempDir()
	var pool strings.Builder
	pool.WriteString("apiVersion: whereabouts.cni.cncf.io/v1alpha1\nkind: IPPool\n" +
		"metadata: {name: 10.9.0.0-22, namespace: kube-system}\nspec:\n  range: 10.9.0.0/22\n  allocations:\n")
	for i := 1; i <= 600; i++ {
		fmt.Fprintf(&pool, "    \"%d\": {id: %s, podref: default/gone, ifname: net1}\n", i, strings.Repeat("é", 20))
	}
	write(t, filepath.Join(dir, "pool.yaml"), pool.String())
	write(t, filepath.Join(dir, "cluster.yaml"), retirable)
	for _, output := range []string{"json", "yaml", "jsonpath={.allocations}"} {
		_, out, errs := run(t, "check", "--snapshot", dir, "-o", output)
		if len(out) < 64<<10 || strings.Contains(out, "fffd") || strings.Contains(out, "�") {
			at := max(strings.Index(out, "fffd"), 60)
			t.Errorf("%s: %d bytes: %q\n%s", output, len(out), out[at-60:min(len(out), at+20)], errs)
		}
	}
}
