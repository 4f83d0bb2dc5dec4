package statuscmd

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// weaken changes an installed admission policy.
func (p *Probe) weaken(name string, change func(*admissionv1.ValidatingAdmissionPolicySpec)) {
	resource := admissionv1.SchemeGroupVersion.WithResource("validatingadmissionpolicies")
	o, err := p.tracker().Get(resource, "", name)
	if err != nil {
		panic(err)
	}
	policy := o.(*admissionv1.ValidatingAdmissionPolicy).DeepCopy()
	change(&policy.Spec)
	if err := p.tracker().Update(resource, policy, ""); err != nil {
		panic(err)
	}
}

func TestShippedPolicies_AreThoseOfTheManifests(t *testing.T) {
	const manifest = "../../../deploy/agent/admission.yaml"
	text, err := os.ReadFile(manifest)
	if err != nil {
		t.Fatal(err)
	}
	if string(text) != shippedPolicies {
		t.Errorf("admission.yaml differs: cp %s admission.yaml", strings.TrimPrefix(manifest, "../../../"))
	}
	guards, err := shippedGuards("mine", "my-leases")
	if err != nil || len(guards) != 2 {
		t.Fatalf("%d policies, %v", len(guards), err)
	}
	for _, g := range guards {
		if !strings.Contains(g.policy.Spec.MatchConditions[0].Expression, "'system:serviceaccount:mine:ip-reconcile-agent'") {
			t.Errorf("%s: %s", g.policy.Name, g.policy.Spec.MatchConditions[0].Expression)
		}
		if g.binding.Spec.PolicyName != g.policy.Name {
			t.Errorf("%s is bound by %s", g.policy.Name, g.binding.Name)
		}
	}
	if in := guards[1].policy.Spec.MatchConstraints.NamespaceSelector.MatchExpressions[0].Values; in[0] != "my-leases" {
		t.Errorf("the Leases are in %v", in)
	}
	if d := guards[0].difference(&guards[0].policy.Spec, &guards[0].binding.Spec); d != "" {
		t.Errorf("the same differs in %s", d)
	}
	binding := guards[0].binding.DeepCopy()
	binding.Spec.MatchResources = &admissionv1.MatchResources{NamespaceSelector: &metav1.LabelSelector{}}
	if d := guards[0].difference(&guards[0].policy.Spec, &binding.Spec); d != "matchResources of its binding" {
		t.Errorf("a narrower binding differs in %q", d)
	}
}

// The command that status prints must install the policies for the agents that are there.
func TestApplyPolicies_InstallsThePoliciesOfTheNamespaces(t *testing.T) {
	for _, of := range []struct{ agents, leases string }{
		{"kube-system", leaseNamespace}, {"mine", leaseNamespace}, {"kube-system", "my-leases"}, {"mine", "my-leases"},
	} {
		want, err := shippedGuards(of.agents, of.leases)
		if err != nil {
			t.Fatal(err)
		}
		// Instead of kubectl, cat prints what the API server would get.
		command := strings.NewReplacer("kubectl apply -f -", "cat", "kubectl apply -f", "cat").
			Replace(applyPolicies(of.agents, of.leases))
		cmd := exec.Command("sh", "-c", command)
		cmd.Dir = "../../.."
		text, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v", command, err)
		}
		got, err := guardsIn(string(text))
		if err != nil || len(got) != len(want) {
			t.Fatalf("%s prints %d policies, %v", command, len(got), err)
		}
		for i := range want {
			if d := want[i].difference(&got[i].policy.Spec, &got[i].binding.Spec); d != "" {
				t.Errorf("for agents in %s with Leases in %s: %s differs in %s", of.agents, of.leases, want[i].policy.Name, d)
			}
		}
	}
}
