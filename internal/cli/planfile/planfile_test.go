package planfile_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/planfile"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

const uid = "0a0a0a0a-cluster"

// three are stale: an allocation with proof, one without, and a reservation without an allocation.
var three = All(Pool("10.0.0.0-24", "10.0.0.0/24", UsualAllocation, Alloc("6", "default/web-1", "box-2", "net1")),
	Reservation("10.0.0.9", "default/web-9", LongAgo), Pod("other"), ReportingWorker(Gone("box-1", UsualUID)))

func planOf(cluster string, at time.Time, parts ...Part) *view.Plan {
	h := view.NewHeader(view.KindPlan, "1.2.3", view.Cluster{UID: cluster, Server: "https://a"}, at)
	return planfile.New(h, Judged(Observe(parts...), facts.Policy{}).StaleItems())
}

func encode(t *testing.T, form string, p any) []byte {
	t.Helper()
	var text bytes.Buffer
	check(t, view.Write(&text, form, p))
	return text.Bytes()
}

func TestRead_AsWrittenAndWithFewerItems(t *testing.T) {
	for says, edit := range map[string]func(*view.Plan){
		"as written":       func(*view.Plan) {},
		"one is deleted":   func(p *view.Plan) { p.Items = p.Items[1:] },
		"all but one":      func(p *view.Plan) { p.Items = p.Items[1:2] },
		"none remains":     func(p *view.Plan) { p.Items = []view.PlanItem{} },
		"in another order": func(p *view.Plan) { slices.Reverse(p.Items) },
	} {
		for _, form := range []string{"json", "yaml", "compact"} {
			p := planOf(uid, Now, three)
			if len(p.Items) != 3 {
				t.Fatalf("%d items", len(p.Items))
			}
			edit(p)
			text := encode(t, strings.TrimPrefix(form, "compact"), p)
			if form == "compact" { // keys in another order, escapes
				var plain any
				check(t, yaml.Unmarshal(text, &plain))
				text, _ = json.Marshal(plain)
			}
			f, err := planfile.Read(text)
			if err != nil || len(f.Items) != len(p.Items) {
				t.Errorf("%s, %s: %v", says, form, err)
				continue
			}
			if err := f.Check(uid, Now.Add(time.Hour), 24*time.Hour); err != nil {
				t.Errorf("%s, %s: %v", says, form, err)
			}
			allowed := 0
			for _, it := range Judged(Observe(three), facts.Policy{}).StaleItems() {
				if f.Allows(it) {
					allowed++
				}
			}
			if allowed != len(p.Items) {
				t.Errorf("%s, %s: %d of %d are allowed", says, form, allowed, len(p.Items))
			}
		}
	}
}

