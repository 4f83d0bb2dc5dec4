package snapshot_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"hash/fnv"
	"io"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/snapshot"
)

var (
	sameDir      = flag.String("same", "", "the directory into which TestSame writes what another version must say, too")
	sameClusters = flag.Uint64("clusters", 2000, "of how many random clusters TestSame writes it")
)

// TestSame writes random clusters, which the commands read, and a digest of all that judging says of each: verdicts
// with their evidence, findings with their repairs, in three passes of one process and in second checks. "make same"
// compares them with those of another version.
func TestSame(t *testing.T) {
	if *sameDir == "" {
		t.Skip("only `make same` runs it")
	}
	digests, err := os.Create(filepath.Join(*sameDir, "judged"))
	check(t, err)
	defer digests.Close()
	for seed := range *sameClusters {
		_, text := bundled(t, ObserveDistinct(NewRandom(seed, 77).Cluster()), snapshot.Encoder{Labels: labels})
		name := filepath.Join(*sameDir, fmt.Sprintf("cluster-%04d.tar", seed))
		check(t, os.WriteFile(name, []byte(text), 0o600))
		h := fnv.New64a()
		sayPasses(t, h, seed)
		saySecondCheck(t, h, seed)
		if _, err := fmt.Fprintf(digests, "%04d %016x\n", seed, h.Sum64()); err != nil {
			t.Fatal(err)
		}
	}
}

// Maps have no order, but what judging says has one.
func TestJudging_SaysTheSameAgain(t *testing.T) {
	for seed := range Seeds(500) {
		var first bytes.Buffer
		sayPasses(t, &first, seed)
		for range 3 {
			var again bytes.Buffer
			if sayPasses(t, &again, seed); !bytes.Equal(again.Bytes(), first.Bytes()) {
				t.Fatalf("seed %d: the same cluster was judged otherwise", seed)
			}
		}
	}
}

func sayPasses(t *testing.T, w io.Writer, seed uint64) {
	c := NewRandom(seed, 77)
	o, policy := ObserveDistinct(c.Cluster()), c.Policy()
	var known reconciler.Known
	for range 3 {
		j := findings.Assess(judge.Judge(facts.New(o.Observation, known, policy), known, nil))
		say(t, w, j.Judgement)
		fmt.Fprintf(w, "%+v\n", j.Summary())
		fmt.Fprintln(w, DescribeFindings(j.Findings), j.Notes())
		known = known.After(j.Judgement)
		_, o = c.Changes(o)
	}
}

func saySecondCheck(t *testing.T, w io.Writer, seed uint64) {
	f, o, _ := ChangedIndex(NewRandom(seed, 78))
	var at []netip.Addr
	for _, p := range o.Pools {
		for i := range p.Allocations {
			if a := p.Allocations[i].Address; a.IsValid() {
				at = append(at, a)
			}
		}
	}
	slices.SortFunc(at, netip.Addr.Compare)
	at = slices.Compact(at)
	j := judge.JudgeAt(f, o.Past, nil, at)
	say(t, w, j)
	fmt.Fprintf(w, "%+v\n", j.Summary())
	found := DescribeFindings(findings.At(j, at, at))
	slices.Sort(found)
	fmt.Fprintln(w, found)
}

func say(t *testing.T, w io.Writer, j *judge.Judgement) {
	for _, it := range slices.Concat(j.Allocations, j.Reservations) {
		fmt.Fprintln(w, DescribeItem(it), it.Message(), it.PoolNames(), sortedJSON(t, it.Testimony()))
	}
}

// sortedJSON is a value in JSON, with the keys of each object sorted: their order in the structs is no contract.
func sortedJSON(t *testing.T, v any) string {
	text, err := json.Marshal(v)
	check(t, err)
	var fields map[string]any
	check(t, json.Unmarshal(text, &fields))
	if text, err = json.Marshal(fields); err != nil {
		t.Fatal(err)
	}
	return string(text)
}
