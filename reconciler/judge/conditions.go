package judge

import (
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// condition is what a row asks of the evidence beside the pod's phase and the sandbox's
// state. Its text is what explain and docs/verdicts.md print.
type condition struct {
	text  string
	holds func(*Evidence) bool
}

// conditionSet are all conditions by name.
type conditionSet struct {
	malformed, unknownField, recent, deleting, longAlone               *condition
	its, notIts, noneOfIts                                             *condition
	overdue, onPod, noStatus, stopped, stoppedWithoutReport, elsewhere *condition
	detached, trusted                                                  *condition
	unreachable, timedOut, nodeNotReady, nodeTimedOut                  *condition
	claimed, claimUnread                                               *condition
	notSeenWherever, agentNotHeard                                     *condition
}

func conditions() conditionSet {
	is := func(text string, holds func(*Evidence) bool) *condition { return &condition{text, holds} }
	return conditionSet{
		malformed:    is("its podref, key or range cannot be read", func(e *Evidence) bool { return e.Problem != "" && e.Problem != ippool.UnknownField }),
		unknownField: is("it has a field that this version does not know", func(e *Evidence) bool { return e.Problem == ippool.UnknownField }),
		recent:       is("it is a reservation younger than 2 min", func(e *Evidence) bool { return e.Recent }),
		deleting:     is("it is a reservation that is being deleted", func(e *Evidence) bool { return e.Deleting }),
		longAlone:    is("it is a reservation that has had no entry, and nobody known to carry its address, for a day", func(e *Evidence) bool { return e.LongAlone }),

		its:       is("it is its pod, by the UID that a report gives the sandbox", func(e *Evidence) bool { return e.Ownership == ItsPod }),
		notIts:    is("it is not its pod, by the UID that a report gives the sandbox", func(e *Evidence) bool { return e.Ownership == NotItsPod }),
		noneOfIts: is("there is no pod, or it is not its pod", func(e *Evidence) bool { return e.Phase == podstate.None || e.Ownership == NotItsPod }),

		overdue:   is("the pod should have been gone 5 min ago", func(e *Evidence) bool { return e.Phase == podstate.Terminating && e.Overdue }),
		onPod:     is("the address is on the pod", func(e *Evidence) bool { return e.OnPod }),
		detached:  is("neither the pod's network-status nor the complete list of its sandbox's addresses has the interface", func(e *Evidence) bool { return e.Detached }),
		noStatus:  is("the pod has no readable network-status", func(e *Evidence) bool { return e.Pod.Status != podstate.StatusReadable }),
		trusted:   is("--trust-network-status is given", func(e *Evidence) bool { return e.StatusTrusted }),
		stopped:   is("kubelet reported every container stopped", func(e *Evidence) bool { return e.Pod.StoppedByKubelet }),
		elsewhere: is("the sandbox has ended on another node", func(e *Evidence) bool { return e.EndedElsewhere }),

		unreachable: is("every node that is asked and has no fresh report is not Ready", func(e *Evidence) bool { return e.Unreachable }),
		timedOut:    is("every node that is asked and has no fresh report is not Ready for longer than --unreachable-node-timeout", func(e *Evidence) bool { return e.UnreachableTimedOut }),

		// Without agents one node that is not Ready is enough.
		nodeNotReady: is("a node that could run it is not Ready", func(e *Evidence) bool { return e.Unreachable }),
		nodeTimedOut: is("the nodes that could run it and are not Ready have been so for longer than --unreachable-node-timeout", func(e *Evidence) bool { return e.UnreachableTimedOut }),

		// Kubelet's word is taken for the pod that it speaks of only, and for its own node:
		// the sandbox of an earlier pod of the name may run on, on a node that is not heard.
		stoppedWithoutReport: is("kubelet reported every container stopped, only the pod's own node has no fresh report, and its last one does not contradict",
			func(e *Evidence) bool {
				own := len(e.WithoutReport) == 1 && e.WithoutReport[0] == e.Pod.Node
				return e.Pod.StoppedByKubelet && !e.StaleReportContradicts && e.Ownership != NotItsPod && own
			}),

		claimed:     is("somebody else carries the address in the same network", func(e *Evidence) bool { return e.Claimant != "" }),
		claimUnread: is("a sandbox whose addresses are not known may carry it", func(e *Evidence) bool { return e.Claimant != "" && e.ClaimUnread }),

		notSeenWherever: is("it was not seen wherever the sandbox could run, or it is a reservation that stands alone", func(e *Evidence) bool { return e.Unproven }),
		agentNotHeard:   is("the agent of the Pending pod's node may not know of its sandbox yet", func(e *Evidence) bool { return e.AgentMayNotKnow }),
	}
}