func TestRead_Refuses(t *testing.T) {
	another, later := planOf("another", Now, three), planOf(uid, Now.Add(time.Second), three)
	for says, c := range map[string]struct {
		edit func(*view.Plan)
		want string
	}{
		"another schema":        {func(p *view.Plan) { p.APIVersion = "output.ip-reconcile.dev/v2" }, "apiVersion"},
		"another document":      {func(p *view.Plan) { p.Kind = view.KindRun }, "kind"},
		"the pool":              {func(p *view.Plan) { p.Items[0].Pool = "kube-system/10.1.0.0-24" }, "items[0].digest"},
		"the key":               {func(p *view.Plan) { p.Items[1].Key = "7" }, "items[1].digest"},
		"the container":         {func(p *view.Plan) { p.Items[0].ContainerID = "box-3" }, "items[0].digest"},
		"the pod":               {func(p *view.Plan) { p.Items[0].PodRef = "default/web-1" }, "items[0].digest"},
		"the interface":         {func(p *view.Plan) { p.Items[0].IfName = "net2" }, "items[0].digest"},
		"the reservation":       {func(p *view.Plan) { p.Items[2].Reservation = "kube-system/10.0.0.8" }, "items[2].digest"},
		"the reservation's UID": {func(p *view.Plan) { p.Items[2].ReservationUID = "x" }, "items[2].digest"},
		"the message":           {func(p *view.Plan) { p.Items[0].Message = "all is well" }, "items[0].digest"},
		"the proof":             {func(p *view.Plan) { p.Items[1].Proven = true }, "items[1].digest"},
		"the sandbox": {func(p *view.Plan) { p.Items[1].Evidence.Sandbox.State = "Gone" },
			"items[1].digest"},
		"the digest":              {func(p *view.Plan) { p.Items[0].Digest = p.Items[1].Digest }, "items[0].digest"},
		"no digest":               {func(p *view.Plan) { p.Items[0].Digest = "" }, "items[0].digest"},
		"the cluster":             {func(p *view.Plan) { p.Cluster.UID = "another" }, "items[0].digest"},
		"the time":                {func(p *view.Plan) { p.ObservedAt = Now.Add(time.Hour) }, "items[0].digest"},
		"an item of another plan": {func(p *view.Plan) { p.Items[0] = later.Items[0] }, "items[0].digest"},
		"one of another cluster":  {func(p *view.Plan) { p.Items = append(p.Items, another.Items[0]) }, "items[3].digest"},
		"an item twice": {func(p *view.Plan) { p.Items = append(p.Items, p.Items[0]) },
			"items[3]: the plan has 10.0.0.5 in"},
		"a reservation twice": {func(p *view.Plan) { p.Items = append(p.Items, p.Items[2]) },
			"items[3]: the plan has 10.0.0.9 in"},
	} {
		p := planOf(uid, Now, three)
		c.edit(p)
		for _, form := range []string{"json", "yaml"} {
			if _, err := planfile.Read(encode(t, form, p)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %s: %v, want %s", says, form, err, c.want)
			}
		}
	}
	good := string(encode(t, "json", planOf(uid, Now, three)))
	for says, c := range map[string][2]string{
		"an unknown field":      {strings.Replace(good, `"items"`, `"more": 1, "items"`, 1), `unknown field "more"`},
		"one of an item":        {strings.Replace(good, `"key"`, `"force": true, "key"`, 1), `unknown field "force"`},
		"a field twice":         {strings.Replace(good, `"key"`, `"ifName": "net1", "key"`, 1), `"ifName" already set`},
		"half a file":           {good[:len(good)/2], "yaml"},
		"an empty file":         {"", "apiVersion"},
		"a list":                {"[]", "array"},
		"items of another kind": {strings.Replace(good, `"items": [`, `"items": [7, `, 1), "items"},
	} {
		if _, err := planfile.Read([]byte(c[0])); err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %s", says, err, c[1])
		}
	}
}

func TestCheck(t *testing.T) {
	f, err := planfile.Read(encode(t, "json", planOf(uid, Now, three)))
	check(t, err)
	const day = 24 * time.Hour
	for says, c := range map[string]struct {
		uid  string
		now  time.Time
		want string
	}{
		"at once":              {uid, Now, ""},
		"a day":                {uid, Now.Add(day), ""},
		"a second more":        {uid, Now.Add(day + time.Second), "observedAt"},
		"clocks that differ":   {uid, Now.Add(-time.Minute), ""},
		"of the future":        {uid, Now.Add(-time.Minute - time.Second), "observedAt"},
		"another cluster":      {"another", Now, "cluster.uid"},
		"one that has no name": {"", Now, "namespace kube-system"},
	} {
		err := f.Check(c.uid, c.now, day)
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", says, err, c.want)
		}
	}
	unnamed := &planfile.File{Plan: *planOf("", Now, three)}
	if err := unnamed.Check("", Now, day); err == nil || !strings.Contains(err.Error(), "it has none") {
		t.Error("a plan without a cluster is of each cluster without one")
	}
}

