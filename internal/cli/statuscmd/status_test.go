package statuscmd

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	authorizationv1 "k8s.io/api/authorization/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

var update = flag.Bool("update", false, "write testdata/status.txt")

var leases = coordinationv1.SchemeGroupVersion.WithResource("leases")

// texts are the lines, as text.
func texts(t *testing.T, p *Probe) (all []string) {
	for _, w := range p.reconcilers() {
		if w.Namespace == p.namespace && p.own == nil {
			p.own = w
		}
	}
	for _, l := range p.say(t.Context()) {
		text := fmt.Sprintf("%s %s: %s\n", l.Level, l.ID, l.Message)
		if l.Next != "" {
			text += "    " + l.Next + "\n"
		}
		all = append(all, text)
	}
	return all
}

// lineOf is the line of a check, as text.
func lineOf(t *testing.T, p *Probe, id string) string {
	t.Helper()
	for _, text := range texts(t, p) {
		if _, rest, _ := strings.Cut(text, " "); strings.HasPrefix(rest, id+":") {
			return text
		}
	}
	return ""
}

// testdata/status.txt has the lines of each situation that differ from those of a sound cluster.
func TestStatus_Situations(t *testing.T) {
	var out strings.Builder
	usual := texts(t, sound())
	fmt.Fprintf(&out, "# a sound cluster\n%s", strings.Join(usual, ""))
	for _, s := range situations() {
		p := sound()
		s.change(p)
		said := texts(t, p)
		fmt.Fprintf(&out, "\n# %s\n", s.name)
		for _, text := range usual {
			if id, _, _ := strings.Cut(text, ":"); !slices.Contains(said, text) {
				fmt.Fprintf(&out, "not %s\n", id)
			}
		}
		for _, text := range said {
			if !slices.Contains(usual, text) {
				out.WriteString(text)
			}
		}
	}
	const golden = "testdata/status.txt"
	if *update {
		if err := os.WriteFile(golden, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if out.String() != string(want) {
		t.Errorf("it says (see with -update and git diff):\n%s", out.String())
	}
}

// A grant is one verb on one resource that a role of the manifests gives the reconciler.
type grant struct {
	namespace             string // of the Role; "" for a ClusterRole
	group, resource, verb string
	names                 []string // nil for all
}

func (g *grant) allows(a *authorizationv1.ResourceAttributes) bool {
	return g.group == a.Group && g.resource == a.Resource && g.verb == a.Verb &&
		(g.namespace == "" || g.namespace == a.Namespace) && (g.names == nil || slices.Contains(g.names, a.Name))
}

// grants are those of the roles of the reconciler's ServiceAccount.
func grants(t *testing.T) (all []grant) {
	t.Helper()
	for _, file := range []string{"base/rbac.yaml", "deployment/rbac.yaml", "leases/leases.yaml"} {
		text, err := os.ReadFile(filepath.Join("../../../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range strings.Split(string(text), "\n---\n") {
			var role rbacv1.Role
			if err := yaml.Unmarshal([]byte(document), &role); err != nil {
				t.Fatal(err)
			}
			if role.Name == "ip-reconcile-agent" {
				continue
			}
			for _, r := range role.Rules {
				for _, resource := range r.Resources {
					for _, verb := range r.Verbs {
						all = append(all, grant{role.Namespace, r.APIGroups[0], resource, verb, r.ResourceNames})
					}
				}
			}
		}
	}
	return all
}

// rightsUnder returns the line of the check of rights for a ServiceAccount with these grants.
func rightsUnder(t *testing.T, given []grant) line {
	t.Helper()
	p := sound()
	p.own = p.deployment()
	p.may = func(_ context.Context, _ string, a authorizationv1.ResourceAttributes) (bool, error) {
		return slices.ContainsFunc(given, func(g grant) bool { return g.allows(&a) }), nil
	}
	l, err := p.permissions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// While a source is unknown, no line that rests on it says that all is well.
func TestStatus_UnknownSourcesAreNoAllClear(t *testing.T) {
	usual := All(UsualPool, UsualPod(Carrying("10.0.0.5")), bounded, bothFresh)
	for name, c := range map[string]struct {
		part  Part
		lines []string
	}{
		"definitions": {noDefinitions, []string{"stale", "pools", "findings"}},
		"no definition": {func(o *Observed) {
			o.NADs = facts.Complete(map[types.NamespacedName]*ippool.NAD{}, "1")
		}, []string{"pools"}},
		"nodes": {NodesUnknown, []string{"stale", "findings", "agents"}},
		"reports": {func(o *Observed) { o.Reports = facts.Unknown[[]*podstate.Report](forbidden) },
			[]string{"stale", "findings", "agents"}},
		"Leases": {func(o *Observed) { o.AgentLeases = facts.Unknown[bool](forbidden) }, []string{"stale", "findings"}},
		"reservations": {func(o *Observed) { o.Reservations = facts.Unknown[[]*ippool.Reservation](forbidden) },
			[]string{"stale", "findings"}},
	} {
		p := sound()
		p.observed(usual, c.part)
		isOK := map[string]string{}
		for _, l := range p.say(t.Context()) {
			if l.Level == view.LevelOK {
				isOK[l.ID] = l.Message
			}
		}
		for _, id := range c.lines {
			if isOK[id] != "" {
				t.Errorf("%s are unknown, and %s says %q", name, id, isOK[id])
			}
		}
	}
}

func TestStatus_FindingsThatAreNotListed(t *testing.T) {
	p := sound()
	parts := []Part{UsualPool, bothFresh}
	for i := range 1200 {
		parts = append(parts, RawReservation(fmt.Sprint("bad-", i), time.Hour, map[string]any{"podref": "?"}))
	}
	p.observed(parts...)
	l, err := p.findings(t.Context())
	if err != nil || !strings.Contains(l.Message, "1200 Malformed") ||
		!strings.Contains(l.Message, "which have 1,000 of a kind: 200.") {
		t.Errorf("%+v %v", l, err)
	}
}

// The rights that are asked for are those that the manifests give, and each of them.
func TestStatus_PermissionsAreThoseOfTheManifests(t *testing.T) {
	all := grants(t)
	if l := rightsUnder(t, all); l.Level != view.LevelOK {
		t.Errorf("with all rights: %s %s", l.Level, l.Message)
	}
	if len(all) < 40 {
		t.Errorf("%d rights", len(all))
	}
	for i, g := range all {
		t.Run(g.verb+" "+g.resource+" "+g.namespace, func(t *testing.T) {
			rest := slices.Delete(slices.Clone(all), i, i+1)
			if slices.ContainsFunc(rest, func(other grant) bool { // a ClusterRole gives it, too
				return other.namespace == "" && other.names == nil && other.group == g.group && other.resource == g.resource &&
					other.verb == g.verb
			}) {
				return
			}
			l := rightsUnder(t, rest)
			isNamed := slices.ContainsFunc(strings.Split(strings.TrimPrefix(l.Message,
				"RBAC forbids ServiceAccount kube-system/ip-reconcile to "), "; "), func(part string) bool {
				verbs, cost, hasCost := strings.Cut(part, " (")
				return strings.HasPrefix(verbs, g.verb+" "+g.resource) && hasCost && len(cost) > len("x).")
			})
			if l.Level != view.LevelWarning && l.Level != view.LevelError || !isNamed || l.Next == "" {
				t.Errorf("without it: %s %s", l.Level, l.Message)
			}
		})
	}
}

// A kind that the API server does not serve needs no rights.
func TestStatus_PermissionsOfKindsThatAreNotServed(t *testing.T) {
	p := sound()
	p.own = p.deployment()
	p.lacking(ippool.ClaimResource, podstate.GuestResource)
	p.may = func(_ context.Context, _ string, a authorizationv1.ResourceAttributes) (bool, error) {
		return a.Resource != "ipamclaims" && a.Resource != "virtualmachineinstances", nil
	}
	if l, err := p.permissions(t.Context()); err != nil || l.Level != view.LevelOK {
		t.Errorf("%s %s, %v", l.Level, l.Message, err)
	}
}

// A 404 of a load balancer is no answer, and a 403 is none.
func TestStatus_AbsentByTheAPIServersOwnAnswer(t *testing.T) {
	thing := schema.GroupResource{Resource: "leases"}
	if err := unlessAbsent(apierrors.NewNotFound(thing, "x")); err != nil {
		t.Errorf("the API server's own 404: %v", err)
	}
	for name, err := range map[string]error{
		"a 403":               apierrors.NewForbidden(thing, "x", nil),
		"a 404 of in between": apierrors.NewGenericServerResponse(404, "get", thing, "x", "404 page not found", 0, true),
	} {
		if unlessAbsent(err) == nil {
			t.Errorf("%s is taken for an answer", name)
		}
	}
}

// Without its schedule nobody knows whether the next pass is overdue, however old the last one is.
func TestStatus_PassWithoutASchedule(t *testing.T) {
	const record = `{"at":"2026-09-01T04:30:00Z","result":"Succeeded","took":"1s","succeeded":"2026-09-01T04:30:00Z"`
	for _, schedule := range []string{"", `,"schedule":"every now and then"`} {
		p := sound()
		p.pass(record + schedule + "}")
		if text := lineOf(t, p, "last-pass"); strings.HasPrefix(text, string(view.LevelOK)) {
			t.Errorf("schedule %q: %s", schedule, text)
		}
	}
}

// A version that an image does not tell may be any.
func TestStatus_VersionsThatAreUnknown(t *testing.T) {
	for name, change := range map[string]func(*Probe){
		"agents by digest": func(p *Probe) { p.daemonSet().Spec = running("example.com/ip-reconcile@sha256:00") },
		"agents by another tag": func(p *Probe) {
			p.daemonSet().Spec = running("example.com/ip-reconcile:latest")
		},
		"one of two replicas": func(p *Probe) {
			p.put(p.replica("a", "0.1.0", corev1.PodRunning), p.replica("b", "latest", corev1.PodRunning))
		},
	} {
		p := sound()
		change(p)
		if text := lineOf(t, p, "versions"); !strings.HasPrefix(text, string(view.LevelUnknown)) {
			t.Errorf("%s: %s", name, text)
		}
	}
}

// Addresses that a reservation keeps from ADDs are not free, so a pool may be full while reservations are unknown.
func TestStatus_PoolsWhileReservationsAreUnknown(t *testing.T) {
	unknownReservations := func(o *Observed) {
		o.Reservations = facts.Unknown[[]*ippool.Reservation](errors.New("forbidden"))
	}
	for _, c := range []struct {
		definition Part
		want       view.Level
	}{{NAD("wb", WhereaboutsConfig("10.0.0.0/24", "")), view.LevelUnknown}, {bounded, view.LevelOK}} {
		p := sound()
		p.observed(UsualPool, UsualPod(Carrying("10.0.0.5")), c.definition, bothFresh, unknownReservations)
		if text := lineOf(t, p, "pools"); !strings.HasPrefix(text, string(c.want)) {
			t.Errorf("want %s: %s", c.want, text)
		}
	}
}
