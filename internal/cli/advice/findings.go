package advice

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// OfFinding is what can be done about a finding; of a Conflict see OfConflict, which knows
// more.
func (a Advisor) OfFinding(kind judge.Kind, canRepair bool, f Facts) []Step {
	of := findings()[kind]
	switch {
	case kind == judge.Unrecorded && !canRepair && f.Container != "":
		// The API's pod of that name, if there is one, is not known to be the sandbox's.
		of = slices.Concat([]template{
			{why: "No entry can be written back: nothing says which pod's the sandbox is, whatever it is called. Until it ends the address may be handed out again."},
		}, endSandbox())
	case kind == judge.Unrecorded && !canRepair:
		of = []template{
			{why: "No entry can be written back: nothing says which sandbox has the address. Let the pod be made again: it is given an address that is recorded.", command: "kubectl delete pod -n {podnamespace} {podname}"},
		}
	}
	return a.fill(string(kind), f, of)
}

func findings() map[judge.Kind][]template {
	return map[judge.Kind][]template{
		judge.Conflict: {
			{why: "Two carry one address: see which of them keeps it.", command: "{program} explain {ip}"},
		},
		judge.Unrecorded:         repair("Write the missing entry back before an ADD hands the address out again."),
		judge.Misrecorded:        repair("Have the entry name the sandbox that carries the address, before the one that it names gives it away."),
		judge.MissingReservation: repair("Write the missing reservation back."),
		judge.Phantom: slices.Concat([]template{
			{why: "The address is kept for as long as the phantom runs."},
		}, endSandbox()),
		judge.UnreadSandbox: slices.Concat([]template{
			{why: "Nothing stale is released while it runs. Its CNI cache files are gone, or lie in a folder that the agent does not mount."},
		}, endSandbox()),
		judge.NoFreshReportFinding: slices.Concat(agentLog(), nodeOff()),
		judge.StatusMismatch: {
			{why: "By the report of its node {pod} does not have {ip}, so the address is not on two pods. See who edited the annotation k8s.v1.cni.cncf.io/network-status. Until it is corrected a stale entry of {ip} may be held.",
				command: "kubectl get pod -n {podnamespace} {podname} -o yaml --show-managed-fields"},
		},
		judge.MalformedFinding: slices.Concat([]template{
			{why: "See what is stored, and correct it by hand. It keeps nothing else from being judged."},
		}, stored()),
	}
}

// repairOnly writes back what these findings are about, and releases nothing: no item has
// their kinds as its reason.
const repairOnly = "{program} run --repair --reason=Unrecorded,Misrecorded,MissingReservation {inpool}"

func repair(why string) []template {
	return []template{
		{why: why + " It frees nothing. It takes two passes a minute apart, and 'serve --repair' does it by itself.",
			command: repairOnly},
	}
}
