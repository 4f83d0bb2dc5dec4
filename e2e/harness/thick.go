package harness

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
)

// multusThick is the thick Multus: the plugin asks a daemon on the node.
var multusThick = kit{module: "parts", parts: []part{
	{name: "multus-daemon", pkg: "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus-daemon"},
	{name: "multus-shim", pkg: "gopkg.in/k8snetworkplumbingwg/multus-cni.v4/cmd/multus-shim"},
}}

// UseThickMultus replaces thin Multus by its daemon for pods that start afterwards. It returns the path of the daemon's
// log. The daemon ends with the node.
func (r *Runtime) UseThickMultus(ctx context.Context) (log string, err error) {
	programs, err := build(multusThick)
	if err != nil {
		return "", err
	}
	plugins := filepath.Join(r.dir, "plugins")
	if err := os.Symlink(filepath.Join(programs, "multus-shim"), filepath.Join(plugins, "multus-shim")); err != nil {
		return "", err
	}
	// Where a pod has its token.
	account := r.Outside("/run/secrets/kubernetes.io/serviceaccount")
	if err := os.MkdirAll(account, 0o700); err != nil {
		return "", err
	}
	c := r.Node.cluster
	server, err := url.Parse(c.server())
	if err != nil {
		return "", err
	}
	host, port, err := net.SplitHostPort(server.Host)
	if err != nil {
		return "", err
	}
	config, networks := filepath.Join(r.dir, "daemon-config.json"), filepath.Join(r.dir, "thick")
	for path, content := range map[string][]byte{
		filepath.Join(account, "token"):          []byte(c.credentials.adminToken),
		filepath.Join(account, "ca.crt"):         c.credentials.certPEM,
		filepath.Join(networks, "10-local.conf"): asJSON(r.localNetwork()),
		config: asJSON(map[string]any{
			"cniVersion": "1.0.0", "logLevel": "verbose", "logToStderr": true, "socketDir": "/run/multus/",
			"binDir": plugins, "multusConfigFile": "auto", "multusAutoconfigDir": networks,
			"cniConfigDir": "/etc/cni/net.d",
		}),
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return "", err
		}
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return "", err
		}
	}
	cmd := r.Command(context.Background(), filepath.Join(programs, "multus-daemon"), "-config", config)
	cmd.Env = append(cmd.Env, "KUBERNETES_SERVICE_HOST="+host, "KUBERNETES_SERVICE_PORT="+port,
		"MULTUS_NODE_NAME="+r.Node.Name)
	p, err := startCommand(r.Node.dir, "multus-daemon", cmd)
	if err != nil {
		return "", err
	}
	err = poll(ctx, func(context.Context) (bool, error) {
		_, err := os.Stat(r.Outside("/etc/cni/net.d/00-multus.conf")) // it listens before it writes this
		return err == nil, p.ended()
	})
	if err != nil {
		return "", fmt.Errorf("waiting for the daemon of Multus: %w; its log ends with:\n%s", err, tail(p.log))
	}
	if err := os.Remove(r.Outside("/etc/cni/net.d/00-e2e.conflist")); err != nil {
		return "", err
	}
	if err := r.Stop(); err != nil { // containerd reads the configuration when it starts
		return "", err
	}
	return p.log, r.Start(ctx)
}
