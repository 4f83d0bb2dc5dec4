//go:build !slow && !cluster

package sim

import (
	"encoding/json"
	"flag"
	"log/slog"
	"os"
	"testing"
)

var (
	planText = flag.String("plan", "", "the history to play, as a failure prints it; empty for that of -seed")
	requests = flag.Bool("requests", false, "the trace of TestPlan has every request and answer")
)

// TestPlan plays one history, with its trace and the log of every process.
func TestPlan(t *testing.T) {
	if os.Getenv(workerEnv) != "" || !testing.Verbose() {
		t.Skip("is for looking at one history: -v")
	}
	plan := planOf(*seed)
	if *planText != "" {
		plan = &Plan{}
		if err := json.Unmarshal([]byte(*planText), plan); err != nil {
			t.Fatalf("-plan: %v", err)
		}
	}
	plan.Quiet, plan.Requests = false, *requests
	plan.Log = slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}))
	out := (&Player{}).Play(t, plan)
	for _, line := range out.Trace {
		t.Log(line)
	}
	if out.Violation != "" {
		t.Error(out.Violation)
	}
}