// Nothing is released for other evidence than was read, unless it has become proof. Without agents that includes the
// nodes that are not Ready: a person asserts that what was printed of them has ended, and nothing about other nodes.
func TestAllows(t *testing.T) {
	gone, two := UsualSandboxGone, Node("worker-2")
	stopped := All(UsualPool, ReportingWorker(Sandbox("box-1", UsualUID, NotReady(Closed))))
	ready := All(UsualPool, UsualPod(), ReportingWorker(Sandbox("box-1", UsualUID)))
	absent := All(UsualPool, ReportingWorker())
	noAgents := All(UsualPool, Node("worker-1"))
	claimed := Pod("other", UID("uid-9"), Carrying("10.0.0.5"))
	nad := NAD("wb", WhereaboutsConfig("10.0.0.0/24", ""))
	elsewhere := All(two, FreshReport("worker-2"))
	asserted := Asserted(judge.ID{Object: "kube-system/10.0.0.0-24", Key: "5", ContainerID: "box-1",
		PodRef: "default/web-0", IfName: "net1"}, judge.NodeUnreachable)
	cutOff := func(nodes ...string) Part {
		all := All(UsualPool, Pod("other"), Node("worker-1"), two, asserted)
		for _, name := range nodes {
			all = All(all, Node(name, NotReadyFor(time.Hour)))
		}
		return all
	}
	for says, c := range map[string]struct {
		was, now Part
		want     string // "" for allowed
	}{
		"nothing changed":                    {gone, gone, ""},
		"an hour passed":                     {gone, All(At(Now.Add(time.Hour)), gone), ""},
		"the runtime removed it":             {stopped, gone, ""},
		"another pod came":                   {gone, All(gone, Pod("other")), ""},
		"a node joins, and all is as it was": {absent, All(absent, elsewhere), ""},
		"a node joins, without agents":       {noAgents, All(noAgents, two), ""},
		"it is listed again":                 {gone, stopped, "sandbox Gone on worker-1 → Stopped on worker-1"},
		"it runs": {stopped, ready,
			"sandbox Stopped on worker-1 → Ready on worker-1; pod none → live on worker-1 with UID uid-1"},
		"only its absence":              {gone, absent, "sandbox Gone on worker-1 → Absent"},
		"its end is reported":           {absent, gone, "sandbox Absent → Gone on worker-1"},
		"a node joins without a report": {absent, All(absent, two), "sandbox Absent → NoFreshReport on worker-2"},
		"asserted of the same node":     {cutOff("worker-1"), cutOff("worker-1"), ""},
		"another node is cut off, too": {cutOff("worker-1"), cutOff("worker-1", "worker-2"),
			"sandbox NoSource with worker-1 not Ready → NoSource with worker-1, worker-2 not Ready"},
		"another node is cut off instead": {cutOff("worker-1"), cutOff("worker-2"),
			"sandbox NoSource with worker-1 not Ready → NoSource with worker-2 not Ready"},
		"one of the nodes is back": {cutOff("worker-1", "worker-2"), cutOff("worker-1"),
			"worker-1, worker-2 not Ready → NoSource with worker-1 not Ready"},
		"agents are installed": {noAgents, absent, "sandbox NoSource → Absent"},
		"agents are removed":   {absent, noAgents, "sandbox Absent → NoSource"},
		"the pod is back":      {gone, All(gone, UsualPod()), "pod none → live on worker-1 with UID uid-1"},
		"the pod is back and has it": {gone, All(gone, UsualPod(Carrying("10.0.0.5"))),
			"verdict Stale (PodGone, rule gone-ended) → InUse"},
		"another pod has it": {gone, All(gone, nad, claimed), "claimant none → pod default/other"},
		"it cannot be read": {gone, All(ReportingWorker(Gone("box-1", UsualUID)),
			Pool("10.0.0.0-24", "?", UsualAllocation)), "→ Held (Malformed"},
		"another node may run it": {gone, All(gone, UsualPod(Phase("Failed"), OnNode("worker-2")), two,
			StaleReport("worker-2")), "Gone on worker-1 → NoFreshReport on worker-2"},
		"another node must confirm it": {All(gone, UsualPod(Phase("Failed"))),
			All(gone, UsualPod(Phase("Failed"), OnNode("worker-2")), elsewhere), "verdict proven → unconfirmed"},
	} {
		f, err := planfile.Read(encode(t, "json", planOf(uid, Now, c.was)))
		if err != nil || len(f.Items) != 1 {
			t.Fatalf("%s: %v, %d items", says, err, len(f.Items))
		}
		j := Judged(Observe(c.now), facts.Policy{})
		it := j.Allocations[0]
		if allowed := f.Allows(it); allowed != (c.want == "") || allowed && it.Verdict != judge.Stale {
			t.Errorf("%s: allowed is %v, %s %s", says, allowed, it.Verdict, it.Reason)
		}
		out := &reconciler.Result{Assessment: j}
		f.Complete(out)
		if x := out.Refused[0]; c.want != "" && (x.Item != it || x.Why != plan.Changed ||
			!strings.Contains(x.Gate.Detail, c.want)) {
			t.Errorf("%s: %s %q, want %q", says, x.Why, x.Gate.Detail, c.want)
		}
	}
}

func TestAllows_ProofThatCameLater(t *testing.T) {
	was := Judged(Observe(UsualSandboxGone), facts.Policy{}).StaleItems()
	was[0].Proven = false
	h := view.NewHeader(view.KindPlan, "1", view.Cluster{UID: uid}, Now)
	f, err := planfile.Read(encode(t, "json", planfile.New(h, was)))
	check(t, err)
	if it := Judged(Observe(UsualSandboxGone), facts.Policy{}).StaleItems()[0]; !f.Allows(it) {
		t.Error("an item is refused because its evidence became proof")
	}
}

