package screen_test

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/report"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/screen"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/usage"
)

// poolRow is the line of a pool, its cells between single spaces.
func poolRow(t *testing.T, name string, parts ...Part) (row, all string) {
	t.Helper()
	j := Judged(Observe(append(parts, Pod("bystander"))...), judge.Policy{})
	u := usage.Of(j)
	u.AddWaiting()
	s := &screen.Screen{}
	s.Pools(report.OfCheck(j, &reconciler.Plan{}, report.Filter{}), u)
	for line := range strings.SplitSeq(s.String(), "\n") {
		if strings.HasPrefix(line, "kube-system/"+name+" ") {
			return strings.Join(strings.Fields(line)[1:], " "), s.String()
		}
	}
	t.Fatalf("no line of %s:\n%s", name, s)
	return "", ""
}

func TestTheRowOfAPool(t *testing.T) {
	waits := Pod("waits", Phase("Pending"), func(p *corev1.Pod) {
		p.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": "a"}
		p.CreationTimestamp = metav1.NewTime(Now.Add(-time.Minute))
	})
	for _, c := range []struct {
		says, pool, want string
		parts            []Part
	}{
		{"full, and a pod waits", "10.0.0.0-30", "10.0.0.0/30 2 2 0 100% 2 0 1 default/a",
			[]Part{NAD("a", WhereaboutsConfig("10.0.0.0/30", "")), Pool("10.0.0.0-30", "10.0.0.0/30", Alloc("1", "default/x", "b1", "net1"), Alloc("2", "default/y", "b2", "net1")), waits}},
		{"two thirds, never rounded up", "10.0.0.0-29", "10.0.0.0/29 3 2 1 66% 2 0 0 default/a",
			[]Part{NAD("a", WhereaboutsConfig("10.0.0.0/29", "", `"range_end":"10.0.0.3"`)), Pool("10.0.0.0-29", "10.0.0.0/29", Alloc("1", "default/x", "b1", "net1"), Alloc("2", "default/y", "b2", "net1")), waits}},
		{"not known", "10.0.0.0-30", "10.0.0.0/30 ? 0 ? ? 0 0 ? -", []Part{Pool("10.0.0.0-30", "10.0.0.0/30")}},
		{"nothing is usable", "10.0.0.0-31", "10.0.0.0/31 0 0 0 - 0 0 0 default/a", []Part{NAD("a", WhereaboutsConfig("10.0.0.0/31", "")), Pool("10.0.0.0-31", "10.0.0.0/31")}},
		{"a /64", "fd00---64", "fd00::/64 ~2^64 0 ~2^64 0% 0 0 0 default/a", []Part{NAD("a", WhereaboutsConfig("fd00::/64", "")), Pool("fd00---64", "fd00::/64")}},
		{"three quarters of a /64", "fd00---64", "fd00::/64 >2^63 0 >2^63 0% 0 0 0 default/a",
			[]Part{NAD("a", WhereaboutsConfig("fd00::/64", "", `"exclude":["fd00::/66"]`)), Pool("fd00---64", "fd00::/64")}},
	} {
		if got, all := poolRow(t, c.pool, c.parts...); got != c.want {
			t.Errorf("%s: %q, want %q in\n%s", c.says, got, c.want, all)
		}
	}
}

func TestAQuestionMarkIsExplained(t *testing.T) {
	_, all := poolRow(t, "10.0.0.0-30", Pool("10.0.0.0-30", "10.0.0.0/30"))
	if !strings.Contains(all, "? kube-system/10.0.0.0-30: no NetworkAttachmentDefinition that can be read assigns from it.") {
		t.Error(all)
	}
}
