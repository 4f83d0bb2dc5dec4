package harness

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
)

// readyTimeout is for a machine on which several clusters start at once; one alone takes some three seconds.
const readyTimeout = 4 * time.Minute

// A ControlPlane is an etcd and a kube-apiserver with the custom resources of whereabouts, of network attachments and
// of this project. A Cluster adds kubelets, a scheduler and a controller manager.
type ControlPlane struct {
	run         *run
	home        *run   // of its servers: run, unless the servers are those of an earlier control plane
	bin         string // the built parts
	apiServer   string // the program, of bin or older
	address     net.IP
	port        int
	credentials *credentials
	config      *rest.Config
	client      kubernetes.Interface
	dynamic     dynamic.Interface
	apiFlags    []string
	full        bool // it belongs to a Cluster

	mu        sync.Mutex // for servers that a fault test stops and starts
	etcd, api *process
	disturbed bool  // no other test may use it: its servers were stopped, or joined by another
	audited   int64 // the length of their audit log before it
}

// StartControlPlane starts a control plane that runs until the test ends. The flags are added to those of
// kube-apiserver (such as --feature-gates).
func StartControlPlane(t testing.TB, apiFlags ...string) *ControlPlane {
	t.Helper()
	c, err := NewControlPlane(t.Context(), apiFlags...)
	if c != nil {
		t.Cleanup(func() {
			if t.Failed() {
				c.logTails(t)
			}
			if err := c.Close(); err != nil {
				t.Errorf("removing what the cluster left: %v", err)
			}
		})
	}
	if err != nil {
		t.Fatalf("starting the control plane: %v", err)
	}
	return c
}

// NewControlPlane is StartControlPlane outside of tests. On an error it returns what started, for Close.
func NewControlPlane(ctx context.Context, apiFlags ...string) (*ControlPlane, error) {
	c, err := newControlPlane(loopbackAddress(), 6443, append([]string{
		"--service-cluster-ip-range=10.96.0.0/16",
		// These two wait for controllers that do not run here: one for the namespace's ServiceAccount, one for the removal of
		// a new node's taint.
		"--disable-admission-plugins=ServiceAccount,TaintNodesByCondition",
	}, apiFlags...))
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	return c, c.start(ctx)
}

// newControlPlane builds the parts and reserves a place on the machine. Nothing runs yet.
func newControlPlane(address net.IP, port int, apiFlags []string) (*ControlPlane, error) {
	if why := Unsupported(); why != "" {
		return nil, errors.New(why)
	}
	bin, err := build(core)
	if err != nil {
		return nil, err
	}
	apiServer := filepath.Join(bin, "kubeparts")
	if other := os.Getenv(otherAPIEnv); other != "" {
		dir, err := build(otherAPIs[other])
		if err != nil {
			return nil, err
		}
		apiServer = filepath.Join(dir, "kube-apiserver")
	}
	run, err := newRun()
	c := &ControlPlane{run: run, home: run, bin: bin, apiServer: apiServer, address: address, port: port}
	c.apiFlags = apiFlags
	return c, err
}

// Close ends everything and removes its traces from the machine.
func (c *ControlPlane) Close() error {
	c.StopAPI()
	c.StopEtcd()
	return c.run.close()
}

func (c *ControlPlane) start(ctx context.Context) (err error) {
	if c.credentials, err = newCredentials(c.home.dir, c.address); err != nil {
		return err
	}
	if err := c.writeKubeconfigs(); err != nil {
		return err
	}
	c.config = &rest.Config{
		Host:            c.server(),
		BearerToken:     c.credentials.adminToken,
		TLSClientConfig: rest.TLSClientConfig{CAData: c.credentials.certPEM},
		QPS:             -1, // the server's own limits are enough
	}
	if c.client, err = kubernetes.NewForConfig(c.config); err != nil {
		return err
	}
	if c.dynamic, err = dynamic.NewForConfig(c.config); err != nil {
		return err
	}
	if err := c.StartEtcd(); err != nil {
		return err
	}
	if err := c.StartAPI(ctx); err != nil {
		return err
	}
	if err := errors.Join(c.installLeases(ctx), c.installPluginRights(ctx)); err != nil {
		return err
	}
	return c.installCRDs(ctx)
}

// StartEtcd starts etcd, on its earlier data if it ran before. A running API server reconnects by itself: WaitReady
// waits for that.
func (c *ControlPlane) StartEtcd() (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	client, peer := c.url("http", 2379), c.url("http", 2380)
	c.etcd, err = startProcess(c.kubeparts(), c.home.dir, "etcd", "",
		"--data-dir="+c.EtcdData(), "--unsafe-no-fsync", "--log-level=warn",
		"--listen-client-urls="+client, "--advertise-client-urls="+client,
		"--listen-peer-urls="+peer, "--initial-advertise-peer-urls="+peer, "--initial-cluster=default="+peer)
	return err
}

// StartAPI starts the API server, at its earlier address if it ran before, and waits until it is ready.
func (c *ControlPlane) StartAPI(ctx context.Context) (err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	flags, err := c.apiServerFlags(c.port)
	if err != nil {
		return err
	}
	if c.api, err = startProcess(c.apiServer, c.home.dir, "kube-apiserver", "", flags...); err != nil {
		return err
	}
	return waitAnswers(ctx, c.client, c.api)
}

