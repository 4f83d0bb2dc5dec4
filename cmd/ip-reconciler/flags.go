package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/servecmd"
)

// settings are what the command line says.
type settings struct {
	kubeconfig string
	timeout    time.Duration // of one request
	level      string        // as ip-reconcile's --log-level takes it
	badLevel   string        // one that is not known
	once       bool          // a flag that only the one-shot form had is given
	version    bool          // print the version and end
	trust      bool          // ip-reconcile's --trust-network-status
}

// levels are whereabouts' log levels (v0.9.4, pkg/logging/logging.go), with two
// of ours. In whereabouts nothing is more urgent than panic, and little is said
// there; here nothing.
var levels = map[string]string{"debug": "debug", "verbose": "info", "info": "info", "warn": "warn", "error": "error", "panic": "error+4"}

// parse reads the flags of whereabouts v0.5.4 (cmd/reconciler/ip.go), of which
// v0.9.4 has left -log-level (cmd/reconciler/main.go), whose default it is. Where
// it returns nothing the program ends with the code. -trust-network-status is ours.
func parse(args []string, stderr io.Writer) (given *settings, code int) {
	f := flag.NewFlagSet("ip-reconciler", flag.ContinueOnError)
	f.SetOutput(stderr)
	kubeconfig := f.String("kubeconfig", "", "make one pass, with this kubeconfig file; empty: with the pod's own account")
	level := f.String("log-level", "debug", "debug, verbose, info, warn, error or panic")
	timeout := f.Int("timeout", 30, "make one pass; the limit of each of its requests, in seconds")
	version := f.Bool("version", false, "print the version and end")
	trust := f.Bool("trust-network-status", false, "release what the network-status of a running pod lacks, as whereabouts does: whoever may edit a pod can then have its address assigned to another while it is in use")
	err := f.Parse(args)
	if errors.Is(err, flag.ErrHelp) {
		return nil, exitDone
	}
	if err == nil && *timeout <= 0 {
		err = fmt.Errorf("-timeout %d: must be above zero", *timeout)
		fmt.Fprintln(stderr, err)
	}
	if err != nil {
		return nil, exitNotObserved
	}
	given = &settings{kubeconfig: *kubeconfig, timeout: time.Duration(*timeout) * time.Second, level: levels[strings.ToLower(*level)], version: *version,
		trust: *trust}
	if given.level == "" {
		given.level, given.badLevel = "debug", *level
	}
	f.Visit(func(f *flag.Flag) { given.once = given.once || f.Name == "kubeconfig" || f.Name == "timeout" })
	return given, 0
}

// options are those of `ip-reconcile serve`, with its defaults.
func (s *settings) options(stderr io.Writer) (*servecmd.Options, *slog.Logger, error) {
	o, f := &servecmd.Options{}, pflag.NewFlagSet("", pflag.ContinueOnError)
	o.Add(f, s.level)
	o.Timeout = s.timeout
	o.WithoutPause = true // whereabouts' own ClusterRole has no right to namespaces
	set := map[string]string{"kubeconfig": s.kubeconfig, "trust-network-status": strconv.FormatBool(s.trust)}
	// In whereabouts' manifests it is the pod's own namespace; its programs keep
	// their pools and Leases there (v0.9.4, pkg/controlloop/pod.go: ipPoolsNamespace).
	if namespace := os.Getenv("WHEREABOUTS_NAMESPACE"); namespace != "" {
		set["reconciler-namespace"] = namespace
	}
	for name, value := range set {
		if err := f.Set(name, value); err != nil {
			return nil, nil, err
		}
	}
	log, err := o.Logger(stderr)
	return o, log, err
}

// freeOrNone is the address, or "0" for none where somebody else listens at it:
// whereabouts' program listens nowhere, so that nobody has kept it free.
func freeOrNone(log *slog.Logger, what, address string) string {
	l, err := net.Listen("tcp", address)
	if err != nil {
		log.Warn("there are no "+what+": the address cannot be had", "address", address, "error", err)
		return "0"
	}
	_ = l.Close()
	return address
}
