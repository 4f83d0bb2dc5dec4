// Clusterparts makes a cluster of an API server, in one binary: controllers, scheduler, kubelet, and the programs that
// make and restore backups.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"go.etcd.io/etcd/etcdctl/v3/ctlv3"
	"go.etcd.io/etcd/etcdutl/v3/etcdutl"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	controllers "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"

	"github.com/ip-reconcile/ip-reconcile/e2e/parts/multicall"
)

func main() {
	multicall.Main(map[string]func(){
		"kube-controller-manager": func() { os.Exit(cli.Run(controllers.NewControllerManagerCommand())) },
		"kube-scheduler":          func() { os.Exit(cli.Run(scheduler.NewSchedulerCommand())) },
		"kubelet":                 func() { os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background()))) },
		"etcdctl":                 ctlv3.MustStart,
		"etcdutl": func() {
			root := &cobra.Command{Use: "etcdutl"}
			root.AddCommand(etcdutl.NewSnapshotCommand())
			os.Exit(cli.Run(root))
		},
	})
}
