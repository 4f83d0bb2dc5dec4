// Command upstream makes one pass of whereabouts' own reconciler with limits of our choice on requests per second. Its
// own are client-go's defaults: 5, and 10 at first.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"

	wbclient "github.com/k8snetworkplumbingwg/whereabouts/pkg/generated/clientset/versioned"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/logging"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/reconciler"
	storage "github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
)

func main() {
	kubeconfig := flag.String("kubeconfig", "", "the cluster")
	qps := flag.Float64("qps", -1, "requests per second of each client; -1 for no limit, 0 for client-go's default")
	look := flag.Bool("look", false, "only look, and free nothing")
	level := flag.String("log-level", "error", "as theirs")
	flag.Parse()
	logging.SetLogLevel(*level)
	if err := pass(*kubeconfig, float32(*qps), *look); err != nil {
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(1)
	}
}

// pass is upstream's ReconcileIPs with a client of our own.
func pass(kubeconfig string, qps float32, look bool) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS = qps
	core, err1 := kubernetes.NewForConfig(config)
	theirs, err2 := wbclient.NewForConfig(config)
	if err := errors.Join(err1, err2); err != nil {
		return err
	}
	looper, err := reconciler.NewReconcileLooperWithClient(storage.NewKubernetesClient(theirs, core))
	if err != nil || look {
		return err
	}
	if _, err := looper.ReconcileIPPools(); err != nil {
		return err
	}
	return looper.ReconcileOverlappingIPAddresses()
}
