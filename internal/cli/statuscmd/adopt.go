package statuscmd

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
)

// Adopt takes over, where they are not given, the namespace and the flags of the reconciler that is installed, so
// that a command by hand heeds its pause and counts for its breaker. Where there is none nothing changes. What
// cannot be found out, since RBAC forbids it or there are several, is an error for a command that writes: it must
// be told by --reconciler-namespace.
func Adopt(ctx context.Context, o *clusterflags.Flags, given *pflag.FlagSet, writes bool) error {
	if given.Changed("reconciler-namespace") || given.Changed("namespace") {
		return nil
	}
	config, core, err := client(o, "find")
	if err != nil {
		return nil //nolint:nilerror // the connection that follows says it better
	}
	selector := nameLabel + "=" + product
	if writes { // the drop-in, in the place of whereabouts' own, has other labels
		selector = ""
	}
	all, err := readWorkloads(ctx, core, o.Namespace(), selector)
	found := (&facts{workloads: answer[[]workload]{value: all.workloads}}).all((*workload).isReconciler)
	const name = "name its namespace with --reconciler-namespace"
	switch {
	case apierrors.IsForbidden(err), err == nil && len(found) == 0 && all.onlyIn != "":
		if writes {
			return fmt.Errorf("cannot find the reconciler that is installed, whose annotation may pause releases: RBAC forbids to list Deployments and CronJobs; %s", name)
		}
		return nil
	case err != nil && writes && !apierrors.IsNotFound(err) && !apierrors.IsUnauthorized(err):
		return fmt.Errorf("the API server at %s cannot be reached to find the reconciler that is installed (%w): check --kubeconfig and --context", config.Host, err)
	case err != nil:
		return nil //nolint:nilerror // what reads the cluster next says it better
	case len(found) == 0:
		return nil
	}
	if at := slices.IndexFunc(found, func(w *workload) bool { return w.ownNamespace() != found[0].ownNamespace() }); at >= 0 {
		if !writes {
			return nil
		}
		return fmt.Errorf("%s and %s are installed: %s", found[0].ref(), found[at].ref(), name)
	}
	adoptNamespace(given, found[0])
	return adoptFlags(given, found[0])
}

// ownNamespace is the one whose annotation pauses it.
func (w *workload) ownNamespace() string {
	return cmp.Or(w.argument("--reconciler-namespace"), w.argument("--namespace"), w.namespace)
}

// adoptNamespace takes over the namespace of a workload. The flag does not count as given.
func adoptNamespace(given *pflag.FlagSet, w *workload) {
	if f := given.Lookup("reconciler-namespace"); !f.Changed && !given.Changed("namespace") {
		_ = f.Value.Set(w.ownNamespace()) // a string takes every value
	}
}

// adoptFlags takes over the flags of a workload that decide what is judged.
func adoptFlags(given *pflag.FlagSet, w *workload) error {
	for _, name := range []string{"agents", "agent-nodes", "lease-namespace", "unreachable-node-timeout", "trust-network-status"} {
		value, f := w.argument("--"+name), given.Lookup(name)
		if f != nil && f.NoOptDefVal != "" && slices.Contains(w.spec.Containers[0].Args, "--"+name) { // a switch without a value
			value = f.NoOptDefVal
		}
		if value == "" || f == nil || f.Changed {
			continue
		}
		if err := f.Value.Set(value); err != nil {
			return fmt.Errorf("%s of %s: %w", name, w.ref(), err)
		}
	}
	return nil
}
