package harness

import (
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
	"path/filepath"
	"time"

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
