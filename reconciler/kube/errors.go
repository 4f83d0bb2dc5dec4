package kube

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// explain wraps the error of a request, and says what ends the failures that an operator can end.
func (c *Cluster) explain(what string, err error, grant string) error {
	if err == nil {
		return nil
	}
	cause := innermost(err).Error() // it decides nothing any more
	switch {
	case errors.Is(err, errWebPage), isForeign(err) && !isTransient(err):
		return fmt.Errorf("%s: %s does not answer as an API server (%s): check --server, --context, --kubeconfig and the proxy, and log in", what, c.host, err.Error())
	case apierrors.IsForbidden(err):
		return fmt.Errorf("no right to %s at %s: %s (%s)", what, c.host, grant, cause)
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("%s: the API server at %s does not accept the credentials: log in again, or name another --kubeconfig or --context", what, c.host)
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("%s: the API server at %s is not trusted (%s): check --kubeconfig, --certificate-authority and --tls-server-name", what, c.host, cause)
	case (isTransient(err) || errors.As(err, new(*net.OpError))) && apierrors.ReasonForError(err) == metav1.StatusReasonUnknown:
		return fmt.Errorf("%s: the API server at %s cannot be reached (%s): check the network, --kubeconfig and --context", what, c.host, cause)
	}
	return fmt.Errorf("%s at %s: %w", what, c.host, err)
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

// isTransient reports whether an error may be gone at the next try. It is never taken
// for an answer.
func isTransient(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) || utilnet.IsTimeout(err)
}

// isForeign reports whether an error is not in the API server's own form: that of a load balancer, of a proxy's login
// page, or of an API server about a path that it does not serve.
func isForeign(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// absent reports whether the API server answers that there is no such object. The 404
// of something in between, such as a load balancer without a server behind it, is
// no answer.
func absent(err error) bool { return apierrors.IsNotFound(err) && !isForeign(err) }

// errWebPage is the error of a success that comes with a web page.
var errWebPage = errors.New("it answers with a web page")

// checkAnswer refuses a success that comes with a web page, as of a login: no API server sends one, and client-go would
// take it for the success of a DELETE.
func checkAnswer(answer *http.Response) error {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if answer.StatusCode/100 != 2 || kind != "text/html" {
		return nil
	}
	answer.Body.Close()
	return errWebPage
}

// writeError is ErrForbidden, with the API server's words, where rights, a policy or a schema deny the write.
func (c *Cluster) writeError(what string, err error) error {
	if apierrors.IsForbidden(err) || apierrors.IsInvalid(err) {
		c.noteDenied()
		return fmt.Errorf("%s: %w: %v", what, reconciler.ErrForbidden, err) //nolint:errorlint // its cause decides nothing
	}
	return fmt.Errorf("%s: %w", what, err)
}

func (c *Cluster) noteDenied() {
	if c.OnDenied != nil {
		c.OnDenied()
	}
}
