package plan_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// identified gives all pools so far their UIDs, as an API server does.
func identified(o *Observed) {
	for _, p := range o.Pools {
		p.UID = "uid of " + p.Name
	}
}

// elsewhere is a definition that leads to another pool, and emptyOne the pool 10.0.0.0-24 without entries.
var (
	elsewhere = NAD("elsewhere", WhereaboutsConfig("10.9.0.0/24", ""))
	emptyOne  = Pool("10.0.0.0-24", "10.0.0.0/24")
)

// against are the kinds of obstacles to the retirement of a pool, each once, and their sentences.
func against(t *testing.T, pool string, common []plan.Gate, parts ...Part) (kinds string, text string) {
	t.Helper()
	a := Judged(Observe(append(parts, identified)...), facts.Policy{})
	p := a.Facts().PoolNamed("kube-system/" + pool)
	if p == nil {
		t.Fatalf("there is no pool %s", pool)
	}
	var all []string
	for _, o := range plan.AgainstRetirement(a, common, p) {
		if text += o.Detail + "\n"; o.Detail == "" {
			t.Errorf("an obstacle of the kind %s has no sentence", o.Kind)
		}
		all = append(all, string(o.Kind))
	}
	return strings.Join(slices.Compact(all), " "), text
}

func TestRetire_Obstacles(t *testing.T) {
	unknown := func(set func(o *Observed)) Part { return Part(set) }
	inUse, leak := All(UsualPool, UsualPod(Carrying("10.0.0.5")), elsewhere), All(UsualPool, Node("worker-1"), elsewhere)
	for name, c := range map[string]struct {
		parts []Part
		want  string // the kinds
		says  string // part of a sentence
	}{
		"nothing stands against an empty pool": {[]Part{emptyOne, Node("worker-1"), elsewhere}, "", ""},
		"its allocation is in use":             {[]Part{inUse}, "InUse", ""},
		"its allocation may be in use": {[]Part{UsualPool, elsewhere, Node("worker-1", NotReadyFor(time.Hour)),
			UsualPod(DeletedAgo(time.Hour))}, "Held", ""},
		"its allocation cannot be read": {[]Part{RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24",
			"allocations": map[string]any{"5": "no entry"}}), elsewhere}, "Held Finding", ""},
		"its allocation is stale": {[]Part{leak}, "Leftover", ""},
		"a reservation is stale": {[]Part{emptyOne, Node("worker-1"), elsewhere,
			Reservation("10.0.0.7", "default/gone", LongAgo)}, "Leftover", ""},
		"a reservation of another range": {[]Part{emptyOne, Node("worker-1"), elsewhere, Pool("10.9.0.0-24", "10.9.0.0/24"),
			Reservation("10.9.0.7", "default/gone", LongAgo)}, "", ""},
		"a reservation of another network": {[]Part{emptyOne, Node("worker-1"), elsewhere,
			Pool("red-10.0.0.0-24", "10.0.0.0/24"), Reservation("red-10.0.0.7", "default/gone", LongAgo)}, "", ""},
		"a young reservation": {[]Part{emptyOne, Node("worker-1"), elsewhere,
			Reservation("10.0.0.7", "default/new", time.Second)}, "InUse", ""},
		"a pod carries an address of it": {[]Part{emptyOne, elsewhere, NAD("wb", WhereaboutsConfig("10.9.0.0/24", "")),
			Pod("web-0", Carrying("10.0.0.5"))}, "Carried", "default/web-0"},
		"a pod of a definition that is gone carries one": {[]Part{emptyOne, elsewhere,
			Pod("web-0", Carrying("10.0.0.5"), CreatedLongAgo)}, "Carried", "default/web-0"},
		"a pod of another network carries one": {[]Part{emptyOne, elsewhere,
			NAD("wb", WhereaboutsConfig("10.9.0.0/24", "red")), Pod("web-0", Carrying("10.0.0.5"))}, "", ""},
		"a pod carries one by another pool": {[]Part{emptyOne, NAD("wb", WhereaboutsConfig("10.0.0.0/16", "")),
			Pool("10.0.0.0-16", "10.0.0.0/16", UsualAllocation), UsualPod()}, "", ""},
		"a sandbox carries one": {[]Part{emptyOne, elsewhere, ReportingNode("worker-1",
			Sandbox("box-1", "uid-1", WithAddress("10.0.0.5", "")))}, "Carried Finding", "box-1"},
		"a sandbox of another network carries one": {[]Part{emptyOne, elsewhere, ReportingNode("worker-1",
			Sandbox("box-1", "uid-1", WithAddress("10.0.0.5", "red")))}, "", ""},
		"a sandbox is unread whose pod is gone": {[]Part{emptyOne, elsewhere, ReportingNode("worker-1",
			Sandbox("box-1", "uid-1", Unread))}, "Unknown", "box-1"},
		"a pod has no status, and its definition cannot be read": {[]Part{emptyOne, elsewhere, NAD("wb", "{"),
			UsualPod(NoNetworkStatus, Requesting("wb"))}, "Unknown", "default/web-0"},
		"a definition leads to it": {[]Part{emptyOne, NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))}, "Defined", "wb"},
		"a definition with other bounds": {[]Part{emptyOne,
			NAD("wb", WhereaboutsConfig("10.0.0.9-10.0.0.20/24", ""))}, "Defined", "wb"},
		"a definition of another range":    {[]Part{emptyOne, NAD("wb", WhereaboutsConfig("10.0.0.0/25", ""))}, "", ""},
		"a definition that cuts slices":    {[]Part{emptyOne, Sliced("")}, "", ""},
		"a definition of another network":  {[]Part{emptyOne, NAD("wb", WhereaboutsConfig("10.0.0.0/24", "red"))}, "", ""},
		"a definition that cannot be read": {[]Part{emptyOne, elsewhere, NAD("wb", "{")}, "Unknown", "default/wb"},
		"a definition that is on the nodes": {[]Part{emptyOne, elsewhere, NAD("wb", "")}, "Unknown",
			"configured on the nodes"},
		"there is no definition at all": {[]Part{emptyOne}, "Unknown", "no NetworkAttachmentDefinition at all"},
		"definitions are unknown": {[]Part{emptyOne, unknown(func(o *Observed) {
			o.NADs = facts.Unknown[map[types.NamespacedName]*ippool.NAD](errors.New("forbidden"))
		})}, "Unknown", "network-attachment-definitions: forbidden"},
		"reservations are unknown": {[]Part{emptyOne, elsewhere, unknown(func(o *Observed) {
			o.Reservations = facts.Unknown[[]*ippool.Reservation](errors.New("forbidden"))
		})}, "Unknown", "overlappingrangeipreservations: forbidden"},
		"nodes are unknown":   {[]Part{emptyOne, elsewhere, NodesUnknown}, "Unknown", "nodes: "},
		"reports are unknown": {[]Part{emptyOne, elsewhere, ReportsUnknown("forbidden")}, "Unknown", "sandboxreports: "},
		"guests are unknown, and nothing depends on them": {[]Part{emptyOne, elsewhere, unknown(func(o *Observed) {
			o.Guests = facts.Unknown[[]*podstate.Guest](errors.New("forbidden"))
		})}, "", ""},
		"an object cannot be read": {[]Part{emptyOne, elsewhere, unknown(func(o *Observed) {
			o.Unreadable = []string{"object x"}
		})}, "Unknown", "object x"},
		"its range cannot be read": {[]Part{RawPool("10.0.0.0-24", map[string]any{"range": "x",
			"allocations": map[string]any{}}), elsewhere}, "Unknown Finding", "cannot be read"},
		"its allocations are missing": {[]Part{RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24"}),
			elsewhere}, "Unknown", "spec.allocations"},
		"its range is unsupported": {[]Part{RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.5/24",
			"allocations": map[string]any{}}), elsewhere}, "Unknown Finding", ""},
		"it has finalizers": {[]Part{emptyOne, elsewhere, unknown(func(o *Observed) { o.Pools[0].HasFinalizers = true })},
			"Unknown", "finalizers"},
		"it is being deleted": {[]Part{emptyOne, elsewhere, unknown(func(o *Observed) { o.Pools[0].IsDeleting = true })},
			"Unknown", "being deleted"},
	} {
		if kinds, text := against(t, "10.0.0.0-24", nil, c.parts...); kinds != c.want || !strings.Contains(text, c.says) {
			t.Errorf("%s: got %q, want %q with %q:\n%s", name, kinds, c.want, c.says, text)
		}
	}
	common := []plan.Gate{{Why: plan.Paused, Detail: "all is paused"},
		{Why: plan.Paused, Pool: "kube-system/10.9.0.0-24", Detail: "another pool is paused"}}
	kinds, text := against(t, "10.0.0.0-24", common, emptyOne, elsewhere)
	if kinds != "Gate" || text != "all is paused\n" {
		t.Errorf("a pause of everything and of another pool: %s, %s", kinds, text)
	}
}

