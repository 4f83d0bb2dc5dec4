package harness

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"math/big"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	authv1 "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Credentials are files: one key for both TLS and ServiceAccount tokens, a certificate that is its own authority, a
// token for the admin, and one for whereabouts' ServiceAccount.
type credentials struct {
	key, cert, tokens string // paths
	certPEM           []byte
	adminToken        string
	pluginToken       string
}

func newCredentials(dir string, address net.IP) (*credentials, error) {
	c := &credentials{
		key:         filepath.Join(dir, "key.pem"),
		cert:        filepath.Join(dir, "cert.pem"),
		tokens:      filepath.Join(dir, "tokens.csv"),
		adminToken:  randomHex(16),
		pluginToken: randomHex(16),
	}
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	keyDER, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return nil, err
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: "kube-apiserver"},
		IPAddresses:           []net.IP{address},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(24 * time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA:                  true,
		BasicConstraintsValid: true,
	}
	certDER, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return nil, err
	}
	c.certPEM = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certDER})
	for path, content := range map[string][]byte{
		c.key:  pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: keyDER}),
		c.cert: c.certPEM,
		c.tokens: fmt.Appendf(nil, "%s,admin,admin,\"system:masters\"\n%s,system:serviceaccount:kube-system:whereabouts,"+
			"whereabouts,"+
			"\"system:serviceaccounts,system:serviceaccounts:kube-system\"\n", c.adminToken, c.pluginToken),
	} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// writeKubeconfigs writes the admin's and the plugin's.
func (c *ControlPlane) writeKubeconfigs() error {
	return errors.Join(c.credentials.writeKubeconfig(c.Kubeconfig(), c.server(), c.credentials.adminToken),
		c.credentials.writeKubeconfig(c.pluginKubeconfig(), c.server(), c.credentials.pluginToken))
}

// writeKubeconfig writes a kubeconfig without a namespace: whereabouts then keeps its objects in kube-system.
func (c *credentials) writeKubeconfig(path, server, token string) error {
	config := clientcmdapi.NewConfig()
	config.Clusters["e2e"] = &clientcmdapi.Cluster{Server: server, CertificateAuthorityData: c.certPEM}
	config.AuthInfos["e2e"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["e2e"] = &clientcmdapi.Context{Cluster: "e2e", AuthInfo: "e2e"}
	config.CurrentContext = "e2e"
	return clientcmd.WriteToFile(*config, path)
}

// KubectlProgram is the path of a program that is kubectl when it is called so.
func (c *ControlPlane) KubectlProgram() string { return c.kubeparts() }

// Kubectl runs kubectl as the admin.
func (c *ControlPlane) Kubectl(ctx context.Context, args ...string) (stdout, stderr string, err error) {
	var out, errs bytes.Buffer
	cmd := exec.CommandContext(ctx, c.kubeparts(), append([]string{"kubectl", "--kubeconfig=" + c.Kubeconfig()},
		args...)...)
	cmd.Env = append(cmd.Environ(), "HOME="+c.run.dir) // for its caches
	cmd.Stdout, cmd.Stderr = &out, &errs
	err = cmd.Run()
	return out.String(), errs.String(), err
}

// KubeconfigFor is the path of a kubeconfig with an API server's token of an existing ServiceAccount, under RBAC.
func (c *ControlPlane) KubeconfigFor(t testing.TB, namespace, serviceAccount string) string {
	t.Helper()
	return c.kubeconfigFor(t, namespace, serviceAccount, nil)
}

// KubeconfigForPod is KubeconfigFor the ServiceAccount of a pod, with a token that
// is bound to the pod and, if it has a node, names the node.
func (c *ControlPlane) KubeconfigForPod(t testing.TB, pod *corev1.Pod) string {
	t.Helper()
	return c.kubeconfigFor(t, pod.Namespace, pod.Spec.ServiceAccountName,
		&authv1.BoundObjectReference{Kind: "Pod", APIVersion: "v1", Name: pod.Name, UID: pod.UID})
}

func (c *ControlPlane) kubeconfigFor(t testing.TB, namespace, serviceAccount string,
	bound *authv1.BoundObjectReference) string {
	t.Helper()
	token, err := c.client.CoreV1().ServiceAccounts(namespace).CreateToken(t.Context(), serviceAccount,
		&authv1.TokenRequest{Spec: authv1.TokenRequestSpec{BoundObjectRef: bound}}, metav1.CreateOptions{})
	if err != nil {
		t.Fatalf("asking for a token of the ServiceAccount %s/%s (create it first): %v", namespace, serviceAccount, err)
	}
	path := filepath.Join(c.run.dir, "kubeconfig-"+randomHex(4))
	if err := c.credentials.writeKubeconfig(path, c.server(), token.Status.Token); err != nil {
		t.Fatal(err)
	}
	return path
}
