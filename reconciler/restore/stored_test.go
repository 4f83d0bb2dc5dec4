package restore

import (
	"fmt"
	"strings"
	"testing"
	"time"

	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// A text that is too long loses the doubts first: the next process doubts everything.
func TestState_TextTooLong(t *testing.T) {
	doubts := func(n int) map[string]string {
		m := map[string]string{}
		for i := range n {
			m[fmt.Sprint("node-", i)] = strings.Repeat("x", 36)
		}
		return m
	}
	nodes := func(n int) map[string]bool {
		m := map[string]bool{}
		for i := range n {
			m[fmt.Sprint("node-", i)] = true
		}
		return m
	}
	for says, c := range map[string]struct {
		r                          last
		doubtsAll, keepsNodes, all bool
	}{
		"nothing":         {last{Pending: nodes(2000), Taints: doubts(9)}, false, true, true},
		"taints":          {last{Pending: nodes(2000), Taints: doubts(8000)}, true, true, false},
		"nodes, and both": {last{Pending: nodes(25000), Taints: doubts(9)}, true, false, false},
	} {
		t.Run(says, func(t *testing.T) {
			c.r.ID, c.r.At = "k3f7q2m9xa", Now
			text, err := c.r.text()
			d, rerr := parse(text, Now)
			if err != nil || rerr != nil || len(text) > longestText || d.ID != c.r.ID || !d.At.Equal(Now) {
				t.Fatalf("%d bytes, %v, %v, %s", len(text), err, rerr, d.At)
			}
			if d.DoubtsAll != c.doubtsAll || (len(d.Pending) > 0) != c.keepsNodes || (len(d.Taints) > 0) != c.all {
				t.Errorf("kept are %d nodes, %d taints, and that all are doubted: %v", len(d.Pending), len(d.Taints), d.DoubtsAll)
			}
		})
	}
}

func TestShare(t *testing.T) {
	t.Run("the text is of the backup, and an ID replaces its own", func(t *testing.T) {
		earlier := fmt.Sprintf(`{"restored":%q,"settled":true}`, Now.Add(-time.Hour).Format(time.RFC3339))
		text, _, err := Share(earlier, "", "its watches say so", Now, []string{"worker-9"}, nil)
		r, rerr := parse(text, Now)
		if err != nil || rerr != nil || r.isDated || r.IsSettled || !r.Pending["worker-9"] ||
			r.Replaces != Now.Add(-time.Hour).Format(time.RFC3339) {
			t.Errorf("%v, %v, kept: %s", err, rerr, text)
		}
	})
	t.Run("of a text that is not JSON nothing is lost", func(t *testing.T) {
		if text, _, err := Share("{", "", "", Now, []string{"worker-9"}, nil); err == nil || text != "{" {
			t.Errorf("%v, and the text is %q", err, text)
		}
	})
	t.Run("what is lost is added to the ID that was shared, and to the one that replaced it", func(t *testing.T) {
		number := 0
		ids := func(int) string { number++; return fmt.Sprint("id-", number) }
		text, id, err := Share("", "", "its watches say so", Now, nil, ids)
		if err != nil || id != "id-1" {
			t.Fatalf("%q, %v", id, err)
		}
		settled := `{"id":"another","replaces":"id-1","settled":true}`
		reverted := `{"id":"id-0","settled":true}`
		for _, c := range []struct{ name, text, want string }{
			{"the one that was shared", text, "id-1"},
			{"the one that replaced it", settled, "another"},
			{"what another restore has brought back", reverted, "id-2"},
		} {
			text, id, err := Share(c.text, "id-1", "its watches say so", Now, []string{"worker-9"}, ids)
			r, rerr := parse(text, Now)
			if err != nil || rerr != nil || id != c.want || r.ID != c.want || r.IsSettled || !r.Pending["worker-9"] {
				t.Errorf("%s: %v, %v, %q, kept: %s", c.name, err, rerr, id, text)
			}
		}
	})
}
