package harness

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A Prometheus is Debian's Prometheus. It scrapes the product's pods in a cluster every two seconds, and evaluates the
// rules of deploy as often.
type Prometheus struct {
	URL string // of its API

	process *process
	targets *http.Server
}

// portOf are the ports on which the product's components have metrics. Those of an agent are only on its node's
// localhost without --metrics-bind-address=:9746.
var portOf = map[string]string{"reconciler": "9745", "agent": "9746"}

// StartPrometheus starts one, which Close ends.
func (w *Cluster) StartPrometheus(ctx context.Context) (*Prometheus, error) {
	bin, err := build(prometheus)
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(w.run.dir, "prometheus")
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	if err := writeRules(filepath.Join(dir, "rules.json")); err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", net.JoinHostPort(loopbackAddress().String(), "0"))
	if err != nil {
		return nil, err
	}
	p := &Prometheus{targets: &http.Server{Handler: http.HandlerFunc(w.serveTargets)}}
	go p.targets.Serve(listener)
	// Debian's has no service discovery of Kubernetes.
	config := fmt.Sprintf(`{"global": {"scrape_interval": "2s", "scrape_timeout": "2s", "evaluation_interval": "2s"},
		"rule_files": ["rules.json"], "scrape_configs": [{"job_name": "ip-reconcile",
		"http_sd_configs": [{"url": "http://%s/", "refresh_interval": "2s"}]}]}`, listener.Addr())
	address := net.JoinHostPort(loopbackAddress().String(), "9090")
	p.URL = "http://" + address
	err = os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600)
	if err == nil {
		p.process, err = startCommand(dir, "prometheus", &exec.Cmd{
			Path: filepath.Join(bin, "usr/bin/prometheus"), Dir: dir, SysProcAttr: dieWithParent(),
			Args: []string{"prometheus", "--config.file=" + filepath.Join(dir, "config.json"), "--storage.tsdb.path=" + dir,
				"--web.listen-address=" + address, "--web.local-assets=" + filepath.Join(bin, "usr/share/prometheus/web")},
		})
	}
	if err == nil {
		err = poll(ctx, func(context.Context) (bool, error) {
			response, err := http.Get(p.URL + "/-/ready")
			if err != nil {
				return false, p.process.ended()
			}
			return response.StatusCode == http.StatusOK, response.Body.Close()
		})
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting Prometheus: %w", err), p.Close())
	}
	return p, nil
}

// Close ends it.
func (p *Prometheus) Close() error {
	p.process.kill()
	return p.targets.Close()
}

// writeRules writes the rules of the component prometheus as Prometheus reads them.
func writeRules(file string) error {
	e2e, err := e2eDir()
	if err != nil {
		return err
	}
	manifest, err := os.ReadFile(filepath.Join(e2e, "../deploy/components/prometheus/prometheusrule.yaml"))
	if err != nil {
		return err
	}
	objects, err := Documents(string(manifest))
	if err != nil {
		return err
	}
	rules, err := json.Marshal(objects[0].Object["spec"])
	if err != nil {
		return err
	}
	return os.WriteFile(file, rules, 0o600)
}

// serveTargets answers with the product's pods, labelled as the chart's monitors do. After an error Prometheus keeps
// those that it has.
func (w *Cluster) serveTargets(out http.ResponseWriter, r *http.Request) {
	type target struct {
		Targets []string          `json:"targets"`
		Labels  map[string]string `json:"labels"`
	}
	pods, err := w.Client().CoreV1().Pods(metav1.NamespaceAll).List(r.Context(),
		metav1.ListOptions{LabelSelector: "app.kubernetes.io/name=ip-reconcile"})
	if err != nil {
		http.Error(out, err.Error(), http.StatusInternalServerError)
		return
	}
	all := []target{}
	for _, p := range pods.Items {
		port, is := portOf[p.Labels["app.kubernetes.io/component"]]
		if !is || p.Status.Phase != corev1.PodRunning || p.Status.PodIP == "" {
			continue
		}
		labels := map[string]string{"namespace": p.Namespace, "pod": p.Name}
		if port == portOf["agent"] {
			labels["node"] = p.Spec.NodeName
		}
		all = append(all, target{[]string{net.JoinHostPort(p.Status.PodIP, port)}, labels})
	}
	out.Header().Set("Content-Type", "application/json")
	json.NewEncoder(out).Encode(all)
}
