package advice

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/findings"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

func advisor() Advisor { return Advisor{Program: "ip-reconcile", Namespace: "kube-system"} }

// known has a name for every place.
func known() Facts {
	return Facts{Names: map[string]string{"ip": "10.0.0.7", "pool": "kube-system/10.0.0.0-24",
		"definition": "default/wb", "exclude": "10.0.0.8/30", "begin": "10.0.0.9", "workloads": "default/Pod/web-0",
		"reservation": "kube-system/10.0.0.7", "pod": "default/web-0", "container": "c0ffee",
		"otherpod": "default/web-1", "othercontainer": "beef", "othernode": "worker-2", "restore": "k3f7q2m9xa",
		"reason": "NodeUnreachable", "repairpool": "kube-system/10.0.0.0-24", "claimingpod": "default/web-1",
		"claim": "default/vm.net1", "machine": "default/vm", "step": "1", "owner": "ReplicaSet/web",
		"badentry": "14", "badpool": "kube-system/10.0.0.0-24", "recordpod": "default/web-0",
		"podrefpatch": `[{"op":"add"}]`, "removal": `[{"op":"remove"}]`,
		"range": "10.0.0.0/24", "newrange": "10.0.0.0/25", "rangepatch": `[{"op":"replace"}]`,
		"badreservation":   "kube-system/10.0.0.7",
		"reservationpatch": `[{"op":"replace"}]`,
	}, Nodes: []string{"worker-1"}, DownNodes: []string{"worker-1"}}
}

// each calls f for every entry of advice.yaml.
func each(f func(section, name string, templates []template)) {
	for section, entries := range templates() {
		for name, list := range entries {
			f(section, name, list)
		}
	}
}

func TestAdvice_EveryReasonRefusalAndFinding(t *testing.T) {
	words := map[string][]string{"reasons": append(judge.ReasonNames(), "NotExported", "NodesNotExported",
		"GuestsNotExported"), "stale": append(judge.ReasonNames(), "Stale"), "overrides": judge.ReasonNames()}
	for _, why := range plan.Refusals() {
		words["gates"] = append(words["gates"], string(why))
	}
	for _, kind := range findings.Kinds() {
		words["findings"] = append(words["findings"], string(kind))
	}
	staleOnly := []string{"PodReplaced", "PodFinished", "SandboxReplaced", "SandboxStopped", "PodGone", "ClaimGone"}
	for _, section := range []string{"reasons", "gates", "findings"} {
		for _, word := range words[section] {
			if len(templates()[section][word]) == 0 && !slices.Contains(staleOnly, word) {
				t.Errorf("%s: nothing is said about %s", section, word)
			}
		}
	}
	each(func(section, name string, list []template) {
		word, _, _ := strings.Cut(name, " ")
		if words[section] != nil && !slices.Contains(words[section], word) {
			t.Errorf("%s: %s is not a word of the program", section, name)
		}
		for _, withoutAgents := range []bool{false, true} {
			a, n := advisor(), 0
			a.WithoutAgents = withoutAgents
			for _, s := range list {
				if s.Agents == nil || *s.Agents != withoutAgents {
					n++
				}
			}
			if steps := a.Steps(section, name, known()); len(steps) != n {
				t.Errorf("%s: of %d steps on %s there are %d where every name is known", section, n, name, len(steps))
			}
		}
		for _, s := range list {
			for _, m := range regexp.MustCompile(`annotate .* (ip-reconcile\.dev/[a-z-]*[a-z])`).FindAllStringSubmatch(s.Command,
				-1) {
				if m[1] != ippool.PausedAnnotation && m[1] != restore.AcknowledgedAnnotation {
					t.Errorf("%s has the annotation %s", name, m[1])
				}
			}
		}
	})
}

func TestAdvice_PlacesWithKnownNames(t *testing.T) {
	for _, f := range []Facts{known(), {}, {Names: map[string]string{"ip": "10.0.0.7"}},
		{Names: map[string]string{"ip": "10.0.0.7"}, Nodes: []string{"worker-1"}}} {
		each(func(section, name string, list []template) {
			for _, s := range advisor().Steps(section, name, f) {
				text := s.Why + s.Command + s.OnNode
				if places.MatchString(text) || strings.Contains(text, "{inpool}") || s.Why == "" ||
					strings.Contains(s.Command, "= ") || strings.Contains(s.Command, "  ") || strings.HasSuffix(s.Command, "=") {
					t.Errorf("%s of %s with %+v: %+v", name, section, f, s)
				}
				if f.Names["container"] == "" && strings.Contains(s.Command, "crictl") {
					t.Errorf("a sandbox that is not known is to be ended: %+v", s)
				}
			}
		})
	}
}

