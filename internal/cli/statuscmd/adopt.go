package statuscmd

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

const listReconcilers = "kubectl get deployments,cronjobs -A -l " + kube.NameLabel + "=" + kube.Product

// Find finds the workloads of the cluster that the flags name. It sets the flags that are not given to the values of
// the deployed reconciler. The error says that the cluster is unreachable.
func Find(ctx context.Context, o *clusterflags.Flags, given *pflag.FlagSet) (*Probe, error) {
	core, host, err := client(o, "status")
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, askFor)
	defer cancel()
	_, err = core.Discovery().RESTClient().Get().AbsPath("/version").DoRaw(ctx)
	switch {
	case err == nil, apierrors.IsForbidden(err), apierrors.IsNotFound(err): // the cluster answers
	case apierrors.IsUnauthorized(err):
		return nil, fmt.Errorf("the API server at %s does not accept the credentials: log in again, or name another "+
			"--kubeconfig or --context", host)
	default:
		return nil, fmt.Errorf("the API server at %s is unreachable (%w): check the network, --kubeconfig and --context",
			host, err)
	}
	p := &Probe{Core: core, Version: version.Get().Version, as: impersonate(o)}
	p.workloads, p.unlisted = list(ctx, core, o.Namespace(), "")
	return p, p.adopt(o, given)
}

// adopt sets the flags that are not given to the values of the only reconciler, so that status judges as that does.
func (p *Probe) adopt(o *clusterflags.Flags, given *pflag.FlagSet) error {
	found := p.reconcilers()
	if len(found) == 1 {
		adoptNamespace(given, found[0])
	}
	p.namespace, o.ConfirmAfter = o.Namespace(), clusterflags.ConfirmAfter
	if p.own = p.workloads.reconcilerIn(p.namespace); p.own != nil {
		if err := adoptFlags(given, p.own); err != nil {
			return err
		}
		if d, err := time.ParseDuration(p.own.argument("confirm-after", "")); err == nil {
			o.ConfirmAfter = d
		}
	}
	p.leaseNamespace = o.LeaseNamespace()
	return nil
}

// impersonate creates objects in a dry run as other accounts.
func impersonate(o *clusterflags.Flags) func(ctx context.Context, account, path string, object any) error {
	return func(ctx context.Context, account, path string, object any) error {
		config, err := o.Config("status", o.QPS, o.Burst)
		if err != nil {
			return err
		}
		config.Timeout = o.Timeout
		config.Impersonate = rest.ImpersonationConfig{UserName: "system:serviceaccount:" + account}
		core, err := kubernetes.NewForConfig(config)
		if err != nil {
			return err
		}
		body, err := json.Marshal(object)
		if err != nil {
			return err
		}
		return core.CoordinationV1().RESTClient().Post().AbsPath(path).Param("dryRun", metav1.DryRunAll).
			SetHeader("Content-Type", "application/json").Body(body).Do(ctx).Error()
	}
}

func client(o *clusterflags.Flags, component string) (core kubernetes.Interface, host string, err error) {
	config, err := o.Config(component, o.QPS, o.Burst)
	if err != nil {
		return nil, "", err
	}
	config.Timeout = o.Timeout
	core, err = kubernetes.NewForConfig(config)
	return core, config.Host, err
}

// Adopting is who adopts flags.
type Adopting struct {
	Writes bool
	// MayBeReconciler: it runs in a pod, as the CronJob does, or a pipeline.
	MayBeReconciler bool
}

// Adopt sets the flags that are not given to the values of the deployed reconciler: of that in the namespace that is
// given, or of the only one. A command by hand then respects its pause, judges as it does, and counts for its breaker.
// Without a reconciler nothing changes. For a command that writes it is an error if RBAC hides the reconciler, if there
// are several, or if the given namespace has none and another has one.
//
// What may be the reconciler itself is taken for it if RBAC hides all others, as the reconciler's role does.
func Adopt(ctx context.Context, o *clusterflags.Flags, given *pflag.FlagSet, by Adopting) error {
	core, _, err := client(o, "find")
	if err != nil {
		return nil //nolint:nilerror // the connection that follows says it better
	}
	selector := kube.NameLabel + "=" + kube.Product
	if by.Writes { // the drop-in has the labels of whereabouts' own reconciler
		selector = ""
	}
	all, err := list(ctx, core, o.Namespace(), selector)
	return all.adopt(o.Namespace(), err, given, by)
}

// adopt chooses the reconciler. namespace is the command's own. err says why others may not be listed.
func (all workloads) adopt(namespace string, err error, given *pflag.FlagSet, by Adopting) error {
	if by.MayBeReconciler {
		own := all.reconcilerIn(namespace)
		switch {
		case own != nil:
			return adoptFlags(given, own)
		case apierrors.IsForbidden(err) && len(all.reconcilers()) == 0:
			return nil
		}
	}
	if given.Changed("reconciler-namespace") {
		return all.adoptIn(namespace, err, given, by.Writes)
	}
	return all.adoptOnly(err, given, by.Writes)
}

// adoptOnly adopts the only reconciler. err says why others may not be listed.
func (all workloads) adoptOnly(err error, given *pflag.FlagSet, writes bool) error {
	found := all.reconcilers()
	other := slices.IndexFunc(found, func(w *workload) bool { return w.ownNamespace() != found[0].ownNamespace() })
	switch {
	case (err == nil || apierrors.IsForbidden(err)) && len(found) > 0 && other < 0:
		adoptNamespace(given, found[0])
		return adoptFlags(given, found[0])
	case !writes, err == nil && len(found) == 0:
		return nil
	case err == nil:
		err = fmt.Errorf("%s and %s are installed", found[0], found[other])
	}
	return fmt.Errorf("find the deployed reconciler, whose namespace may pause releases: %w: name the namespace with "+
		"--reconciler-namespace", err)
}

// adoptIn adopts the flags of the reconciler in a namespace that is given. err says why it may not be listed: then a
// person must say whether reports are required, which decides most about verdicts.
func (all workloads) adoptIn(namespace string, err error, given *pflag.FlagSet, writes bool) error {
	found, own := all.reconcilers(), all.reconcilerIn(namespace)
	switch {
	case own != nil:
		return adoptFlags(given, own)
	case !writes, err == nil && len(found) == 0, err != nil && given.Changed("agents"):
		return nil
	case err == nil:
		return fmt.Errorf("--reconciler-namespace %s: no reconciler is installed there, and %s is", namespace, found[0])
	}
	return fmt.Errorf("read the flags of the reconciler in namespace %s: %w: give --agents, and what else it has of "+
		"--agent-nodes, --lease-namespace, --unreachable-node-timeout and --trust-network-status", namespace, err)
}

func adoptNamespace(given *pflag.FlagSet, w *workload) {
	if f := given.Lookup("reconciler-namespace"); !f.Changed {
		_ = f.Value.Set(w.ownNamespace()) // a string takes every value
	}
}

// adoptFlags sets the flags that decide about verdicts to the values of a workload.
func adoptFlags(given *pflag.FlagSet, w *workload) error {
	names := []string{"agents", "agent-nodes", "confirm-after", "lease-namespace", "unreachable-node-timeout",
		"trust-network-status"}
	for _, name := range names {
		f := given.Lookup(name)
		if f == nil || f.Changed {
			continue
		}
		value := w.argument(name, f.NoOptDefVal)
		if value == "" {
			continue
		}
		if err := f.Value.Set(value); err != nil {
			return fmt.Errorf("%s of %s: %w", name, w, err)
		}
	}
	return nil
}
