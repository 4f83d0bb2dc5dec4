package statuscmd

import (
	"cmp"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

func TestStatus_AdoptsFlagsAndNamespace(t *testing.T) {
	more := "--repair"
	read := func(args ...string) (*clusterflags.Flags, *Probe) {
		o, given := &clusterflags.Flags{}, pflag.NewFlagSet("status", pflag.ContinueOnError)
		o.Add(given, "error")
		if err := given.Parse(args); err != nil {
			t.Fatal(err)
		}
		p := sound()
		p.deployment().Namespace = "addresses"
		p.deployment().Spec = running("ip-reconcile:0.1.0", "serve", "--agent-nodes=role=worker", "--lease-namespace",
			"leases", "--unreachable-node-timeout=1h", more)
		if err := p.adopt(o, given); err != nil {
			t.Fatal(err)
		}
		return o, p
	}
	o, p := read()
	_, err := o.Reconciler(nil)
	if err != nil || p.namespace != "addresses" || p.leaseNamespace != "leases" || o.AgentNodes.String() != "role=worker" {
		t.Errorf("%s, %s, %+v, %v", p.namespace, p.leaseNamespace, o.Options, err)
	}
	if o.ConfirmAfter != 15*time.Minute || o.UnreachableNodeTimeout != time.Hour {
		t.Errorf("it confirms after %s, and releases what an unreachable node has after %s", o.ConfirmAfter,
			o.UnreachableNodeTimeout)
	}
	for flag, want := range map[string]bool{"--trust-network-status": true, "--trust-network-status=true": true,
		"--trust-network-status=false": false, "--repair": false} {
		more = flag
		o, _ = read()
		if _, err = o.Reconciler(nil); err != nil || o.TrustNetworkStatus != want {
			t.Errorf("with %s it trusts network-status: %v, %v", flag, o.TrustNetworkStatus, err)
		}
	}
	more = "--confirm-after=1h"
	if o, _ = read(); o.ConfirmAfter != time.Hour {
		t.Errorf("it confirms after %s", o.ConfirmAfter)
	}
	if _, p = read("--reconciler-namespace", "mine"); p.namespace != "mine" {
		t.Errorf("the namespace that is given is %s", p.namespace)
	}
	if _, p = read("--lease-namespace", "own"); p.leaseNamespace != "own" {
		t.Errorf("the namespace of Leases that is given is %s", p.leaseNamespace)
	}
}

// A command that writes must not miss the annotation that pauses the reconciler, wherever that is.
func TestAdopt_OnlyReconcilerOrAnError(t *testing.T) {
	one := workloads{{Kind: "Deployment", Namespace: "addresses", Spec: running("ip-reconcile:0.1.0"),
		Labels: map[string]string{kube.NameLabel: kube.Product}}}
	other := *one[0]
	other.Namespace = "other"
	second := workloads{one[0], &other}
	away := errors.New("no route to host")
	for name, c := range map[string]struct {
		found         workloads
		err           error
		namespace     string
		refusesWrites bool
	}{
		"one":                        {one, nil, "addresses", false},
		"one, and others forbidden":  {one, forbidden, "addresses", false},
		"none":                       {nil, nil, "kube-system", false},
		"none, and others forbidden": {nil, forbidden, "kube-system", true},
		"several":                    {second, nil, "kube-system", true},
		"no answer":                  {nil, away, "kube-system", true},
		"half an answer":             {one, away, "kube-system", true},
	} {
		for _, writes := range []bool{false, true} {
			o, given := &clusterflags.Flags{}, pflag.NewFlagSet("run", pflag.ContinueOnError)
			o.Add(given, "error")
			err := c.found.adoptOnly(c.err, given, writes)
			if o.Namespace() != c.namespace || (err != nil) != (writes && c.refusesWrites) {
				t.Errorf("%s, writes %v: namespace %s, %v", name, writes, o.Namespace(), err)
			}
		}
	}
}

// The reconciler in a namespace that is given says how to judge. Without it a command that writes must be told.
func TestAdopt_TheNamespaceThatIsGiven(t *testing.T) {
	one := workloads{{Kind: "Deployment", Namespace: "addresses", Spec: running("ip-reconcile:0.1.0", "serve",
		"--agents=required"), Labels: map[string]string{kube.NameLabel: kube.Product}}}
	away := errors.New("no route to host")
	for name, c := range map[string]struct {
		found         workloads
		err           error
		namespace     string
		args          []string
		required      bool
		refusesWrites bool
	}{
		"it has the reconciler":                 {one, nil, "addresses", nil, true, false},
		"it has it, and others are forbidden":   {one, forbidden, "addresses", nil, true, false},
		"it has it, and a flag is given":        {one, nil, "addresses", []string{"--agents=auto"}, false, false},
		"none is installed":                     {nil, nil, "addresses", nil, false, false},
		"another namespace has it":              {one, nil, "other", nil, false, true},
		"it may not be listed":                  {nil, forbidden, "addresses", nil, false, true},
		"it may not be listed, and --agents is": {nil, forbidden, "addresses", []string{"--agents=required"}, true, false},
		"no answer":                             {nil, away, "addresses", nil, false, true},
	} {
		for _, writes := range []bool{false, true} {
			o, given := &clusterflags.Flags{}, pflag.NewFlagSet("run", pflag.ContinueOnError)
			o.Add(given, "error")
			if err := given.Parse(append(c.args, "--reconciler-namespace", c.namespace)); err != nil {
				t.Fatal(err)
			}
			err := c.found.adoptIn(o.Namespace(), c.err, given, writes)
			required := given.Lookup("agents").Value.String() == "required"
			if o.Namespace() != c.namespace || required != c.required || (err != nil) != (writes && c.refusesWrites) {
				t.Errorf("%s, writes %v: namespace %s, reports are required: %v, %v", name, writes, o.Namespace(), required, err)
			}
		}
	}
}

// A pod that may be the reconciler is it where its own namespace has one, or where it sees no other.
func TestAdopt_InAPod(t *testing.T) {
	at := func(namespace string) *workload {
		return &workload{Kind: "Deployment", Namespace: namespace, Spec: running("ip-reconcile:0.1.0", "serve",
			"--agents=required", "--confirm-after=2h"), Labels: map[string]string{kube.NameLabel: kube.Product}}
	}
	away := errors.New("no route to host")
	for name, c := range map[string]struct {
		found     workloads
		err       error
		namespace string // "" for an error
		required  bool
	}{
		"the CronJob":                             {nil, forbidden, "ci", false},
		"its own namespace has one":               {workloads{at("ci"), at("other")}, nil, "ci", true},
		"another namespace has one":               {workloads{at("kube-system")}, nil, "kube-system", true},
		"another one has, and more are forbidden": {workloads{at("kube-system")}, forbidden, "kube-system", true},
		"two others have":                         {workloads{at("kube-system"), at("other")}, nil, "", false},
		"nothing is installed":                    {nil, nil, "ci", false},
		"no answer":                               {nil, away, "", false},
	} {
		o, given := &clusterflags.Flags{}, pflag.NewFlagSet("run", pflag.ContinueOnError)
		o.Add(given, "error")
		err := c.found.adopt("ci", c.err, given, Adopting{Writes: true, MayBeReconciler: true})
		namespace := cmp.Or(given.Lookup("reconciler-namespace").Value.String(), "ci")
		required := given.Lookup("agents").Value.String() == "required"
		if (err != nil) != (c.namespace == "") || err == nil && (namespace != c.namespace || required != c.required) {
			t.Errorf("%s: namespace %s, reports are required: %v, %v", name, namespace, required, err)
		}
	}
}

// A command by hand waits as long as the deployed reconciler, unless it is told.
func TestAdopt_ConfirmAfter(t *testing.T) {
	w := &workload{Kind: "Deployment", Spec: running("ip-reconcile:0.1.0", "serve", "--confirm-after=2h")}
	for args, want := range map[string]time.Duration{"": 2 * time.Hour, "--confirm-after=1m": time.Minute} {
		o, given := &clusterflags.Flags{}, pflag.NewFlagSet("run", pflag.ContinueOnError)
		o.Add(given, "error")
		o.AddConfirmAfter(given)
		if err := errors.Join(given.Parse(strings.Fields(args)), adoptFlags(given, w)); err != nil || o.ConfirmAfter != want {
			t.Errorf("%s: it waits for %s, want %s, %v", args, o.ConfirmAfter, want, err)
		}
	}
}
