package main

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
)

// hush is in everything that is to be kept secret.
const hush = "hUsH"

// secretive is a kubeconfig for a server, with more fields of its cluster and its user.
func secretive(t *testing.T, server, cluster, user string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "config")
	write(t, path, fmt.Sprintf(`{apiVersion: v1, kind: Config, current-context: lab, contexts: [{name: lab, context: {cluster: lab, user: me}}],
  clusters: [{name: lab, cluster: {server: %q%s}}], users: [{name: me, user: {%s}}]}`, server, cluster, user))
	return path
}

// keepsSecrets runs the commands that connect, and finds no secret in what they print.
func keepsSecrets(t *testing.T, args ...string) {
	t.Helper()
	for _, command := range [][]string{{"check", "-o", "json", "--log-level", "debug"}, {"status", "-o", "json"}} {
		whole := append(append(command, "--request-timeout", "500ms"), args...)
		code, out, errs := run(t, whole...)
		if code == exitClean && errs == "" && out == "" {
			t.Errorf("%q says nothing", command)
		}
		if strings.Contains(out+errs, hush) {
			t.Errorf("%s: a secret is told:\n%s%s", command, out, errs)
		}
	}
}

func TestSecrets_OfAKubeconfig(t *testing.T) {
	t.Parallel()
	refusing := serving(t, http.StatusUnauthorized, "application/json", status(http.StatusUnauthorized, "Unauthorized"))
	forbidding := serving(t, http.StatusForbidden, "application/json", status(http.StatusForbidden, "Forbidden"))
	tls := httptest.NewTLSServer(http.NotFoundHandler())
	t.Cleanup(tls.Close)
	const closed = "http://" + nobody
	pem := base64.StdEncoding.EncodeToString([]byte("-----BEGIN PRIVATE KEY-----\n" + hush +
		"\n-----END PRIVATE KEY-----\n"))
	token := "token: " + hush
	for what, config := range map[string]string{
		"a token that is refused":           secretive(t, refusing.URL, "", token),
		"a token without rights":            secretive(t, forbidding.URL, "", token),
		"a token for a server that is away": secretive(t, closed, "", token),
		"a token that no header can have":   secretive(t, refusing.URL, "", `token: "`+hush+`\n"`),
		"a key that is none": secretive(t, tls.URL, "",
			"client-certificate-data: "+pem+", client-key-data: "+pem),
		"a plugin that fails": secretive(t, tls.URL, "",
			"exec: {apiVersion: client.authentication.k8s.io/v1, command: sh, interactiveMode: Never, args: [-c, 'echo "+hush+"; exit 3']}"),
		"a plugin that says what is no JSON": secretive(t, tls.URL, "",
			"exec: {apiVersion: client.authentication.k8s.io/v1, command: echo, interactiveMode: Never, args: ["+hush+"]}"),
		"a proxy that is away": secretive(t, tls.URL,
			", proxy-url: 'http://me:"+hush+"@"+nobody+"'", token),
		"a proxy that refuses": secretive(t, tls.URL,
			", proxy-url: 'http://me:"+hush+"@"+refusing.Listener.Addr().String()+"'", token),
		"a proxy that is no URL": secretive(t, tls.URL, ", proxy-url: 'http://me:x/"+hush+"@proxy'", token),
		"a server with a password": secretive(t, strings.Replace(refusing.URL, "://", "://me:"+hush+"@", 1), "",
			""),
		"a server with a broken password": secretive(t, strings.Replace(closed, "://", "://me:x%zz/"+hush+"@", 1), "",
			token),
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			keepsSecrets(t, "--kubeconfig", config)
		})
	}
	t.Run("flags", func(t *testing.T) {
		t.Parallel()
		config := secretive(t, refusing.URL, "", "")
		keepsSecrets(t, "--kubeconfig", config, "--token", hush)
		keepsSecrets(t, "--kubeconfig", config, "--username", "me", "--password", hush)
		keepsSecrets(t, "--kubeconfig", config, "--proxy-url", "http://me:"+hush+"@"+nobody)
		keepsSecrets(t, "--kubeconfig", config, "--server", strings.Replace(closed, "://", "://me:"+hush+"@", 1))
		keepsSecrets(t, "--kubeconfig", config, "--tokn="+hush)
	})
}

// The config of a definition may have what logs in to something, as that of a plugin that
// asks an API server.
func TestSecrets_OfADefinition(t *testing.T) {
	for what, config := range map[string]string{
		"one that can be read": `{"type":"own","password":"hUsH","ipam":{"type":"whereabouts",` +
			`"range":"10.0.0.0/24","kubernetes":{"kubeconfig":"/etc/hUsH","token":"hUsH"}}}`,
		"one that is cut off": `{"type":"own","password":"hUsH","ipam":{"type":"whereabouts","token":"hUsH`,
		"one that is no JSON": `password: hUsH`,
		"one with fields of others": `{"ipam":{"type":"whereabouts","range":"10.0.0.0/24",` +
			`"enable_overlapping_ranges":"hUsH","node_slice_size":["hUsH"]},"plugins":"hUsH"}`,
		"one with a key that is none": `{"ipam":{"type":"whereabouts","range":"10.0.0.0/24","etcd_password":"hUsH",` +
			`"etcd_key_cert":{"a":"hUsH"}}}`,
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			write(t, filepath.Join(dir, "pool.yaml"),
				"apiVersion: whereabouts.cni.cncf.io/v1alpha1\nkind: IPPool\n"+
					"metadata: {name: 10.0.0.0-24, namespace: kube-system}\n"+
					"spec: {range: 10.0.0.0/24, allocations: {'5': {id: a, podref: default/web-0, ifname: net1}}}\n")
			write(t, filepath.Join(dir, "nad.yaml"),
				fmt.Sprintf("apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\n"+
					"metadata: {name: wb, namespace: default}\nspec: {config: %q}\n", config))
			write(t, filepath.Join(dir, "pod.yaml"),
				"apiVersion: v1\nkind: Pod\nmetadata: {name: web-0, namespace: default, uid: u, annotations: "+
					"{k8s.v1.cni.cncf.io/network-status: "+
					"'[{\"name\":\"default/wb\",\"interface\":\"net1\",\"ips\":[\"10.0.0.5\"]}]'}}\nspec: {nodeName: a}\n"+
					"status: {phase: Running}\n")
			for _, command := range [][]string{{"check", "--all", "-o", "wide"},
				{"check", "--all", "-o", "json", "--log-level", "debug"}, {"run", "--dry-run", "--all"}, {"explain",
					"10.0.0.5"}, {"explain", "default/web-0", "-o", "json"}, {"pools", "-o", "json"}, {"pools", "10.0.0.0-24"}} {
				_, out, errs := run(t, append(command, "--snapshot", dir)...)
				if strings.Contains(out+errs, hush) || strings.Contains(out+errs, "/etc/") {
					t.Errorf("%s: a secret is told:\n%s%s", command, out, errs)
				}
			}
		})
	}
}
