package screen

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

var sandboxWords = []struct {
	state, meaning string
}{
	{"Ready", "runs"},
	{"NotReady", "stopped, its network may be open"},
	{"Stopped", "ended, its network is closed"},
	{"Attached", "in a CNI cache of the node, not in the runtime's list"},
	{"Gone", "the node's agent reports its end"},
	{"NodeDead", "its node is proven dead"},
	{"NodeMissing", "its Node object is gone"},
	{"Absent", "in no report"},
	{"NoFreshReport", "a node that could run it has no fresh report"},
	{"NoSource", "unknown: no node agents, or the item cannot be read"},
}

func (s *Screen) legend() {
	var texts []string
	for _, w := range sandboxWords {
		if slices.Contains(s.sandboxes, w.state) {
			texts = append(texts, w.state+" = "+w.meaning)
		}
	}
	if s.NoHeaders || len(texts) == 0 {
		return
	}
	s.gap()
	s.Text("SANDBOX: ", strings.Join(texts, "; ")+".")
	if s.hasUnconfirmed {
		wait := duration.HumanDuration(s.ConfirmAfter)
		s.Text("", fmt.Sprintf("? = unconfirmed: confirmed once every pass for %s agrees. RELEASE is in UTC, "+
			"for a run that starts now; 'serve' may confirm earlier.", wait))
		if s.hasMissingNode {
			s.Text("", fmt.Sprintf("NodeMissing?: the %s count from the node's last report, if it has one. The Node object "+
				"must be missing for %s at least.", wait, duration.HumanDuration(view.NodeQuarantine)))
		}
	}
	if s.hasEvidence {
		s.Line("'explain ADDRESS' and -o wide print the evidence.")
	}
}