func (c *ControlPlane) apiServerFlags(port int) ([]string, error) {
	audit, err := auditFlags(c.home.dir, c.auditLog())
	return slices.Concat([]string{
		"--etcd-servers=" + c.url("http", 2379),
		"--bind-address=" + c.address.String(), "--advertise-address=" + c.address.String(), fmt.Sprint("--secure-port=",
			port),
		"--tls-cert-file=" + c.credentials.cert, "--tls-private-key-file=" + c.credentials.key,
		"--token-auth-file=" + c.credentials.tokens, "--authorization-mode=RBAC",
		"--service-account-key-file=" + c.credentials.key, "--service-account-signing-key-file=" + c.credentials.key,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--endpoint-reconciler-type=none", "--allow-privileged=true", "--profiling=false",
	}, audit, c.apiFlags), err
}

// WaitReady waits until the API server is ready, which requires etcd.
func (c *ControlPlane) WaitReady(ctx context.Context) error {
	c.mu.Lock()
	api := c.api
	c.mu.Unlock()
	return waitAnswers(ctx, c.client, api)
}

func waitAnswers(ctx context.Context, client kubernetes.Interface, api *process) error {
	var last error
	err := poll(ctx, func(ctx context.Context) (bool, error) {
		if err := api.ended(); err != nil {
			return false, err
		}
		_, last = client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("%s did not get ready: %w (last answer: %v); its log ends with:\n%s", api.name, err,
			last, tail(api.log)) //nolint:errorlint // last is nil where nothing answered
	}
	return nil
}

// Dispose keeps the control plane from other tests. Use it after a change to what an API server keeps beside etcd: an
// admission policy stays in force for up to a second after its deletion.
func (c *ControlPlane) Dispose() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disturbed = true
}

// StopAPI ends the API server as a crash would.
func (c *ControlPlane) StopAPI() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disturbed = true
	c.api.kill()
}

// StopEtcd ends etcd as a crash would. The API server keeps running and fails.
func (c *ControlPlane) StopEtcd() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.disturbed = true
	c.etcd.kill()
}

// EtcdData is the folder of etcd's data. A copy made while etcd and the API server are stopped is a backup. Copying it
// back is a plain restore: resource versions run backwards.
func (c *ControlPlane) EtcdData() string { return filepath.Join(c.home.dir, "etcd-data") }

// EtcdServer is the URL of etcd.
func (c *ControlPlane) EtcdServer() string { return c.url("http", 2379) }

// Dir is the cluster's own folder, which is removed with it.
func (c *ControlPlane) Dir() string { return c.run.dir }

// Kubeconfig is the path of the admin's kubeconfig.
func (c *ControlPlane) Kubeconfig() string { return filepath.Join(c.run.dir, "kubeconfig") }

// pluginKubeconfig is the path of the kubeconfig of whereabouts' plugin, which uses its own ServiceAccount: RBAC
// applies to it, as to the product.
func (c *ControlPlane) pluginKubeconfig() string {
	return filepath.Join(c.run.dir, "whereabouts.kubeconfig")
}

// Config is the admin's configuration, without a client-side rate limit.
func (c *ControlPlane) Config() *rest.Config { return rest.CopyConfig(c.config) }

// Client is the admin's client.
func (c *ControlPlane) Client() kubernetes.Interface { return c.client }

// Dynamic is the admin's client for custom resources.
func (c *ControlPlane) Dynamic() dynamic.Interface { return c.dynamic }

func (c *ControlPlane) kubeparts() string { return filepath.Join(c.bin, "kubeparts") }
func (c *ControlPlane) server() string    { return c.url("https", c.port) }

func (c *ControlPlane) url(scheme string, port int) string {
	return fmt.Sprintf("%s://%s:%d", scheme, c.address, port)
}

func (c *ControlPlane) logTails(t testing.TB) {
	servers, _ := filepath.Glob(filepath.Join(c.home.dir, "*.log"))
	plugins, _ := filepath.Glob(filepath.Join(c.run.dir, "*", "*.log"))
	for _, path := range append(servers, plugins...) {
		t.Logf("%s ends with:\n%s", path, tail(path))
	}
}

// loopbackAddress picks a random address of 127/8, all of which Linux answers on. With an address of its own a cluster
// uses the usual ports, and nobody takes a port while a fault test has its server stopped.
func loopbackAddress() net.IP {
	b := make([]byte, 3)
	rand.Read(b)
	return net.IPv4(127, 16+b[0]%224, b[1], 1+b[2]%254).To4()
}

// AnotherAPI starts a second API server on the same etcd, whose clock is ahead, and returns the admin's configuration
// for it. It runs until the test ends.
func (c *ControlPlane) AnotherAPI(t testing.TB, ahead time.Duration) *rest.Config {
	t.Helper()
	port := c.port + 1
	flags, err := c.apiServerFlags(port)
	if err != nil {
		t.Fatal(err)
	}
	another, err := startProcess(c.apiServer, c.home.dir, "kube-apiserver", "-2", flags...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(another.kill)
	c.disturbed = true
	if err := shiftClock(another.cmd.Process.Pid, ahead); err != nil {
		t.Fatalf("putting the clock of an API server forward by %s: %v", ahead, err)
	}
	config := c.Config()
	config.Host = c.url("https", port)
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), readyTimeout)
	defer cancel()
	if err := waitAnswers(ctx, client, another); err != nil {
		t.Fatal(err)
	}
	web, err := rest.HTTPClientFor(config)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := web.Get(config.Host + "/readyz")
	if err != nil {
		t.Fatal(err)
	}
	answer.Body.Close()
	date, err := http.ParseTime(answer.Header.Get("Date"))
	if off := time.Until(date) - ahead; err != nil || off.Abs() > 20*time.Second {
		t.Fatalf("the API server is %s ahead, want %s: %v", time.Until(date), ahead, err)
	}
	return config
}