// The definition that cuts slices leads to the slice of each node that may exist.
func TestRetire_ObstaclesOfSlices(t *testing.T) {
	const name = "worker-9-10.0.0.16-28"
	gone, sliced := Pool(name, "10.0.0.16/28"), Sliced("")
	for what, c := range map[string]struct {
		parts []Part
		want  string
	}{
		"its Node is gone":      {[]Part{gone, sliced, Node("worker-1")}, ""},
		"its Node exists":       {[]Part{gone, sliced, Node("worker-9")}, "Defined"},
		"nodes are unknown":     {[]Part{gone, sliced, NodesUnknown}, "Defined Unknown"},
		"it has a fresh report": {[]Part{gone, sliced, Node("worker-1"), FreshReport("worker-9")}, "Defined"},
		"a pod is bound to it": {[]Part{gone, sliced, Node("worker-1"),
			Pod("x", OnNode("worker-9"), NoNetworkStatus)}, "Defined"},
		"no definition is left": {[]Part{gone, elsewhere, Node("worker-9")}, ""},
		"all of it is defined, too": {[]Part{gone, sliced, Node("worker-1"),
			NAD("wb", WhereaboutsConfig("10.0.0.16/28", "worker-9"))}, "Defined"},
		"it has a leak": {[]Part{Pool(name, "10.0.0.16/28", Alloc("1", "default/gone", "box-1", "net1")), sliced,
			Node("worker-1")}, "Leftover"},
		"a network with the node's name cuts slices, too": {[]Part{gone, sliced, Sliced("worker-9"), Node("worker-1")}, ""},
		"slices have another size now": {[]Part{gone, NAD("sliced", WhereaboutsConfig("10.0.0.0/24", "",
			`"node_slice_size":"/29"`)), Node("worker-9")}, "Defined"},
	} {
		if kinds, text := against(t, name, nil, c.parts...); kinds != c.want {
			t.Errorf("%s: got %q, want %q:\n%s", what, kinds, c.want, text)
		}
	}
}

// A pool waits as long as an ADD may take, unless a person waits for less. A slice waits for its Node in any case.
func TestRetire_After(t *testing.T) {
	for _, c := range []struct {
		confirmAfter time.Duration
		want         string // of a pool, and of a slice
	}{{15 * time.Minute, "2m0s 2m0s"}, {time.Minute, "1m0s 1m0s"}, {0, "0s 40s"}} {
		a := Judged(Observe(emptyOne, Pool("worker-9-10.0.0.16-28", "10.0.0.16/28"), Sliced(""), Node("worker-1")),
			facts.Policy{})
		after := func(pool string) time.Duration {
			return plan.RetireAfter(a.Facts(), a.Facts().PoolNamed("kube-system/"+pool), c.confirmAfter)
		}
		if got := fmt.Sprint(after("10.0.0.0-24"), " ", after("worker-9-10.0.0.16-28")); got != c.want {
			t.Errorf("with %s: got %s, want %s", c.confirmAfter, got, c.want)
		}
	}
}
