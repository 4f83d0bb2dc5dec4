package sim

import (
	"flag"
	"log/slog"
	"os"
	"testing"
)

var seedFlag = flag.Uint64("seed", 0, "")

func TestSeed(t *testing.T) {
	var p Player
	plan := NewPlan(*seedFlag)
	plan.Log = slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{Level: slog.LevelDebug}))
	out := p.Play(t, plan)
	for _, l := range out.Trace {
		t.Log(l)
	}
	t.Logf("%+v %v %s", plan, out.Counts, out.Violation)
}
