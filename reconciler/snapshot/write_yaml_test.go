package snapshot_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

func TestOnlyTheLinesOfTheEntryGoFromWhatKubectlWrote(t *testing.T) {
	dir := folder(t, map[string]string{"all.yaml": everyKind})
	release(t, open(t, dir), "10.0.0.0-24", "5")
	onlyGone(t, everyKind, read(t, dir+"/all.yaml"), `      "5":`, `        id: c5`, `        ifname: net1`, `        podref: default/a`)
}

// A hand that wrote comments, its own order of fields, flow maps and several
// documents finds all of it again.
const byHand = `# pools of the lab
kind: IPPool # the first
apiVersion: whereabouts.cni.cncf.io/v1alpha1
metadata: {name: p, namespace: kube-system}
spec:
  range: 10.0.0.0/24 # not 10.0.1.0
  allocations:
    # the printer
    "9": {podref: default/printer, id: 'c9'}
    "5": {podref: default/a, id: c5}
    "6": {id: c6, podref: "default/b"}
---
kind: Pod
apiVersion: v1
metadata:
  name: b
  namespace: default
spec:
  containers:
    - name: main
      args: ["-c", "sleep 1"]
status: {phase: Running}
`

func TestCommentsOrderAndOtherDocumentsStayInAFileWrittenByHand(t *testing.T) {
	dir := folder(t, map[string]string{"lab.yaml": byHand})
	release(t, open(t, dir), "p", "5")
	onlyGone(t, byHand, read(t, dir+"/lab.yaml"), `    "5": {podref: default/a, id: c5}`)
}

// must-gather begins every file with a line of dashes.
func TestTheLineOfDashesAtTheTopOfAFileStays(t *testing.T) {
	text := "---\n" + onePool
	dir := folder(t, map[string]string{"pool.yaml": text})
	release(t, open(t, dir), "10.0.0.0-24", "5")
	onlyGone(t, text, read(t, dir+"/pool.yaml"), `    "5":`, `      id: c5`, `      ifname: net1`, `      podref: default/a`)
}

func TestOnlyFilesThatChangeAreWritten(t *testing.T) {
	dir := folder(t, map[string]string{
		"one.yaml": onePool,
		"two.yaml": strings.ReplaceAll(onePool, "10.0.0.0-24", "other"),
		"odd.yaml": "kind:   Pod\n\n\nmetadata:   {name: a,namespace: default}   # odd\n",
		"odd.json": "{ \"kind\":\"Pod\",\n\n \"metadata\":{\"name\":\"b\"}}",
	})
	before := map[string]os.FileInfo{}
	for _, file := range []string{"two.yaml", "odd.yaml", "odd.json"} {
		before[file] = stat(t, filepath.Join(dir, file))
	}
	release(t, open(t, dir), "10.0.0.0-24", "5")
	for file, info := range before {
		if !os.SameFile(info, stat(t, filepath.Join(dir, file))) {
			t.Errorf("%s was rewritten", file)
		}
	}
	if strings.Contains(read(t, dir+"/one.yaml"), "c5") {
		t.Error("one.yaml still has the entry")
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func TestReadingWritesNothing(t *testing.T) {
	dir := folder(t, map[string]string{"all.yaml": everyKind})
	before := stat(t, dir+"/all.yaml")
	f := open(t, dir)
	observe(t, f)
	hold(t, f, func(context.Context, *reconciler.Hold) error { return nil })
	if !os.SameFile(before, stat(t, dir+"/all.yaml")) {
		t.Error("the file was rewritten")
	}
}

func TestAFileKeepsItsMode(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool})
	if err := os.Chmod(dir+"/pool.yaml", 0o640); err != nil {
		t.Fatal(err)
	}
	release(t, open(t, dir), "10.0.0.0-24", "5")
	equal(t, "mode", stat(t, dir+"/pool.yaml").Mode().Perm(), 0o640)
}

// whereabouts' schema requires the map: without entries it is {}, not null.
func TestTheLastEntryLeavesAnEmptyMap(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool})
	f := open(t, dir)
	release(t, f, "10.0.0.0-24", "5", "6")
	want := strings.ReplaceAll(onePool[:strings.Index(onePool, "    \"5\":")], "allocations:", "allocations: {}") + "  range: 10.0.0.0/24\n"
	same(t, "the file", read(t, dir+"/pool.yaml"), want)
	if p := poolNamed(t, observe(t, open(t, dir)), "10.0.0.0-24"); p.Problem != "" || len(p.Allocations) > 0 {
		t.Errorf("read again: %q, %d entries", p.Problem, len(p.Allocations))
	}
}

