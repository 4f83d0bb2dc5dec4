package servecmd

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/reconciler/restore"
)

func TestServe_ChecksTheFenceTimeout(t *testing.T) {
	const longest = restore.LongestFence
	for timeout, isValid := range map[time.Duration]bool{0: true, longest: true, longest + 1: false, -1: false} {
		if err := checkFence(timeout); (err == nil) != isValid {
			t.Errorf("%s: %v", timeout, err)
		}
	}
}

func TestServe_RefusesFlagsWithoutEffect(t *testing.T) {
	for args, want := range map[string]string{
		"--metrics-cert-dir=/tls":                        "--metrics-cert-dir does nothing without --metrics-secure",
		"--metrics-cert-dir=/tls --metrics-secure=false": "--metrics-cert-dir does nothing without --metrics-secure",
		"--metrics-cert-dir=/tls --metrics-secure":       "",
		"--ui-bind-address=127.0.0.1:9743":               "--ui-bind-address does nothing without --ui",
		"--ui-bind-address=127.0.0.1:9743 --ui":          "",
		"--metrics-bind-address=127.0.0.1:9745":          "",
	} {
		o, f := Options{}, pflag.NewFlagSet("serve", pflag.ContinueOnError)
		o.Add(f, "info")
		o.addPage(f)
		check(t, f.Parse(strings.Fields(args)))
		if err := o.refuseUseless(f); (err == nil) != (want == "") || err != nil && err.Error() != want {
			t.Errorf("%s: got %v, want %q", args, err, want)
		}
	}
}
