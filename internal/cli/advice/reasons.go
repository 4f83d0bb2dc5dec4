package advice

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// OfReason is what can be done about a verdict; of something Stale also how it is
// released if nothing stands against that.
func (a Advisor) OfReason(verdict judge.Verdict, reason judge.Reason, f Facts) []Step {
	of := reasons()[reason]
	switch {
	case verdict == judge.Stale && reason == judge.NodeUnreachable:
		of = nodeOff()
	case verdict == judge.Stale && reason != judge.NodeDeadReason && reason != judge.NodeMissingReason:
		of = nil
	}
	return a.fill(reason.String(), f, of)
}

// Export is what to do where a snapshot has no pods of the namespace of the pod that is recorded.
func (a Advisor) Export(f Facts) []Step {
	return a.fill("NotExported", f, []template{
		{why: "The snapshot has no pods of namespace {podnamespace}: export the namespace, and ask again. Nothing can be said of {pod} before.",
			command: "kubectl get pods -n {podnamespace} -o yaml > {podnamespace}-pods.yaml"},
	})
}

// Release is how something Stale is released. gated: something still stands against it.
func (a Advisor) Release(f Facts, gated bool) []Step {
	return a.fill(judge.Stale.String(), f, release(gated))
}

// reasons are what can be done about each reason; one that means Stale needs no more than
// a release.
func reasons() map[judge.Reason][]template {
	return map[judge.Reason][]template{
		judge.SandboxReady: inUse(),
		judge.AddressOnPod: inUse(),
		judge.PodPending: {
			{why: "Nothing to do: the pod is starting, and keeps the address. If it stays Pending, its events say why.", command: "kubectl describe pod -n {podnamespace} {podname}"},
		},
		judge.Recent: {
			{why: "Nothing to do: an ADD or DEL may be under way, for two minutes at the most. Ask again then.", command: "{program} explain {ip}"},
		},
		judge.BeingDeleted: {
			{why: "Its finalizers name who has yet to agree that it goes.", command: "kubectl get overlappingrangeipreservations.whereabouts.cni.cncf.io -n {reservationnamespace} {reservationname} -o yaml"},
		},
		judge.PhantomPod: slices.Concat([]template{
			{why: "The address is in use: it is kept for as long as the sandbox runs."},
		}, endSandbox()),
		judge.TerminalButRunning: slices.Concat([]template{
			{why: "The pod is finished and its containers or sandbox may run on; kubelet should end them. Deleting the pod makes it try again.", command: "kubectl delete pod -n {podnamespace} {podname}"},
		}, endSandbox()),
		judge.Terminating: {
			{why: "Nothing to do: the pod is being deleted, and its DEL frees the address. Watch it go.", command: "kubectl get pod -n {podnamespace} {podname} -o wide --watch"},
		},
		judge.StuckTerminating: slices.Concat([]template{
			{why: "What keeps the pod: finalizers, a volume, or a kubelet that does not end it. Do not delete it with --force: what runs would run on as a phantom.", command: "kubectl describe pod -n {podnamespace} {podname}"},
		}, endSandbox(), nodeOff()),
		judge.AttachedReason: {
			{why: "Nothing to do if a pod is starting there: it is being set up. If that is long over, its DEL was lost: see what the agent reports.", command: "kubectl get sandboxreports.ip-reconcile.dev {node} -o yaml"},
			{why: "Whether the runtime of {node} has it after all.", command: "crictl pods --id {container}", on: "{node}"},
			{why: "A reboot of {node} closes a network that nothing else closes."},
			{why: "It is held until its network is closed: nothing else is proof that nobody answers at the address."},
		},
		judge.SandboxNotReady: slices.Concat([]template{
			{why: "The sandbox has stopped and its network is not known to be closed: the address may still answer. kubelet should remove it."},
		}, endSandbox()),
		judge.NodeUnreachable: slices.Concat([]template{
			{why: "It is held while its node is not Ready: behind a partition the address is in use."},
		}, nodeOff()),
		judge.NoFreshReportReason: slices.Concat([]template{
			{why: "It is held until the agents of all nodes that could run it report."},
		}, agentLog(), nodeOff(), []template{
			{why: "If {node} can have no agent (another system than Linux, a virtual kubelet) and runs no pod with such an address, leave it out with --agent-nodes, here and in the reconciler's own flags."},
		}),
		judge.NetworkStatusMissing: {
			{why: "Whether Multus has written the annotation k8s.v1.cni.cncf.io/network-status, by which the pod's addresses are known.", command: "kubectl get pod -n {podnamespace} {podname} -o yaml"},
			{why: "A pod that is made again has it written. With node agents it is not needed.", command: "kubectl delete pod -n {podnamespace} {podname}"},
			{why: "It is held until something says which addresses the pod carries."},
		},
		judge.AddressNotOnPod: {
			{why: "See which addresses the pod has, and who has edited its annotation k8s.v1.cni.cncf.io/network-status.", command: "kubectl get pod -n {podnamespace} {podname} -o yaml --show-managed-fields"},
			{why: "Install the node agents. They report the addresses that the pod has."},
			{why: "Delete {pod}: its controller recreates it. A pod without a controller is not recreated. A new pod of the same name gets the address of the entry; else the entry is released.", command: "kubectl delete pod -n {podnamespace} {podname}"},
			{why: "WARNING: --trust-network-status, here and in the reconciler's own flags, releases such entries. Whoever may edit a pod can then remove its address there, keep using it, and another pod is given the same address."},
		},
		judge.Malformed:    slices.Concat([]template{{why: "It is held: what cannot be read is nobody's to free. See what is stored, and correct it by hand."}}, stored()),
		judge.UnknownField: slices.Concat([]template{{why: "It is held: a newer whereabouts may mean something by the field. Use a version of this program that knows it."}}, stored()),
		judge.ClaimedByOther: {
			{why: "The address is kept for {otherpod}, which carries it.", command: "{program} explain pod/{otherpod}"},
			{why: "The address is kept while the sandbox on {othernode} runs. Whose it is:", command: "crictl inspectp {othercontainer}", on: "{othernode}"},
			{why: "It is held for as long as somebody else carries the address. Where the entry is outdated, --repair makes it name who does.", command: repairOnly + " --dry-run"},
		},
		judge.NoRule: {
			{why: "No rule covers this, so it is held: please report it."},
			{why: "What to send along.", command: "{program} explain {ip} -o yaml"},
		},
		judge.NodeDeadReason: {
			{why: "If {node} runs after all, and the out-of-service taint is left from before, remove the taint before anything is released.", command: "kubectl taint nodes {node} node.kubernetes.io/out-of-service-"},
		},
		judge.NodeMissingReason: {
			{why: "If {node} runs after all, restart its kubelet before anything is released: it registers again.", command: "systemctl restart kubelet", on: "{node}"},
		},
		judge.PodReplaced: {}, judge.PodFinished: {}, judge.SandboxReplaced: {}, judge.SandboxStopped: {}, judge.PodGone: {},
	}
}

