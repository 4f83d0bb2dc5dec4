// Command cluster runs a cluster with kubelets to try things out in.
//
// "cluster up <folder> <program>..." runs one with two workers until it is interrupted. In the folder there are then a
// kubeconfig and a kubectl; the programs are the product's, and go into its image. With PROMETHEUS in the environment a
// Prometheus scrapes the product. "cluster down <folder>" ends it, and removes what remains of killed ones.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/ip-reconcile/ip-reconcile/e2e/harness"
)

const image = "set-your-image.invalid/ip-reconcile:0.1.0" // as in deploy

// prometheusText takes the URL twice.
const prometheusText = `
Prometheus is %s, for Grafana and deploy/components/prometheus/dashboard.json. Alerts are on %s/classic/alerts.
It scrapes the agents after

  kubectl patch -n kube-system daemonset ip-reconcile-agent --type=json \
    -p '[{"op": "add", "path": "/spec/template/spec/containers/0/args", "value": ["--metrics-bind-address=:9746"]}]'
`

func main() {
	err := errors.New("usage: cluster up <folder> <program>... | cluster down <folder>")
	switch {
	case len(os.Args) > 3 && os.Args[1] == "up":
		err = up(os.Args[2], os.Args[3:])
	case len(os.Args) == 3 && os.Args[1] == "down":
		err = down(os.Args[2])
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "cluster:", err)
		os.Exit(1)
	}
}

func up(folder string, programs []string) (err error) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if folder, err = filepath.Abs(folder); err != nil {
		return err
	}
	if err := await(folder, stop); err != nil {
		return err
	}
	began := time.Now()
	cluster, err := harness.NewCluster(ctx, 2)
	if cluster != nil {
		defer func() { err = errors.Join(err, cluster.Close()) }()
	}
	if err != nil {
		return err
	}
	if err := cluster.ImportImage(ctx, image, programs...); err != nil {
		return err
	}
	for name, target := range map[string]string{"kubeconfig": cluster.Kubeconfig(), "kubectl": cluster.KubectlProgram()} {
		link := filepath.Join(folder, name)
		if err := os.Remove(link); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
		if err := os.Symlink(target, link); err != nil {
			return err
		}
	}
	scraped := ""
	if os.Getenv("PROMETHEUS") != "" {
		p, startErr := cluster.StartPrometheus(ctx)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, p.Close()) }()
		scraped = fmt.Sprintf(prometheusText, p.URL, p.URL)
	}
	fmt.Printf(`A cluster with worker-1 and worker-2 is ready after %.0f s. It runs until Ctrl-C, or make cluster-down.
Logs are in %s. In another shell:

  export KUBECONFIG=%s PATH=%s:$PATH
  kubectl apply -k deploy/deployment-with-agent      # the image is on the workers, as make build made it
  kubectl apply -f e2e/cmd/cluster/example.yaml      # pods with two networks each
  bin/ip-reconcile check --all
%s`, time.Since(began).Seconds(), cluster.Dir(), filepath.Join(folder, "kubeconfig"), folder, scraped)
	<-ctx.Done()
	return nil
}

// await calls stop when down connects, whose connection ends with this process.
func await(folder string, stop func()) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if conn, err := connect(folder); err == nil {
		conn.Close()
		return errors.New("one runs already: end it with make cluster-down")
	}
	socket := filepath.Join(folder, "socket")
	if err := os.Remove(socket); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.Listen("unix", socket)
	if err != nil {
		return err
	}
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				// A client that only asks whether a cluster runs sends nothing.
				if _, err := conn.Read(make([]byte, 1)); err == nil {
					stop()
				}
			}()
		}
	}()
	return nil
}

func connect(folder string) (net.Conn, error) {
	return net.Dial("unix", filepath.Join(folder, "socket"))
}

func down(folder string) error {
	conn, err := connect(folder)
	if err != nil { // none runs
		return harness.Sweep()
	}
	defer conn.Close()
	if _, err := conn.Write([]byte{0}); err != nil {
		return err
	}
	if _, err := io.Copy(io.Discard, conn); err != nil && !errors.Is(err, syscall.ECONNRESET) {
		return err
	}
	return harness.Sweep()
}
