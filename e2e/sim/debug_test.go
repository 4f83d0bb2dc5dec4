package sim

import (
	"log/slog"
	"os"
	"testing"
)

func TestSeed(t *testing.T) {
	var p Player
	plan := NewPlan(*seed)
	plan.Log = slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}))
	out := p.Play(t, plan)
	for _, l := range out.Trace {
		t.Log(l)
	}
	t.Logf("%+v %v %s", plan, out.Counts, out.Violation)
}
