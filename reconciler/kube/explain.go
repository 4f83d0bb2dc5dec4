package kube

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"regexp"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

func (c *Cluster) explainPools(err error) error {
	if apierrors.IsNotFound(err) && c.asWebPage(err) == nil {
		return fmt.Errorf("the API server at %s does not serve ippools.%s: whereabouts' CRDs are not installed there; if another cluster is meant, name it with --context or --kubeconfig", c.host, ippool.PoolResource.Group)
	}
	return c.explain("list IPPools", err, "grant get, list and patch on ippools and get, list, create and delete on overlappingrangeipreservations ("+ippool.PoolResource.Group+")")
}

// explain adds to an error that ends an observation what it means to an operator.
func (c *Cluster) explain(what string, err error, grant string) error {
	if err == nil {
		return nil
	}
	if page := c.asWebPage(err); page != nil {
		return fmt.Errorf("%s: %w: a proxy or a login is in between; log in, or check --server, --kubeconfig and the proxy settings", what, page)
	}
	if wrong := explainCertificate(err); wrong != "" {
		return fmt.Errorf("%s: the API server at %s is not trusted: %s (%v)", what, c.host, wrong, innermost(err)) //nolint:errorlint // its innermost cause is for reading alone
	}
	switch {
	case apierrors.IsForbidden(err):
		return fmt.Errorf("no right to %s at %s: %s (%v)", what, c.host, grant, innermost(err)) //nolint:errorlint // its innermost cause is for reading alone
	case apierrors.IsNotFound(err) && !absent(err):
		return fmt.Errorf("%s: the server at %s does not serve that (%w): it may be no API server; check --server, --context and --kubeconfig", what, c.host, err)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server at %s does not accept the credentials: log in again, or name another --kubeconfig or --context", what, c.host)
	case (isTransient(err) || errors.As(err, new(*net.OpError))) && !isStatus(err):
		return fmt.Errorf("%s: the API server at %s cannot be reached (%v): check the network, --kubeconfig and --context", what, c.host, innermost(err)) //nolint:errorlint // its innermost cause is for reading alone
	}
	return fmt.Errorf("%s at %s: %w", what, c.host, err)
}

func isStatus(err error) bool {
	var s apierrors.APIStatus
	return errors.As(err, &s)
}

// innermost is the innermost of a chain of errors that each repeat the address.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// explainCertificate says what is wrong with the certificate that the API server shows, ""
// where it is not about one.
func explainCertificate(err error) string {
	var authority x509.UnknownAuthorityError
	var name x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.As(err, &authority):
		return "its certificate is signed by an authority that is not known: check --kubeconfig and --context, or give --certificate-authority"
	case errors.As(err, &name):
		return "its certificate is for another name: check the server's address in the kubeconfig, or give --tls-server-name"
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		return "its certificate has expired or is not valid yet: check the clocks, and renew it"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return "its certificate cannot be verified: check --kubeconfig, or give --certificate-authority"
	}
	return ""
}

// webPage is the answer of something that is no API server, such as a proxy's login page.
type webPage struct {
	host string // whose page it is, which may not be the one that was asked
	says string // its first words
}

func (p *webPage) Error() string {
	return fmt.Sprintf("%s answers with a web page (%q) and not as an API server", p.host, p.says)
}

// checkAnswer is an error for a success that comes with a web page: no API server has one.
// Other answers of strangers are statuses to client-go, which asks again where that helps.
func checkAnswer(answer *http.Response) error {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if answer.StatusCode/100 != 2 || kind != "text/html" {
		return nil
	}
	defer answer.Body.Close()
	head, _ := io.ReadAll(io.LimitReader(answer.Body, 4<<10)) // as much as can be had
	return &webPage{host: answer.Request.URL.Host, says: firstWords(string(head))}
}

// asWebPage is the web page that came with an error status, nil if none did.
func (c *Cluster) asWebPage(err error) *webPage {
	var page *webPage
	if errors.As(err, &page) {
		return page
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) || status.Status().Details == nil {
		return nil
	}
	for _, cause := range status.Status().Details.Causes {
		if cause.Type == metav1.CauseTypeUnexpectedServerResponse && strings.HasPrefix(strings.TrimSpace(cause.Message), "<") {
			return &webPage{host: hostOf(c.host), says: firstWords(cause.Message)}
		}
	}
	return nil
}

func hostOf(address string) string {
	_, host, found := strings.Cut(address, "://")
	if !found {
		host = address
	}
	host, _, _ = strings.Cut(host, "/")
	return host
}

// firstWords are the first words that a reader of a web page sees.
func firstWords(page string) string {
	const most = 60
	hidden := regexp.MustCompile(`(?is)<!--.*?-->|<style.*?(</style>|$)|<script.*?(</script>|$)|<[^>]*(>|$)`)
	words := []rune(strings.Join(strings.Fields(hidden.ReplaceAllString(page, " ")), " "))
	if len(words) > most {
		return string(words[:most]) + "…"
	}
	return string(words)
}
