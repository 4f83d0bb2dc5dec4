// Package servecmd is the command of the long-running form, which has two names:
// `ip-reconcile serve`, and the drop-in ip-reconciler.
package servecmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/clusterflags"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
	"github.com/ip-reconcile/ip-reconcile/reconciler/informers"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
	"github.com/ip-reconcile/ip-reconcile/reconciler/schedule"
	"github.com/ip-reconcile/ip-reconcile/reconciler/serve"
)

// Options are the flags of the long-running form.
type Options struct {
	clusterflags.Flags
	Manager manager.Options
	// Schedule has an Expression that overrules its File, and that whereabouts' own configuration files.
	Schedule schedule.Schedule
	// FenceTimeout is for how long ADDs and DELs may be kept waiting; 0 for never.
	FenceTimeout time.Duration
	PoolMetrics  bool
}

// Filter is controller-runtime's WithAuthenticationAndAuthorization. It comes from
// outside since it brings much code with it, which the drop-in has no room for.
type Filter = func(*rest.Config, *http.Client) (server.Filter, error)

// New is the command; it logs to the given file.
func New(logs io.Writer, filter Filter) *cobra.Command {
	o := &Options{}
	c := &cobra.Command{
		Use:   "serve",
		Short: "Free what is stale as soon as that is proven, and by a schedule: the Deployment",
		Long: `Watch the cluster and free what is proven stale as soon as it is, what is not
confirmed when nothing has contradicted it for --confirm-after. By the schedule,
and at start, everything is read again and compared with the watches.

After a restore of etcd every replica that knows of it holds whereabouts' Leases, so
that nothing is handed out until the pools say what runs, for --fence-timeout at most.

Of several replicas one works: the one that holds the Lease ip-reconcile. The
schedule is read from --cron, else --cron-file, else whereabouts' own
configuration (reconciler_cron_expression), else it is "30 4 * * *"; a file is
followed without a restart.`,
		Example: `  ip-reconcile serve                                  # in the Deployment of deploy/deployment
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
			return o.Run(c.Context(), log)
		},
	}
	o.Add(c.Flags(), "info")
	o.Completions(c)
	return c
}

// Add adds the flags, with the log level that is the default.
func (o *Options) Add(f *pflag.FlagSet, logLevel string) {
	o.Flags.Add(f, logLevel)
	o.AddWriting(f)
	f.StringVar(&o.Schedule.Expression, "cron", "", `when full passes are made, as in "*/15 * * * *" or "@every 15m"; UTC, or TZ=Area/City before it`)
	f.StringVar(&o.Schedule.File, "cron-file", schedule.DefaultFile, "file with that expression; followed without a restart, and it may be missing")
	f.BoolVar(&o.Manager.LeaderElection, "leader-elect", true, "work only while holding the Lease ip-reconcile in --reconciler-namespace")
	f.DurationVar(&o.FenceTimeout, "fence-timeout", serve.MaxFence, "with --repair, after a restore of etcd: for how long at most nothing is handed out while it is found out what runs (whereabouts' Leases are held); 0 for never")
	f.StringVar(&o.Manager.Metrics.BindAddress, "metrics-bind-address", "127.0.0.1:9745", "where /metrics is served; 0 for nowhere")
	f.BoolVar(&o.Manager.Metrics.SecureServing, "metrics-secure", false, "serve metrics by HTTPS, to who may get them (nonResourceURLs /metrics)")
	f.StringVar(&o.Manager.Metrics.CertDir, "metrics-cert-dir", "", "folder with tls.crt and tls.key for --metrics-secure (default: a certificate made at start)")
	f.BoolVar(&o.PoolMetrics, "pool-metrics", true, "have metrics of how full each pool is: three series a pool")
	f.StringVar(&o.Manager.HealthProbeBindAddress, "health-probe-bind-address", "127.0.0.1:9744", "where /healthz and /readyz are served; 0 for nowhere")
	f.StringVar(&o.Manager.PprofBindAddress, "pprof-bind-address", "", "where /debug/pprof is served (default: nowhere)")
}

// Run serves until the context ends, or fails where it cannot begin. It returns
// an error too when the Lease is lost: the process must end then.
func (o *Options) Run(ctx context.Context, log *slog.Logger) error {
	if o.Schedule.Expression != "" {
		if _, err := schedule.Next(o.Schedule.Expression, time.Now()); err != nil {
			return fmt.Errorf("--cron: %w", err)
		}
	}
	if err := serve.CheckFence(o.FenceTimeout); err != nil {
		return err
	}
	cluster, config, err := o.Connect("serve", log)
	if err != nil {
		return err
	}
	ctrllog.SetLogger(logr.FromSlogHandler(log.Handler()).V(1)) // of errors only, unless in debug: its other lines repeat ours
	mgr, err := manager.New(config, o.managerOptions())
	if err != nil {
		return fmt.Errorf("set up serving: %w", err)
	}
	server, source, err := o.server(ctx, cluster, config, log)
	if err != nil {
		return err
	}
	errs := []error{mgr.Add(standby{source.Run})}
	if server.Guard != nil {
		errs = append(errs, mgr.Add(standby{server.Guard.Run}))
	}
	errs = append(errs, mgr.Add(manager.RunnableFunc(func(ctx context.Context) error {
		log.Info("this replica works from now on")
		if server.Guard != nil {
			server.Guard.Lead()
		}
		server.Health.Lead()
		return server.Run(ctx)
	})), mgr.AddHealthzCheck("loop", server.Health.Alive), mgr.AddReadyzCheck("looks", server.Health.Ready)) // part of a URL, /readyz/looks
	if err := errors.Join(errs...); err != nil {
		return err
	}
	log.Info("ip-reconcile serves", "namespace", o.Namespace(), "metrics", o.Manager.Metrics.BindAddress, "health", o.Manager.HealthProbeBindAddress)
	return mgr.Start(ctx)
}

// managerOptions are the Manager's with what no flag changes.
func (o *Options) managerOptions() manager.Options {
	opts := o.Manager
	opts.LeaderElectionID, opts.LeaderElectionNamespace = kube.OwnLease, o.Namespace()
	opts.LeaderElectionReleaseOnCancel = true // nothing writes any more by then
	// A leader that cannot renew stops 5 s before another may begin: more than
	// the second for which it may hold whereabouts' Lease.
	opts.LeaseDuration, opts.RenewDeadline, opts.RetryPeriod = ptr.To(15*time.Second), ptr.To(10*time.Second), ptr.To(2*time.Second)
	opts.GracefulShutdownTimeout = ptr.To(20 * time.Second) // for a few reservations to be put back, though calls hang
	return opts
}

// server puts the parts together, in the order in which they need each other.
func (o *Options) server(ctx context.Context, cluster *kube.Cluster, config *rest.Config, log *slog.Logger) (*serve.Server, *informers.Source, error) {
	full, err := o.Reconciler(log)
	if err != nil {
		return nil, nil, err
	}
	events, err := o.events(ctx, config)
	if err != nil {
		return nil, nil, err
	}
	metrics.Registry.MustRegister(version.Get().Collector())
	recorder := &serve.Recorder{Log: log, Metrics: serve.NewMetrics(metrics.Registry), Events: events}
	recorder.Metrics.WithoutPools = !o.PoolMetrics
	requests := serve.NewRequests()
	source := informers.New(cluster, config, log, func(what string) {
		log.Debug("changed", "what", what)
		requests.Changed()
	})
	health := serve.NewHealth(source.Synced)
	cluster.OnPage, cluster.OnDenied = health.Tick, recorder.Metrics.WriteDenied
	guard := o.guard(serve.GuardConfig{
		Fence: cluster.Fence(), Detector: source, Timeout: o.FenceTimeout, FullPass: requests.FullPass,
		Metrics: recorder.Metrics, Events: events, Log: log,
	})
	source.OnRebuild = recorder.CachesRebuilt
	if guard != nil {
		full.Fence, source.OnRestore = cluster.Fence(), guard.RestoreReported
	}
	full.Source, full.Writer = source.Full(), cluster
	full.BreakerStore, full.RestoreStore, full.PassStore = cluster.BreakerStore(), cluster.RestoreStore(), cluster.PassStore()
	o.Schedule.FlatFiles, o.Schedule.Log = schedule.DefaultFlatFiles(), log
	o.Schedule.Changed, full.Schedule = recorder.ScheduleChanged, o.Schedule.InForce
	full.Progress = func(string) { health.Tick() }
	quick := *full
	quick.Source = source
	return serve.New(serve.Config{
		Full: full, Quick: &quick, Caches: source, Requests: requests, Guard: guard, Recorder: recorder, Health: health,
		Schedule:       &o.Schedule,
		CollectReports: (&serve.ReportGC{API: cluster, Log: log}).Collect,
	}), source, nil
}

// guard is nil where no fence is to be raised. Without --repair nothing would be better
// when it is lowered.
func (o *Options) guard(c serve.GuardConfig) *serve.Guard {
	switch {
	case o.FenceTimeout == 0:
		return nil
	case o.WithoutLease, !o.Repair:
		c.Log.Info("after a restore of etcd nothing keeps addresses that are in use from being handed out: that needs --repair, node agents, and whereabouts' Lease")
		return nil
	}
	return serve.NewGuard(c)
}

// events writes events, a few at a time: the recorder's own limits are per object.
func (o *Options) events(ctx context.Context, config *rest.Config) (*serve.Events, error) {
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(&typedcorev1.EventSinkImpl{Interface: core.CoreV1().Events("")})
	context.AfterFunc(ctx, broadcaster.Shutdown)
	return &serve.Events{
		EventRecorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: "ip-reconcile"}),
		Self:          o.self(),
	}, nil
}

// self is this process' pod, or where that is not known its namespace.
func (o *Options) self() *corev1.ObjectReference {
	namespace := o.Namespace()
	if name := os.Getenv("POD_NAME"); name != "" {
		return &corev1.ObjectReference{APIVersion: "v1", Kind: "Pod", Namespace: namespace, Name: name, UID: types.UID(os.Getenv("POD_UID"))}
	}
	return &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: namespace, Name: namespace}
}

// standby is what runs in every replica.
type standby struct{ run func(context.Context) }

// Start is a Runnable's.
func (s standby) Start(ctx context.Context) error {
	s.run(ctx)
	return nil
}

// NeedLeaderElection is a LeaderElectionRunnable's.
func (s standby) NeedLeaderElection() bool { return false }
