package servecmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/spf13/pflag"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/kube"
)

// Page shows results of passes to people, and cannot write.
type Page interface {
	http.Handler
	// IsPublic reports whether a path has no data of the cluster. It needs no authentication.
	IsPublic(path string) bool
	// Run ends what readers still read when the context ends.
	Run(context.Context)
}

// NewPage returns the page of --ui, and what receives the result of each pass. Without SecureServing the page has no
// authentication, and is on the loopback interface. The drop-in has none, since it would make the program larger.
type NewPage = func(o *Options, cluster *kube.Cluster, core kubernetes.Interface, server string) (
	Page, func(*reconciler.Result, error))

func (o *Options) addPage(f *pflag.FlagSet) {
	f.BoolVar(&o.hasPage, "ui", false,
		"serve the page of 'ip-reconcile ui' with the results of the passes, in the replica that makes them")
	f.StringVar(&o.pageAddress, "ui-bind-address", "127.0.0.1:9743",
		"address of the page of --ui, and of /metrics; other than localhost it needs --metrics-secure, whose certificate "+
			"it has, and clients that may get the nonResourceURL /ui/*")
}

// checkPage returns an error for a page that anybody could read.
func (o *Options) checkPage() error {
	host, _, err := net.SplitHostPort(o.pageAddress)
	ip := net.ParseIP(host)
	switch {
	case !o.hasPage:
		return nil
	case err != nil:
		return fmt.Errorf("--ui-bind-address %q: must be an address and a port, for example 127.0.0.1:9743", o.pageAddress)
	case !o.Manager.Metrics.SecureServing && host != "localhost" && (ip == nil || !ip.IsLoopback()):
		return errors.New("--ui needs --metrics-secure, unless --ui-bind-address is an address of localhost")
	}
	return nil
}

// servePage serves the page in every replica as controller-runtime serves metrics, and returns what receives the
// results of passes.
func (o *Options) servePage(mgr manager.Manager, cluster *kube.Cluster, log *slog.Logger) (
	func(*reconciler.Result, error), error,
) {
	core, err := kubernetes.NewForConfigAndClient(mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, err
	}
	secure := o.Manager.Metrics
	page, onPass := o.newPage(o, cluster, core, mgr.GetConfig().Host)
	opts := server.Options{BindAddress: o.pageAddress, SecureServing: secure.SecureServing, CertDir: secure.CertDir,
		ExtraHandlers: map[string]http.Handler{"/": page}}
	switch {
	case secure.FilterProvider != nil:
		opts.FilterProvider = exceptPublic(secure.FilterProvider, page)
	case !secure.SecureServing:
		opts.FilterProvider = loopbackFilter
	}
	s, err := server.NewServer(opts, mgr.GetConfig(), mgr.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("--ui: %w", err)
	}
	log.Info("Serving the page", "address", o.pageAddress, "secure", secure.SecureServing)
	return onPass, errors.Join(mgr.Add(s), mgr.Add(everyReplica{page.Run}))
}

// exceptPublic filters all but what is public. A browser sends no token before the page has asked for one.
func exceptPublic(filter Filter, page Page) Filter {
	return func(config *rest.Config, client *http.Client) (server.Filter, error) {
		f, err := filter(config, client)
		return func(log logr.Logger, all http.Handler) (http.Handler, error) {
			filtered, err := f(log, all)
			return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if page.IsPublic(r.URL.Path) {
					page.ServeHTTP(w, r)
				} else {
					filtered.ServeHTTP(w, r)
				}
			}), err
		}, err
	}
}
