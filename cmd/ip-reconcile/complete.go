package main

import (
	"context"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view/explain"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/words"
	"github.com/ip-reconcile/ip-reconcile/ippool"
	"github.com/ip-reconcile/ip-reconcile/podstate"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

const (
	completeWithin  = 2 * time.Second // how long a shell waits at most
	mostCompletions = 500
)

// fixedCompletions completes the values of flags that are the same for each cluster, and the contexts of a kubeconfig.
func fixedCompletions(c *cobra.Command) {
	reasons := slices.Concat(judge.ReasonNames(), view.Kinds())
	for flag, values := range map[string][]string{
		"log-level": {"debug", "info", "warn", "error"}, "log-format": {"text", "json"}, "agents": {"auto", "required"},
		"output": append(outputs(), jsonPathPrefix), "verdict": view.Verdicts(), "reason": reasons,
		"fail-on": slices.Concat(view.Verdicts(), reasons, []string{view.FailOnNothing}), "dry-run": {"none", "client"},
		"override": judge.OverridableReasons(),
	} {
		// The error is for a command without the flag.
		_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, typed string) ([]string,
			cobra.ShellCompDirective,
		) {
			if c.Flag(flag).Value.Type() == "stringSlice" {
				return lastOf(typed, values), cobra.ShellCompDirectiveNoFileComp
			}
			return values, cobra.ShellCompDirectiveNoFileComp
		})
	}
	_ = c.RegisterFlagCompletionFunc("context", completeContexts)
	_ = c.MarkFlagFilename("snapshot") // a folder, or an archive
	if c.ValidArgsFunction == nil && c.Name() != "apply" && c.Name() != "sysdump" {
		c.ValidArgsFunction = cobra.NoFileCompletions
	}
}

func completeContexts(c *cobra.Command, _ []string, _ string) ([]string, cobra.ShellCompDirective) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath, rules.Warner = c.Flag("kubeconfig").Value.String(), func(error) {}
	config, err := rules.Load()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(config.Contexts)), cobra.ShellCompDirectiveNoFileComp
}

// lastOf completes the last of several values that commas separate.
func lastOf(typed string, values []string) (found []string) {
	before := typed[:strings.LastIndex(typed, ",")+1]
	for _, value := range values {
		if strings.HasPrefix(before+value, typed) {
			found = append(found, before+value)
		}
	}
	return found
}

// liveNames are the names in a cluster or a snapshot that a shell completes.
type liveNames struct {
	pools, nodes []string          // pools by namespace and name
	addresses    map[string]string // with the pod that has each
	pods         sets.Set[types.NamespacedName]
}

// completeNames completes the names of what exists, in flags and, where subjects is true, in arguments: those of which
// a cluster or a snapshot can be read in time. Nothing is completed otherwise, since a shell has no place for an error.
func (o *options) completeNames(c *cobra.Command, subjects bool) {
	for flag, pick := range map[string]func(*liveNames) []string{
		"pool": (*liveNames).poolNames, "on-node": func(n *liveNames) []string { return n.nodes },
		"address":       func(n *liveNames) []string { return slices.Sorted(maps.Keys(n.addresses)) },
		"pod":           func(n *liveNames) []string { return n.podNames("") },
		"pod-namespace": (*liveNames).namespaces,
	} {
		_ = c.RegisterFlagCompletionFunc(flag, func(c *cobra.Command, _ []string, typed string) ([]string,
			cobra.ShellCompDirective,
		) {
			n := o.namesInTime(c.Context(), namespaceOf(typed))
			return matching(typed, lastOf(typed, pick(n))), cobra.ShellCompDirectiveNoFileComp
		})
	}
	if !subjects {
		return
	}
	c.ValidArgsFunction = func(c *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return o.completeSubjects(c, typed), cobra.ShellCompDirectiveNoFileComp
	}
}

// completeSubjects completes an argument that names a subject. A capital letter begins a printed word.
func (o *options) completeSubjects(c *cobra.Command, typed string) []string {
	if typed != "" && typed[0] >= 'A' && typed[0] <= 'Z' && c.Name() == "explain" {
		return matching(typed, words.Known())
	}
	namespace := ""
	if f := c.Flag("pod-namespace"); f != nil {
		namespace = f.Value.String()
	}
	first, rest, isWhole := strings.Cut(typed, "/")
	kind := explain.KindNamed(first)
	typedNamespace := namespaceOf(typed)
	if kind != "" {
		typedNamespace = namespaceOf(rest)
	}
	n := o.namesInTime(c.Context(), typedNamespace+namespace)
	if namespace != "" {
		return matching(typed, n.podNames(namespace))
	}
	var all []string
	for address, pod := range n.addresses {
		all = append(all, cobra.CompletionWithDesc(address, pod))
	}
	if c.Name() == "history" { // records do not name nodes
		n.nodes = nil
	}
	for _, name := range n.nodes {
		all = append(all, "node/"+name)
	}
	for _, name := range n.pools {
		all = append(all, "pool/"+name)
	}
	all = append(all, n.podNames("")...)
	if isWhole && kind != "" {
		all = n.ofKind(kind)
		for i := range all {
			all[i] = first + "/" + all[i]
		}
	}
	if found := matching(typed, all); len(found) > 0 || isWhole || c.Name() != "explain" {
		return found
	}
	return matching(typed, n.bareNames())
}

