package sim

import (
	"flag"
	"os"
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

func TestOneHistory(t *testing.T) {
	var p Player
	for seed := range uint64(20) {
		plan := NewPlan(seed)
		out := p.Play(t, plan)
		t.Logf("%d: %v %q", seed, out.Counts, out.Violation)
		if out.Violation != "" {
			for _, l := range out.Trace {
				t.Log(l)
			}
			t.Fatalf("%+v", plan)
		}
	}
}