// A report's ids and names are whatever a runtime or an agent says, and commands are copied.
func TestAdvice_QuotesForAShell(t *testing.T) {
	for text, want := range map[string]string{
		"c0ffee":            "crictl inspectp c0ffee",
		"a; reboot":         "crictl inspectp 'a; reboot'",
		"$(reboot)":         "crictl inspectp '$(reboot)'",
		"a'; reboot; 'b":    "",
		"--runtime=/tmp/x":  "",
		"a\nreboot":         "",
		"a\x1b[2Jreboot":    "",
		"`reboot` && \"x\"": "crictl inspectp '`reboot` && \"x\"'",
	} {
		got := ""
		for _, s := range advisor().Steps("reasons", "PhantomPod",
			Facts{Names: map[string]string{"container": text}, Nodes: []string{"worker-1"}}) {
			if strings.Contains(s.Command, "inspectp") {
				got = s.Command
			}
		}
		if got != want {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

func TestAdvice_CommandsOfTheDistribution(t *testing.T) {
	node := func(name, version string) *podstate.Node { return &podstate.Node{Name: name, KubeletVersion: version} }
	for _, c := range []struct{ version, crictl, kubelet string }{
		{"", "crictl ", "kubelet"},
		{"v1.36.3", "crictl ", "kubelet"},
		{"v1.33.1+rke2r1", "/var/lib/rancher/rke2/bin/crictl --runtime-endpoint=unix:///run/k3s/containerd/containerd.sock ",
			"rke2-$(systemctl is-enabled -q rke2-server && echo server || echo agent)"},
		{"v1.33.1+k3s1", "k3s crictl ", "k3s$(systemctl is-enabled -q k3s || echo -agent)"},
	} {
		a, f := advisor(), known()
		f.Nodes = []string{"worker-1", "worker-2", "deleted"}
		a.Nodes = map[string]*podstate.Node{"worker-1": node("worker-1", c.version), "worker-2": node("worker-2", "v1.36.3")}
		text := ""
		for _, s := range append(a.Steps("reasons", "PhantomPod", f), a.Steps("reasons", "NodeMissing", f)...) {
			text += s.OnNode + ": " + s.Command + "\n"
		}
		for _, want := range []string{
			"worker-1: " + c.crictl + "stopp c0ffee && " + c.crictl + "rmp c0ffee\n",
			"worker-1: " + c.crictl + "inspectp c0ffee\n", "worker-2: crictl stopp c0ffee && crictl rmp c0ffee\n",
			"worker-2: crictl inspectp c0ffee\n",
			"worker-2: systemctl restart kubelet\n", "deleted: systemctl restart " + c.kubelet + "\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: no %q in\n%s", c.version, want, text)
			}
		}
	}
}

func TestAdvice_ManyNodes(t *testing.T) {
	text, logs := "", 0
	for _, s := range advisor().Steps("findings", "NoFreshReport", Facts{Nodes: []string{"w1", "w2", "w3", "w4", "w5"}}) {
		text += s.Why + "\n"
		if strings.Contains(s.Command, "logs") {
			logs++
		}
	}
	if logs != nodesShown || !strings.Contains(text, "The same for 2 more: w4, w5.") {
		t.Errorf("%d logs:\n%s", logs, text)
	}
}

func TestAdvice_RiskyCommandsHaveAWarning(t *testing.T) {
	risky := regexp.MustCompile(`taint nodes \S+ \S+=|delete node|` + restore.AcknowledgedAnnotation)
	ready := known()
	ready.DownNodes = nil
	each(func(section, name string, _ []template) {
		for _, s := range advisor().Steps(section, name, known()) {
			if risky.MatchString(s.Command) && !strings.HasPrefix(s.Why, "WARNING") {
				t.Errorf("%s: no warning before %q", name, s.Command)
			}
		}
		for _, s := range advisor().Steps(section, name, ready) {
			if strings.Contains(s.Command, "out-of-service=") || strings.Contains(s.Command, "delete node") {
				t.Errorf("%s: a node that is Ready is given up: %q", name, s.Command)
			}
		}
	})
}

func TestAdvice_CommandsNameTheCluster(t *testing.T) {
	a := advisor()
	a.ClusterFlag("kubeconfig", "/home/me/my config")
	a.Flag("agents", "required")
	a.ClusterFlag("context", "prod")
	const helm = "helm install x y --kubeconfig='/home/me/my config' --kube-context=prod"
	if got := a.OnCluster("helm install x y"); got != helm {
		t.Errorf("helm's command is %q", got)
	}
	a.KubectlFlags, a.Flags = a.KubectlFlags[:1], a.Flags[:2]
	steps := append(a.Steps("findings", "NoFreshReport", known()), a.Steps("stale", "Stale", known())...)
	for _, want := range []string{"kubectl --kubeconfig='/home/me/my config' logs -n kube-system --tail=50 $(kubectl " +
		"--kubeconfig='/home/me/my config' get pods",
		"ip-reconcile release 10.0.0.7 --kubeconfig='/home/me/my config' --agents=required"} {
		if !slices.ContainsFunc(steps, func(s view.Advice) bool { return strings.HasPrefix(s.Command, want) }) {
			t.Errorf("no command begins with %q", want)
		}
	}
}
