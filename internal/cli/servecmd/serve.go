// Package servecmd is the long-running command: `ip-reconcile serve`, and the drop-in ip-reconciler.
package servecmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
	"github.com/ip-reconcile/ip-reconcile/reconciler/serve"
)

// Options are the flags of the command.
type Options struct {
	clusterflags.Flags
	Manager  manager.Options
	Schedule schedule.Schedule
	// FenceTimeout is the maximum duration of a fence; 0 for no fence.
	FenceTimeout time.Duration
	PoolMetrics  bool

	hasPage     bool
	pageAddress string
	newPage     NewPage // nil where the program has no page
}

// Filter is WithAuthenticationAndAuthorization of controller-runtime, which would make the drop-in much larger.
type Filter = func(*rest.Config, *http.Client) (server.Filter, error)

// New returns the command, which logs to a writer.
func New(logs io.Writer, filter Filter, newPage NewPage) *cobra.Command {
	o := &Options{newPage: newPage}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Release stale addresses continuously, as the Deployment does",
		Long: `Watch the cluster and release proven addresses at once. Unconfirmed addresses are
released once every pass for --confirm-after agrees. A full pass reads the whole
cluster, at start and by the schedule, and verifies the watches.

After a restore of etcd every replica that detects it holds whereabouts' Leases.
ADDs and DELs wait until the pools record all addresses in use, for at most
--fence-timeout.

Only the leader makes passes: the replica that holds the Lease ip-reconcile. The
schedule comes from --cron, else --cron-file, else whereabouts' own configuration
(reconciler_cron_expression), else it is "30 4 * * *". Changes of a file need no
restart.`,
		Example: `  ip-reconcile serve                                  # as in deploy/deployment
  ip-reconcile serve --cron '@every 15m' --repair
  ip-reconcile serve --kubeconfig ~/.kube/config --leader-elect=false --log-level debug`,
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			log, err := o.Logger(logs)
			if err != nil {
				return err
			}
			if o.Manager.Metrics.SecureServing {
				o.Manager.Metrics.FilterProvider = filter
			}
			if err := cmp.Or(o.refuseUseless(c.Flags()), o.checkPage()); err != nil {
				return err
			}
			return o.Run(c.Context(), log)
		},
	}
	o.Add(c.Flags(), "info")
	o.addPage(c.Flags())
	return c
}

// refuseUseless returns an error if a flag was given that does nothing without another one.
func (o *Options) refuseUseless(f *pflag.FlagSet) error {
	switch {
	case f.Changed("metrics-cert-dir") && !o.Manager.Metrics.SecureServing:
		return errors.New("--metrics-cert-dir does nothing without --metrics-secure")
	case f.Changed("ui-bind-address") && !o.hasPage:
		return errors.New("--ui-bind-address does nothing without --ui")
	}
	return nil
}

// Add adds the flags. logLevel is the default log level.
func (o *Options) Add(f *pflag.FlagSet, logLevel string) {
	o.Flags.Add(f, logLevel)
	o.AddRunning(f)
	m := &o.Manager
	f.StringVar(&o.Schedule.Expression, "cron", "",
		`schedule of full passes such as "*/15 * * * *" or "@every 15m", in UTC or with TZ=Area/City before it`)
	f.StringVar(&o.Schedule.File, "cron-file", schedule.DefaultFile,
		"file with the schedule; it may be missing, and is read again when it changes")
	f.BoolVar(&m.LeaderElection, "leader-elect", true,
		"make passes only while holding the Lease ip-reconcile in --reconciler-namespace")
	f.DurationVar(&o.FenceTimeout, "fence-timeout", restore.LongestFence,
		"with --repair: how long ADDs and DELs may wait after a restore of etcd; 0 disables the fence")
	f.StringVar(&m.Metrics.BindAddress, "metrics-bind-address", "127.0.0.1:9745", "address of /metrics; 0 disables it")
	f.BoolVar(&m.Metrics.SecureServing, "metrics-secure", false,
		"serve metrics by HTTPS, to clients that may get the nonResourceURL /metrics")
	f.StringVar(&m.Metrics.CertDir, "metrics-cert-dir", "",
		"folder with tls.crt and tls.key for --metrics-secure (default: a certificate generated at start)")
	f.BoolVar(&o.PoolMetrics, "pool-metrics", true, "serve three series for each pool: usable, used and free addresses")
	f.StringVar(&m.HealthProbeBindAddress, "health-probe-bind-address", "127.0.0.1:9744",
		"address of /healthz and /readyz; 0 disables them")
	f.StringVar(&m.PprofBindAddress, "pprof-bind-address", "", "address of /debug/pprof (default: disabled)")
}