func TestWhatWasReleasedIsGoneFromTheNextObservationToo(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool})
	f := open(t, dir)
	release(t, f, "10.0.0.0-24", "5")
	for title, o := range map[string]*judge.Observation{"the same folder": observe(t, f), "reopened": observe(t, open(t, dir))} {
		if p := poolNamed(t, o, "10.0.0.0-24"); p.Find("5") != nil || p.Find("6") == nil {
			t.Errorf("%s: %d entries", title, len(p.Allocations))
		}
	}
	release(t, f, "10.0.0.0-24", "6")
	if p := poolNamed(t, observe(t, open(t, dir)), "10.0.0.0-24"); len(p.Allocations) > 0 {
		t.Errorf("%d entries after the second release", len(p.Allocations))
	}
}

// The tests of a patch hold in files, too.
func TestAPatchThatWasMadeForAnotherContentIsAConflictAndChangesNothing(t *testing.T) {
	dir := folder(t, map[string]string{"pool.yaml": onePool})
	p := poolNamed(t, observe(t, open(t, dir)), "10.0.0.0-24")
	patch, err := ippool.RemovePatch(p, []ippool.Allocation{*p.Find("5")})
	if err != nil {
		t.Fatal(err)
	}
	for title, text := range map[string]string{
		"another resourceVersion": strings.Replace(onePool, "1234", "1235", 1),
		"another id":              strings.Replace(onePool, "id: c5", "id: c7", 1),
		"no such entry":           strings.Replace(onePool, `"5"`, `"7"`, 1),
		"no such pool":            strings.Replace(onePool, "name: 10.0.0.0-24", "name: other", 1),
	} {
		other := folder(t, map[string]string{"pool.yaml": text})
		f := open(t, other)
		err := f.Hold(t.Context(), "kube-system", nil, func(ctx context.Context, _ *reconciler.Hold) error { _, err := f.PatchPool(ctx, p, patch); return err })
		if !errors.Is(err, reconciler.ErrConflict) {
			t.Errorf("%s: %v; want a conflict", title, err)
		}
		same(t, title, read(t, other+"/pool.yaml"), text)
	}
}

// An alias refers to what is written elsewhere: removing there would change two
// objects. Refused, or done right, but never a crash or a wrong file.
func TestAPoolThatSharesItsSpecByAnAliasIsNotWrittenWrongly(t *testing.T) {
	const text = `kind: List
items:
- apiVersion: whereabouts.cni.cncf.io/v1alpha1
  kind: IPPool
  metadata: {name: p, namespace: kube-system}
  spec: &spec
    range: 10.0.0.0/24
    allocations:
      "5": {id: c5, podref: default/a}
- apiVersion: whereabouts.cni.cncf.io/v1alpha1
  kind: IPPool
  metadata: {name: q, namespace: kube-system}
  spec: *spec
`
	for _, pool := range []string{"p", "q"} {
		dir := folder(t, map[string]string{"pools.yaml": text})
		tryRelease(t, dir, pool, "5")
		o := observe(t, open(t, dir))
		other := map[string]string{"p": "q", "q": "p"}[pool]
		if poolNamed(t, o, other).Find("5") == nil {
			t.Errorf("released from %s, and gone from %s too", pool, other)
		}
	}
}

// tryRelease accepts a refusal, of the folder or of the write, but no crash.
func tryRelease(t *testing.T, dir, pool, key string) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			t.Errorf("crash: %v", r)
		}
	}()
	f, err := snapshot.Open(dir, noon, home)
	if err != nil {
		t.Skip(err)
	}
	p := poolNamed(t, observe(t, f), pool)
	patch, err := ippool.RemovePatch(p, []ippool.Allocation{*p.Find(key)})
	if err != nil {
		t.Fatal(err)
	}
	_ = f.Hold(t.Context(), "kube-system", nil, func(ctx context.Context, _ *reconciler.Hold) error { _, err := f.PatchPool(ctx, p, patch); return err })
}
