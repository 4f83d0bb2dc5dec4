//go:build !slow && !cluster

package fill

import (
	"fmt"
	"testing"
	"time"
)

func TestSim_GoneSandboxIsNotListed(t *testing.T) {
	c := &Content{Pods: 100, Pools: 1, Nodes: 10, Reports: true, Made: time.Now()}
	e := c.Entry(42)
	before := c.Report(e.Node)
	c.gone = map[int]bool{42: true}
	after := c.Report(e.Node)
	if fmt.Sprint(len(before.Sandboxes), len(before.Gone), len(after.Sandboxes), len(after.Gone)) != "10 0 9 1" ||
		after.Gone[0].ID != e.Sandbox {
		t.Errorf("before: %d sandboxes, %d gone; after: %d, %+v", len(before.Sandboxes), len(before.Gone),
			len(after.Sandboxes), after.Gone)
	}
}
