package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/spf13/cobra"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/advice"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/servecmd"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/statuscmd"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/internal/ui"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/plan"
)

// judgeEvery is how often ui judges the cluster while a page is open.
const judgeEvery = 30 * time.Second

func newUI(std streams) *cobra.Command {
	o := &options{streams: std, component: "ui"}
	o.output = "table" // of the texts
	var flags uiFlags
	c := &cobra.Command{
		Use:   "ui",
		Short: "Show the verdicts on a page for a browser, on this machine; read-only",
		Long: `Serve a page on 127.0.0.1, print its URL and open it in a browser, where there is one: what
works and what needs attention, each pool as a map, and the explanation of an address, a pod
or a node. The page shows what the commands print and cannot write: what would act is a
command to copy. It needs no network. The URL has a token, without which nobody else on the
machine can read the page.

While a page is open ui judges the cluster every 30 seconds. 'serve --ui' shows the same
page with the passes of the reconciler. ui is read-only.
` + snapshotHelp,
		Example: `  ip-reconcile ui
  ip-reconcile ui --snapshot ./must-gather
  ip-reconcile ui --context prod --port 8080`,
		Args: noArguments,
		RunE: func(c *cobra.Command, _ []string) error { return o.ui(c.Context(), flags) },
	}
	o.given = c.Flags()
	o.Flags.Add(c.Flags(), "error")
	o.addSnapshot(c.Flags())
	o.ConfirmAfter = clusterflags.ConfirmAfter // of a snapshot; a live reconciler's own, as in status
	c.Flags().BoolVar(&flags.open, "open", true, "open the page in a browser, where this machine has one")
	c.Flags().Uint16Var(&flags.port, "port", 0, "port of the page; 0: any that is free")
	return c
}

// uiFlags are the flags that ui alone has.
type uiFlags struct {
	port uint16
	open bool
}

func (o *options) ui(ctx context.Context, flags uiFlags) error {
	if o.snapshot == "" { // the flags are those of the deployed reconciler
		if _, err := statuscmd.Find(ctx, &o.Flags, o.given); err != nil {
			return err
		}
	}
	r, cluster, err := o.reconciler(ctx)
	if err != nil {
		return err
	}
	if cluster != nil { // the page has the form of pools check
		cluster.AllGuests = true
	}
	judged := func(ctx context.Context) (*ui.View, error) { return o.view(ctx, r, cluster) }
	first, err := judged(ctx)
	if err != nil {
		return err
	}
	page := ui.New(true, "Reading the cluster for the first time.")
	page.Show(first)
	listener, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", flags.port))
	if err != nil {
		return fmt.Errorf("--port %d: %w", flags.port, err)
	}
	token := rand.Text()
	server := &http.Server{Handler: servecmd.LoopbackOnly(page.WithToken(token)), ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 16}
	if o.snapshot == "" {
		go refresh(ctx, page, judged)
	}
	r.Progress = nil // the page says it
	o.progress.Stop()
	context.AfterFunc(ctx, func() { _ = server.Close() }) // ends what readers still read
	url := fmt.Sprintf("http://%s%s#token=%s", listener.Addr(), ui.Root, token)
	fmt.Fprintln(o.out, url)
	if flags.open {
		defer openBrowser(url)()
	}
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// refresh judges the cluster while a page is open.
func refresh(ctx context.Context, page *ui.Page, judged func(context.Context) (*ui.View, error)) {
	last := time.Now()
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		if !page.IsWatched() || time.Since(last) < judgeEvery {
			return
		}
		v, err := judged(ctx)
		if err == nil {
			page.Show(v)
		} else if ctx.Err() == nil {
			page.Fail(err.Error())
		}
		last = time.Now()
	}, time.Second)
}

// view judges the cluster with all checks of status, or the snapshot. It is for one goroutine.
func (o *options) view(ctx context.Context, r *reconciler.Reconciler, cluster *kube.Cluster) (*ui.View, error) {
	v := &ui.View{Advisor: o.advisor(), Cluster: o.cluster, ConfirmAfter: o.ConfirmAfter}
	if o.snapshot != "" {
		out, err := r.Check(ctx)
		if err != nil {
			return nil, err
		}
		j := out.Assessment
		planned := r.Plan(ctx, j)
		v.Result = view.PlannedResult(out, planned)
		v.Status = func(ctx context.Context) []view.StatusLine {
			return statuscmd.OfJudgement(ctx, j, planned, &o.Common, nil)
		}
		return v, nil
	}
	probe, err := statuscmd.Find(ctx, &o.Flags, o.given)
	if err != nil {
		return nil, err
	}
	lines := probe.Lines(ctx, r, cluster)
	if probe.Unjudged != nil {
		return nil, probe.Unjudged
	}
	recent, err := r.Breaker(ctx, probe.Assessment)
	v.Result, v.History = view.PlannedResult(probe.Checked, probe.Plan), clusterflags.History(cluster).Lines
	v.Status = func(context.Context) []view.StatusLine { return lines }
	v.Breaker = func(context.Context) (plan.BreakerState, error) { return recent, err }
	return v, nil
}

// newPassPage returns the page of 'serve --ui', and what shows the judgement of a pass, or why it has failed.
func newPassPage(o *servecmd.Options, cluster *kube.Cluster, core kubernetes.Interface, host string) (
	servecmd.Page, func(*reconciler.Result, error),
) {
	page := ui.New(!o.Manager.Metrics.SecureServing, fmt.Sprintf(
		"This replica has not made a pass: only the holder of Lease %s/%s makes passes.", o.Namespace(), kube.OwnLease))
	return page, func(out *reconciler.Result, err error) {
		if err != nil {
			page.Fail("The last pass has failed: " + err.Error())
			return
		}
		planned := &plan.Plan{Refused: out.Refused, CommonGates: out.CommonGates}
		page.Show(&ui.View{
			Result: view.PlannedResult(out, planned), ConfirmAfter: o.ConfirmAfter,
			History: clusterflags.History(cluster).Lines,
			Advisor: advice.Advisor{Program: commandName(), Namespace: o.Namespace()},
			Cluster: view.Cluster{Server: host},
			Status: func(ctx context.Context) []view.StatusLine {
				return statuscmd.OfJudgement(ctx, out.Assessment, planned, &o.Common, core)
			},
			Breaker: func(ctx context.Context) (plan.BreakerState, error) {
				l, err := core.CoordinationV1().Leases(o.Namespace()).Get(ctx, kube.OwnLease, metav1.GetOptions{})
				if apierrors.IsNotFound(err) { // without leader election the first counted release creates it
					l, err = &coordinationv1.Lease{}, nil
				}
				if err != nil {
					return plan.BreakerState{}, err
				}
				return plan.ReadBreaker(l.Annotations[kube.ReleasedAnnotation], out.Observation.Now, out.Total)
			},
		})
	}
}