// Run serves until the context ends. It returns an error if it cannot start, or if it has lost the Lease.
func (o *Options) Run(ctx context.Context, log *slog.Logger) error {
	if o.Schedule.Expression != "" {
		if _, err := schedule.Next(o.Schedule.Expression, time.Now()); err != nil {
			return fmt.Errorf("--cron: %w", err)
		}
	}
	if err := checkFence(o.FenceTimeout); err != nil {
		return err
	}
	full, cluster, config, err := o.Connect("serve", log)
	if err != nil {
		return err
	}
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()).V(1)) // its errors, and all of it at the level debug
	mgr, err := manager.New(config, o.managerOptions())
	if err != nil {
		return fmt.Errorf("create the manager: %w", err)
	}
	server, source, err := o.server(ctx, full, cluster, config, log)
	if err != nil {
		return err
	}
	trail, err := o.Trail(cluster, "serve", log, server.Recorder.Metrics.AuditFailed)
	if err != nil {
		return err
	}
	server.AfterFullPass = debug.FreeOSMemory
	server.Full.OnOutcome, server.Quick.OnOutcome = trail.Record, trail.Record
	defer trail.Start()() // the last records are those of the pass that ends with the manager
	errs := []error{mgr.Add(everyReplica{source.Run})}
	if o.hasPage {
		if server.OnPass, err = o.servePage(mgr, cluster, log); err != nil {
			return err
		}
	}
	if server.Guard != nil {
		errs = append(errs, mgr.Add(everyReplica{server.Guard.Run}))
	}
	errs = append(errs, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		log.Info("Started leading")
		if server.Guard != nil {
			server.Guard.Lead()
		}
		server.Health.Lead()
		return server.Run(ctx)
	})), mgr.AddHealthzCheck("passes", server.Health.Alive), mgr.AddReadyzCheck("passes", server.Health.Ready))
	if err := errors.Join(errs...); err != nil {
		return err
	}
	log.Info("Starting", "namespace", o.Namespace(), "metrics", o.Manager.Metrics.BindAddress,
		"health", o.Manager.HealthProbeBindAddress)
	return mgr.Start(ctx)
}

// checkFence checks --fence-timeout.
func checkFence(timeout time.Duration) error {
	if timeout < 0 || timeout > restore.LongestFence {
		return fmt.Errorf("--fence-timeout %s: must be between 0 (no fence) and %s", timeout, restore.LongestFence)
	}
	return nil
}

// managerOptions returns the options of flags, and those that no flag sets.
func (o *Options) managerOptions() manager.Options {
	opts := o.Manager
	opts.LeaderElectionID, opts.LeaderElectionNamespace = kube.OwnLease, o.Namespace()
	opts.LeaderElectionReleaseOnCancel = true // all writes have ended by then
	// A leader that cannot renew stops 5 s before another one starts. It may hold whereabouts' Lease for another second.
	opts.LeaseDuration, opts.RenewDeadline = ptr.To(15*time.Second), ptr.To(10*time.Second)
	opts.RetryPeriod = ptr.To(2 * time.Second)
	opts.GracefulShutdownTimeout = ptr.To(20 * time.Second) // to recreate reservations, even by slow requests
	return opts
}

// server makes the Server and all parts of it. full reads the cluster without caches.
func (o *Options) server(ctx context.Context, full *reconciler.Reconciler, cluster *kube.Cluster, config *rest.Config,
	log *slog.Logger) (*serve.Server, *informers.Source, error,
) {
	events, err := o.events(ctx, config, log)
	if err != nil {
		return nil, nil, err
	}
	metrics.Registry.MustRegister(collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), version.Get().Collector())
	recorder := &serve.Recorder{Log: log, Metrics: serve.NewMetrics(metrics.Registry), Events: events}
	recorder.Metrics.WithoutPools = !o.PoolMetrics
	requests := serve.NewRequests()
	source := informers.New(cluster, config, log, func(resource string) {
		log.Debug("Observed a change", "resource", resource)
		requests.CachePass()
	})
	health := serve.NewHealth(source.Synced)
	cluster.OnPage, cluster.OnDenied = health.Progress, recorder.Metrics.WriteDenied
	cluster.OnForeignHold = recorder.Metrics.LeaseHeld
	var guard *restore.Guard
	switch {
	case o.FenceTimeout == 0:
	case o.WithoutLease, !o.Repair: // without --repair a fence would be useless
		log.Info("The fence is disabled, since it needs --repair and whereabouts' Lease")
	default:
		guard = restore.NewGuard(restore.GuardConfig{
			Fence: cluster.Fence(), Detector: source, Timeout: o.FenceTimeout, FullPass: requests.FullPass,
			OnEvent: recorder.FenceEvent,
		})
		full.Fence, source.OnRestore, cluster.OnPeerFence = cluster.Fence(), guard.ReportEvidence, guard.Join
	}
	source.OnRebuild = recorder.CachesRebuilt
	full.Source = source.Full()
	o.Schedule.FlatFiles, o.Schedule.Log = schedule.DefaultFlatFiles(), log
	o.Schedule.Changed, full.Schedule = recorder.ScheduleChanged, o.Schedule.InForce
	full.Progress = func(string) { health.Progress() }
	quick := *full
	quick.Source = source
	return serve.New(serve.Config{
		Full: full, Quick: &quick, Caches: source, Requests: requests, Guard: guard, Recorder: recorder,
		Health: health, Schedule: &o.Schedule,
		CollectReports: (&serve.ReportGC{API: cluster, Log: log}).Collect,
	}), source, nil
}

// everyReplica is a Runnable that does not need the leadership.
type everyReplica struct{ run func(context.Context) }

// Start implements Runnable.
func (e everyReplica) Start(ctx context.Context) error {
	e.run(ctx)
	return nil
}

// NeedLeaderElection implements LeaderElectionRunnable.
func (e everyReplica) NeedLeaderElection() bool { return false }
