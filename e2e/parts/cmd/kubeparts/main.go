// Kubeparts is what every cluster needs, in one binary: an API server and its etcd.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"

	"github.com/ip-reconcile/ip-reconcile/e2e/parts/multicall"
)

func main() {
	multicall.Main(map[string]func(){
		"etcd":           func() { etcdmain.Main(os.Args) },
		"kube-apiserver": func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
		"kubectl":        func() { util.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand())) },
	})
}
