package sim

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// Shrink searches for the smallest history that still breaks an invariant, and returns it with its trace: fewer steps,
// faults, nodes and pods.
func (p *Player) Shrink(t *testing.T, plan *Plan, violation string) string {
	best := *plan
	try := func(change func(*Plan)) bool {
		next := best
		next.Steps = slices.Clone(best.Steps)
		change(&next)
		next.Quiet = true
		out := p.Play(t, &next)
		if out.Violation == "" {
			return false
		}
		best, violation = next, out.Violation
		return true
	}
	for again := true; again; {
		again = false
		for i := len(best.Steps) - 1; i >= 0 && len(best.Steps) > 1; i-- {
			again = try(func(p *Plan) { p.Steps = slices.Delete(p.Steps, i, i+1) }) || again
		}
	}
	for _, change := range simpler() {
		try(change)
	}
	best.Quiet = false
	out := p.Play(t, &best)
	var b strings.Builder
	fmt.Fprintf(&b, "history %d: %s\n", best.Seed, violation)
	text, _ := json.Marshal(&best) //nolint:errchkjson // a plan is numbers
	fmt.Fprintf(&b, "play it again: go test ./sim -run TestPlan -v -args -plan '%s'\n", text)
	for _, x := range best.Steps {
		fmt.Fprintf(&b, "    %s\n", x)
	}
	for _, line := range out.Trace {
		fmt.Fprintln(&b, line)
	}
	return b.String()
}

// simpler are changes of a plan that make its trace easier to read.
func simpler() []func(*Plan) {
	return []func(*Plan){
		func(p *Plan) { p.Faults = 0 },
		func(p *Plan) { p.Latency = 0 },
		func(p *Plan) { p.Serve = false },
		func(p *Plan) { p.Replicas = 1 },
		func(p *Plan) { p.Second = 0 },
		func(p *Plan) { p.Sliced = 0 },
		func(p *Plan) { p.Nets, p.Mixed = 1, false },
		func(p *Plan) { p.Pods = 1 },
		func(p *Plan) { p.Pods = min(p.Pods, 2) },
		func(p *Plan) { p.Nodes, p.Agents = 1, p.Agents&1 },
		func(p *Plan) { p.Skew, p.NodeSkew = 0, 0 },
		func(p *Plan) { p.NoStatus, p.Unread, p.NoUID, p.Unreachable = 0, false, false, 0 },
		func(p *Plan) { p.Window = 0 },
	}
}
