package advice

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// OfGate is what can be done about what stands against a release.
func (a Advisor) OfGate(g reconciler.Gate, f Facts) []Step {
	of := refusals()[g.Why]
	if g.Why == reconciler.Paused && g.Pool != "" {
		of, f.Pool = pausedPool(), g.Pool
	}
	return a.fill(string(g.Why), f, of)
}

// ReleasesItself reports whether a refusal's own steps are how it is released, or it cannot
// be before they are done.
func ReleasesItself(why reconciler.Refusal) bool {
	return why == reconciler.Breaker || why == reconciler.AwaitingConfirmation
}

func refusals() map[reconciler.Refusal][]template {
	return map[reconciler.Refusal][]template{
		reconciler.Paused: {
			{why: "Everything is paused. Remove the annotation when what it was set for is over.", command: "kubectl annotate namespace {namespace} " + ippool.PausedAnnotation + "-"},
		},
		reconciler.EtcdRestored: slices.Concat([]template{
			{why: "Nothing is released until every node has written its report since etcd was restored."},
		}, agentLog(), nodeOff(), []template{
			{why: "WARNING: only if none of the nodes that are waited for runs pods with such addresses any more. This says so, and none is waited for.",
				command: "kubectl annotate --overwrite namespace {namespace} " + judge.AcknowledgedAnnotation + "={restored}"},
		}),
		reconciler.Breaker: {
			{why: "So many within an hour look like a fault elsewhere: explain a few of them first, then see what a run would free.", command: "{program} run {inpool} --dry-run --allow-mass-release"},
			{why: "If they are right, free them.", command: "{program} run {inpool} --allow-mass-release"},
		},
		reconciler.AwaitingConfirmation: {
			{why: "Nothing to do where 'serve' or the CronJob runs: it is freed when it is confirmed. A run waits for that.", command: "{program} run {inpool} --address={ip}"},
		},
		reconciler.Changed: {
			{why: "It changed while it was judged, and is judged again at the next pass."},
			{why: "What is known of it by now.", command: "{program} explain {ip}"},
		},
		reconciler.LeaseBusy: {
			{why: "ADDs and DELs held whereabouts' Lease all the time; it is tried again at the next pass."},
			{why: "Who holds it now.", command: "kubectl get leases.coordination.k8s.io -n {poolnamespace} -o wide"},
		},
		reconciler.NoLease: {
			{why: "A release takes whereabouts' Lease, and these credentials may not. Whose they are.", command: "kubectl auth whoami"},
			{why: "The right, for an administrator to grant in the namespace of the pool.", command: "kubectl create role ip-reconcile-leases -n {poolnamespace} --verb=get,create,update --resource=leases.coordination.k8s.io"},
			{why: "To the reconciler's own account; for yourself put --user=, with the name above, instead of --serviceaccount.",
				command: "kubectl create rolebinding ip-reconcile-leases -n {poolnamespace} --role=ip-reconcile-leases --serviceaccount={namespace}:ip-reconcile"},
		},
		reconciler.WriteFailed: {
			{why: "What the breaker counts could not be written or read, and it is tried again at the next pass. What is there now.", command: "kubectl get leases.coordination.k8s.io -n {namespace} ip-reconcile -o yaml"},
		},
	}
}

func pausedPool() []template {
	return []template{
		{why: "The pool is paused. Remove the annotation when what it was set for is over.", command: "kubectl annotate ippools.whereabouts.cni.cncf.io -n {poolnamespace} {poolname} " + ippool.PausedAnnotation + "-"},
	}
}

// Pause is how releases are stopped in a pool, while somebody finds out more.
func (a Advisor) Pause(f Facts) []Step {
	return a.fill(judge.Stale.String(), f, []template{
		{why: "To keep it while you find out more, pause its pool. What is judged is shown all the same.",
			command: "kubectl annotate ippools.whereabouts.cni.cncf.io -n {poolnamespace} {poolname} " + ippool.PausedAnnotation + "=true"},
	})
}

// List is how all items of a pool or node are listed, by the flag that picks them.
func (a Advisor) List(flag, name string) []Step {
	return a.fill("", Facts{Nodes: []string{name}}, []template{{why: "Every item, with all columns.", command: "{program} check --all -o wide " + flag + "={node}"}})
}

// ExplainPool is how a pool is explained.
func (a Advisor) ExplainPool(pool string) []Step {
	return a.fill("", Facts{Pool: pool}, []template{{why: "What is known of the pool.", command: "{program} explain pool/{pool}"}})
}