// An entry that whereabouts has rewritten is another one, whatever its address is.
func TestComplete_OfWhatIsNotRecorded(t *testing.T) {
	pool := func(a ...Allocation) Part { return Pool("10.0.0.0-24", "10.0.0.0/24", a...) }
	f, err := planfile.Read(encode(t, "json", planOf(uid, Now, UsualSandboxGone)))
	check(t, err)
	for says, now := range map[string]Part{
		"released":          pool(),
		"no pool":           Node("worker-1"),
		"assigned again":    pool(Alloc("5", "default/new", "box-9", "net1")),
		"of the same pod":   pool(Alloc("5", "default/web-0", "box-9", "net1")),
		"another interface": pool(Alloc("5", "default/web-0", "box-1", "net2")),
		"another address":   pool(Alloc("6", "default/web-0", "box-1", "net1")),
		"another pool":      Pool("red-10.0.0.0-24", "10.0.0.0/24", UsualAllocation),
	} {
		j := Judged(Observe(now, ReportingWorker(Gone("box-1", UsualUID))), facts.Policy{})
		for _, it := range slices.Concat(j.Allocations, j.Reservations) {
			if f.Has(it) {
				t.Errorf("%s: %s %s may be released", says, it.Object(), it.Key())
			}
		}
		out := &reconciler.Result{Assessment: j}
		f.Complete(out)
		if len(out.Refused) > 0 || !slices.Contains(j.Notes(),
			"1 of 1 items of the plan are not recorded any more: already released") {
			t.Errorf("%s: %v, %q", says, out.Refused, j.Notes())
		}
	}
}

// A reservation of the plan that cannot be read may remain: nothing shows that it is released.
func TestComplete_WhileReservationsAreUnknown(t *testing.T) {
	f, err := planfile.Read(encode(t, "json", planOf(uid, Now, three)))
	check(t, err)
	emptied := All(Pool("10.0.0.0-24", "10.0.0.0/24"), Pod("other"), ReportingWorker())
	for says, c := range map[string]struct {
		edit func(*Observed)
		want []string
	}{
		"they are gone": {func(*Observed) {},
			[]string{"3 of 3 items of the plan are not recorded any more: already released"}},
		"they cannot be read": {func(o *Observed) {
			o.Reservations = facts.Unknown[[]*ippool.Reservation](errors.New("forbidden"))
		}, []string{"2 of 3 items of the plan are not recorded any more: already released",
			"1 of 3 items of the plan are reservations, which cannot be read: it is unknown whether they are released"}},
	} {
		j := Judged(Observe(emptied, c.edit), facts.Policy{})
		isKnown := f.Complete(&reconciler.Result{Assessment: j})
		if got := j.Observation.Warnings; !slices.Equal(got, c.want) || isKnown != (len(c.want) == 1) {
			t.Errorf("%s: all is known: %v, %q", says, isKnown, got)
		}
	}
}

// An entry that became unreadable in its place is not released.
func TestComplete_OfWhatCannotBeParsed(t *testing.T) {
	f, err := planfile.Read(encode(t, "json", planOf(uid, Now, three)))
	check(t, err)
	entry := func(key string, more map[string]any) Part {
		return RawPool("10.0.0.0-24", map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{key: more}})
	}
	for says, c := range map[string]struct {
		now  Part
		want string // in front of the other changes
	}{
		"its podref":         {entry("5", map[string]any{"id": "box-1", "podref": "web", "ifname": "net1"}), "Malformed"},
		"a new field":        {entry("5", map[string]any{"id": "box-1", "podref": "default/web-0", "x": 1}), "UnknownField"},
		"of another address": {entry("7", map[string]any{"id": "box-1", "podref": "web", "ifname": "net1"}), ""},
		"the reservation":    {Reservation("10.0.0.9", "nonsense", LongAgo), "Malformed"},
	} {
		j := Judged(Observe(c.now, Pod("other"), ReportingWorker(Gone("box-1", UsualUID))), facts.Policy{})
		out := &reconciler.Result{Assessment: j}
		f.Complete(out)
		isRefused := len(out.Refused) == 1 && strings.HasPrefix(out.Refused[0].Gate.Detail, "problem none → "+c.want+"; ")
		if isRefused != (c.want != "") || len(out.Refused) > 1 || f.Allows(slices.Concat(j.Allocations, j.Reservations)[0]) {
			t.Errorf("%s: %v", says, out.Refused)
		}
	}
}

