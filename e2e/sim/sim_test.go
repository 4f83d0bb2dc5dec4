package sim

import (
	"flag"
	"maps"
	"os"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	"k8s.io/klog/v2"
)

func TestMain(m *testing.M) {
	flag.Parse()
	klog.SetLogger(logr.Discard())
	logging.SetLogStderr(false)
	logging.SetLogLevel("panic")
	os.Exit(m.Run())
}

var (
	first = flag.Uint64("first", 0, "")
	many  = flag.Uint64("many", 100, "")
)

func TestHistories(t *testing.T) {
	var p Player
	total := map[string]int{}
	failed := 0
	for seed := *first; seed < *first+*many; seed++ {
		plan := NewPlan(seed)
		out := p.Play(t, plan)
		for k, v := range out.Counts {
			total[k] += v
		}
		if out.Violation != "" {
			failed++
			t.Errorf("%d: serve %v agents %b/%d liar %d repair %v: %s", seed, plan.Serve, plan.Agents, plan.Nodes, plan.Liar, plan.Repair, out.Violation)
		}
	}
	for _, k := range slices.Sorted(maps.Keys(total)) {
		t.Log(k, total[k])
	}
	t.Log(failed)
}
