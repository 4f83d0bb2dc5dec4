package statuscmd

import (
	"strings"
	"testing"
	"time"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// A snapshot may have any text as a name. A person copies the command.
func TestStatus_CommandsOfHostileNames(t *testing.T) {
	const hostile = "x; touch pwned"
	for name, parts := range map[string]Part{
		"paused": All(UsualPool, UsualPod(), func(o *Observed) {
			o.Pools[0].Name, o.Pools[0].Paused = hostile, true
		}),
		"pools": All(twoFull, UsualPod(Carrying("10.0.0.1")), boundedBy, func(o *Observed) { o.Pools[0].Name = hostile },
			Pod("late", Phase("Pending"), Requesting("wb"), CreatedLongAgo)),
		"agents": All(UsualPool, UsualPod(), Node(hostile), StaleReport(hostile)),
		"nodes":  All(UsualPool, UsualPod(OnNode(hostile)), Node(hostile, NotReadyFor(time.Hour))),
	} {
		p := sound()
		p.observed(parts)
		text := lineOf(t, p, name)
		t.Log(text)
		if _, command, _ := strings.Cut(text, "\n"); strings.Contains(command, hostile) &&
			!strings.Contains(command, "'") {
			t.Errorf("%s: %s", name, text)
		}
	}
}