func inUse() []template {
	return []template{
		{why: "Nothing to do: the address is in use. To free it on purpose delete the pod; its DEL frees the address.", command: "kubectl delete pod -n {podnamespace} {podname}"},
	}
}

// release is the way that everything Stale goes.
func release(gated bool) []template {
	when, then := "What", "Release it. 'serve' and the CronJob do so by themselves."
	if gated {
		when, then = "When that is done: what", "Then release it. 'serve' and the CronJob do so by themselves."
	}
	return []template{
		{why: when + " a run would release of this address; it writes nothing.", command: "{program} run {inpool} --address={ip} --dry-run"},
		{why: then, command: "{program} run {inpool} --address={ip}"},
	}
}

// endSandbox ends a sandbox on its node. The runtime makes the CNI DEL of a sandbox that it
// stops, and whereabouts frees the entry that has its id (whereabouts v0.9.4,
// pkg/allocate/allocate.go, DeallocateIP).
func endSandbox() []template {
	return []template{
		{why: "See on {node} what it runs, and whether anybody needs it.", command: "crictl inspectp {container}", on: "{node}"},
		{why: "End it on {node}: its containers end at once, and its DEL frees the address.", command: "crictl stopp {container} && crictl rmp {container}", on: "{node}"},
	}
}

// agentLabels are those of the agents' pods, in deploy/agent and in the chart.
const agentLabels = "app.kubernetes.io/name=ip-reconcile,app.kubernetes.io/component=agent"

// agentLog is how to see why an agent does not report. kubectl logs has no field selector
// (kubectl v0.36.3, pkg/cmd/logs/logs.go), so that the pod is asked for first.
func agentLog() []template {
	pods := "kubectl get pods -n {namespace} -l " + agentLabels + " --field-selector spec.nodeName={node}"
	return []template{
		{why: "Whether the agent of {node} runs.", command: pods + " -o wide"},
		{why: "What the agent of {node} says.", command: "kubectl logs -n {namespace} --tail=50 $(" + pods + " -o name)"},
	}
}

// nodeOff is how a node is given up. The taint is Kubernetes' own for that
// (node.kubernetes.io/out-of-service, "Non-graceful node shutdown handling").
func nodeOff() []template {
	return []template{
		{why: "{downnode} is not Ready. Bring it back, and its agent reports what runs there.", command: "kubectl describe node {downnode}"},
		{why: "WARNING: only if the machine of {downnode} is powered off and stays off. This declares it dead: its addresses are freed and its volumes detached, and what still runs there has them in use twice.",
			command: "kubectl taint nodes {downnode} node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"},
		{why: "WARNING: only if the machine of {downnode} is powered off and gone for good. Its addresses are freed when that has been so for --confirm-after.",
			command: "kubectl delete node {downnode}"},
	}
}

// stored shows what the API has.
func stored() []template {
	return []template{
		{why: "The reservation as it is stored.", command: "kubectl get overlappingrangeipreservations.whereabouts.cni.cncf.io -n {reservationnamespace} {reservationname} -o yaml"},
		{why: "The pool as it is stored.", command: "kubectl get ippools.whereabouts.cni.cncf.io -n {poolnamespace} {poolname} -o yaml"},
	}
}
