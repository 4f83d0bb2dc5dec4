package main

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/servecmd"
	"github.com/ip-reconcile/ip-reconcile/internal/version"
)

// command is what the command line says: the options of `ip-reconcile serve`, with its defaults.
type command struct {
	servecmd.Options
	once bool // a flag that only the one-shot form had is given
	log  *slog.Logger
}

// levels are whereabouts' log levels (v0.9.4, pkg/logging/logging.go) as --log-level takes them, with two
// of ours. In whereabouts nothing is more urgent than panic, and little is said there; here nothing.
var levels = map[string]string{"debug": "debug", "verbose": "info", "info": "info", "warn": "warn", "error": "error", "panic": "error+4"}

// parse reads the flags of whereabouts v0.5.4 (cmd/reconciler/ip.go), of which
// v0.9.4 has left -log-level (cmd/reconciler/main.go), whose default it is.
// -trust-network-status is ours. Where it returns nil the program ends with the code.
func parse(args []string, stdout, stderr io.Writer) (given *command, code int) {
	f := flag.NewFlagSet("ip-reconciler", flag.ContinueOnError)
	f.SetOutput(stderr)
	kubeconfig := f.String("kubeconfig", "", "make one pass, with this kubeconfig file; empty: with the pod's own account")
	level := f.String("log-level", "debug", "debug, verbose, info, warn, error or panic")
	timeout := f.Int("timeout", 30, "make one pass; the limit of each of its requests, in seconds")
	printVersion := f.Bool("version", false, "print the version and end")
	trust := f.Bool("trust-network-status", false, "release what the network-status of a running pod lacks, as whereabouts does: whoever may edit a pod can then have its address assigned to another while it is in use")
	err := f.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return nil, exitDone
	case err == nil && *timeout <= 0:
		fmt.Fprintf(stderr, "-timeout %d: must be above zero\n", *timeout)
		return nil, exitNotObserved
	case err != nil:
		return nil, exitNotObserved
	case *printVersion:
		fmt.Fprintln(stdout, "ip-reconciler version", version.Get())
		return nil, exitDone
	}
	given = &command{}
	f.Visit(func(f *flag.Flag) { given.once = given.once || f.Name == "kubeconfig" || f.Name == "timeout" })
	known := levels[strings.ToLower(*level)]
	if err := given.set(*kubeconfig, cmp.Or(known, "debug"), *trust, stderr); err != nil {
		slog.New(slog.NewTextHandler(stderr, nil)).Error(err.Error())
		return nil, exitNotObserved
	}
	given.Timeout = time.Duration(*timeout) * time.Second
	given.WithoutPause = true // whereabouts' own ClusterRole has no right to namespaces
	if known == "" {
		given.log.Warn("-log-level " + *level + " is not known: it is debug, verbose, info, warn, error or panic; taken for debug")
	}
	return given, exitDone
}

// set sets the flags of `ip-reconcile serve`.
func (c *command) set(kubeconfig, level string, trust bool, stderr io.Writer) (err error) {
	f := pflag.NewFlagSet("", pflag.ContinueOnError)
	c.Add(f, level)
	// In whereabouts' manifests it is the pod's own namespace; its programs keep
	// their pools and Leases there (v0.9.4, pkg/controlloop/pod.go: ipPoolsNamespace).
	namespace := os.Getenv("WHEREABOUTS_NAMESPACE")
	for name, value := range map[string]string{
		"kubeconfig": kubeconfig, "trust-network-status": strconv.FormatBool(trust), "reconciler-namespace": namespace,
	} {
		if err := f.Set(name, value); err != nil {
			return err
		}
	}
	c.log, err = c.Logger(stderr)
	return err
}