func TestComplete_OfARun(t *testing.T) {
	f, err := planfile.Read(encode(t, "json", planOf(uid, Now, three)))
	check(t, err)
	// Two more than the plan has: one is InUse, and one is Stale.
	j := Judged(Observe(three, Pool("10.1.0.0-24", "10.1.0.0/24", Alloc("1", "default/other", "box-8", "net1"),
		Alloc("2", "default/gone", "box-9", "net1"))), facts.Policy{})
	stale := slices.DeleteFunc(j.StaleItems(), func(it *judge.Item) bool { return !f.Has(it) })
	paused := plan.Refused{Item: stale[1], Gate: plan.Gate{Why: plan.Paused}}
	out := &reconciler.Result{Assessment: j, Released: stale[:1], Refused: []plan.Refused{paused}}
	f.Complete(out)
	if len(out.Refused) != 2 || out.Refused[0].Why != plan.Paused || out.Refused[1].Item != stale[2] ||
		out.Refused[1].Gate.Detail != "changed at the second check; apply the plan again" || len(out.Released) != 1 {
		t.Errorf("%+v", out.Refused)
	}
}

func TestSelect(t *testing.T) {
	stale := Judged(Observe(three), facts.Policy{}).StaleItems()
	waits, breaker := plan.Gate{Why: plan.AwaitingConfirmation}, plan.Gate{Why: plan.Breaker}
	for says, c := range map[string]struct {
		gate      plan.Gate
		also      []plan.Gate
		isPlanned bool
	}{
		"released now":           {plan.Gate{Why: plan.DryRunRefusal}, nil, true},
		"waits":                  {waits, nil, true},
		"waits, and the breaker": {waits, []plan.Gate{breaker}, false},
		"the breaker":            {breaker, nil, false},
		"paused":                 {plan.Gate{Why: plan.Paused}, nil, false},
	} {
		out := &reconciler.Result{Refused: []plan.Refused{{Item: stale[2], Gate: waits},
			{Item: stale[0], Gate: c.gate, Also: c.also}}}
		want := []*judge.Item{stale[2]}
		if c.isPlanned {
			want = []*judge.Item{stale[0], stale[2]} // by place
		}
		if got := planfile.Select(out); !slices.Equal(got, want) || out.Refused[0].Why != plan.DryRunRefusal {
			t.Errorf("%s: %d items", says, len(got))
		}
	}
}

// The removals of pools in a plan are as they were written, or fewer.
func TestRead_Pools(t *testing.T) {
	pools := Judged(Observe(Pool("10.8.0.0-24", "10.8.0.0/24"), Pool("10.9.0.0-24", "10.9.0.0/24"), func(o *Observed) {
		o.Pools[0].UID, o.Pools[1].UID = "uid-8", "uid-9"
	}), facts.Policy{}).Observation.Pools
	for says, c := range map[string]struct {
		edit func(*view.Plan)
		want string // "" for no error
	}{
		"as written":      {func(*view.Plan) {}, ""},
		"one is deleted":  {func(p *view.Plan) { p.Pools = p.Pools[:1] }, ""},
		"none is left":    {func(p *view.Plan) { p.Pools = nil }, ""},
		"another name":    {func(p *view.Plan) { p.Pools[1].Pool = "kube-system/10.7.0.0-24" }, "pools[1].digest"},
		"another UID":     {func(p *view.Plan) { p.Pools[0].UID = "uid-9" }, "pools[0].digest"},
		"another range":   {func(p *view.Plan) { p.Pools[0].Range = "10.7.0.0/24" }, "pools[0].digest"},
		"of another plan": {func(p *view.Plan) { p.Cluster.UID = "another" }, "digest"},
		"one twice":       {func(p *view.Plan) { p.Pools[1] = p.Pools[0] }, "twice"},
	} {
		p := planOf(uid, Now, three)
		p.Items, p.Pools = []view.PlanItem{}, planfile.NewPools(p.Header, pools)
		c.edit(p)
		f, err := planfile.Read(encode(t, "json", p))
		switch {
		case c.want != "":
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s: %v", says, err)
			}
		case err != nil:
			t.Errorf("%s: %v", says, err)
		default:
			for i, got := range f.Retires() {
				if got.Ref() != pools[i].Ref() || got.UID != pools[i].UID {
					t.Errorf("%s: it is of %s, %s", says, got.Ref(), got.UID)
				}
			}
		}
	}
}

// check ends the test with an error.
func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