// ofKind returns the names of nodes, pools or pods, with their namespaces.
func (n *liveNames) ofKind(kind explain.Kind) []string {
	switch kind {
	case explain.Node:
		return slices.Clone(n.nodes)
	case explain.Pool:
		return slices.Clone(n.pools)
	case explain.Pod:
		return n.podNames("")
	}
	return slices.Collect(maps.Keys(n.addresses))
}

// bareNames returns the names of nodes, pools and pods without their kinds and namespaces.
func (n *liveNames) bareNames() []string {
	all := slices.Clone(n.nodes)
	for _, name := range n.poolNames() {
		if !strings.Contains(name, "/") {
			all = append(all, name)
		}
	}
	for name := range n.pods {
		all = append(all, name.Name)
	}
	return all
}

// namespaceOf returns the namespace of a name of a pod that is being typed.
func namespaceOf(typed string) string {
	namespace, _, isWhole := strings.Cut(typed, "/")
	if !isWhole {
		return ""
	}
	return namespace
}

func matching(typed string, all []string) []string {
	all = lists.Filter(all, func(s string) bool { return strings.HasPrefix(s, typed) })
	slices.Sort(all)
	all = slices.Compact(all)
	return all[:min(len(all), mostCompletions)]
}

// podNames returns the names of pods of a namespace, or with their namespaces those of all.
func (n *liveNames) podNames(namespace string) (all []string) {
	for name := range n.pods {
		switch {
		case name.Name == "":
		case namespace == "":
			all = append(all, name.String())
		case name.Namespace == namespace:
			all = append(all, name.Name)
		}
	}
	return all
}

// poolNames returns the names of pools, with their namespaces and alone.
func (n *liveNames) poolNames() (all []string) {
	for _, ref := range n.pools {
		_, name, _ := strings.Cut(ref, "/")
		all = append(all, ref, name)
	}
	return all
}

func (n *liveNames) namespaces() (all []string) {
	for name := range n.pods {
		if name.Namespace != "" { // of an allocation that cannot be parsed
			all = append(all, name.Namespace)
		}
	}
	return all
}

// namesInTime returns the names that could be read in time, none otherwise. Reading a snapshot cannot be interrupted,
// and goes on until the program ends.
func (o *options) namesInTime(ctx context.Context, namespace string) *liveNames {
	ctx, cancel := context.WithTimeout(ctx, completeWithin)
	defer cancel()
	read := make(chan *facts.Observation, 1)
	go func() {
		observed, err := o.observeNames(ctx, namespace)
		if err != nil {
			observed = &facts.Observation{}
		}
		read <- observed
	}()
	select {
	case observed := <-read:
		return namesOf(observed)
	case <-ctx.Done():
		return namesOf(&facts.Observation{})
	}
}

func namesOf(o *facts.Observation) *liveNames {
	n := &liveNames{addresses: map[string]string{}, pods: sets.KeySet(o.Pods)}
	for _, p := range o.Pools {
		n.pools = append(n.pools, p.Ref())
		for i := range p.Allocations {
			a := &p.Allocations[i]
			n.pods.Insert(types.NamespacedName{Namespace: a.Owner.Namespace, Name: a.Owner.Name})
			if a.Address.IsValid() {
				n.addresses[a.Address.String()] = a.PodRef
			}
		}
	}
	n.nodes = slices.Collect(maps.Keys(o.Nodes.Or(nil)))
	for _, r := range o.Reports.Or(nil) {
		n.nodes = append(n.nodes, r.Name)
	}
	return n
}

// observeNames reads what has names: of a cluster pools and nodes, and the pods of one namespace, if one was typed.
func (o *options) observeNames(ctx context.Context, namespace string) (*facts.Observation, error) {
	if o.snapshot == "-" {
		return nil, io.EOF // stdin is the shell's
	}
	if o.snapshot != "" {
		s, err := o.readSnapshot()
		if err != nil {
			return nil, err
		}
		return s.List(ctx)
	}
	log, err := o.Logger(io.Discard)
	if err != nil {
		return nil, err
	}
	o.Timeout = completeWithin
	_, cluster, _, err := o.Connect("completion", log)
	if err != nil {
		return nil, err
	}
	observed := &facts.Observation{Pods: map[types.NamespacedName]*podstate.Pod{}}
	observed.Pools, _, err = kube.List(ctx, cluster, ippool.PoolResource, "", "", false, ippool.DecodeList[ippool.Pool])
	if err != nil {
		return nil, err
	}
	core := corev1.SchemeGroupVersion
	nodes, _, err := kube.List(ctx, cluster, core.WithResource("nodes"), "", "", true, podstate.DecodeNodes)
	if err == nil { // where RBAC forbids it, everything else is completed
		byName := map[string]*podstate.Node{}
		for _, n := range nodes {
			byName[n.Name] = n
		}
		observed.Nodes = facts.Complete(byName, "")
	}
	if namespace != "" {
		pods, _, _ := kube.List(ctx, cluster, core.WithResource("pods"), namespace, "", true, podstate.DecodePods)
		for _, p := range pods {
			observed.Pods[p.NamespacedName] = p
		}
	}
	return observed, nil
}
