// Kubeparts is several programs in one binary: etcd and the Kubernetes
// programs share most of their code, so one link makes them all. It acts as the
// program that it is called by, or that its first argument names.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	kubectl "k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/util"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
)

// programs by name. Another one (kubelet, kube-scheduler,
// kube-controller-manager) is one more line here.
var programs = map[string]func(){
	"etcd":           func() { etcdmain.Main(os.Args) },
	"kube-apiserver": func() { os.Exit(cli.Run(apiserver.NewAPIServerCommand())) },
	"kubectl":        func() { util.CheckErr(cli.RunNoErrOutput(kubectl.NewDefaultKubectlCommand())) },
}

func main() {
	name := filepath.Base(os.Args[0])
	if programs[name] == nil && len(os.Args) > 1 {
		os.Args = os.Args[1:]
		name = filepath.Base(os.Args[0])
	}
	run, ok := programs[name]
	if !ok {
		fmt.Fprintf(os.Stderr, "kubeparts: no program %q in this binary\n", name)
		os.Exit(2)
	}
	run()
}
