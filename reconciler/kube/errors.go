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
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"github.com/ip-reconcile/ip-reconcile/reconciler/apply"
)

// explainError wraps the error of a request, and says what an operator can do.
func (c *Cluster) explainError(what string, err error, grant string) error {
	if err == nil {
		return nil
	}
	isUnreachable := isTransient(err) || errors.As(err, new(*net.OpError))
	cause := innermost(err).Error() // only text from here on
	switch {
	case errors.Is(err, errWebPage), isForeign(err) && !isTransient(err):
		return fmt.Errorf("cannot %s: %s does not answer as an API server (%s); "+
			"check --server, --context, --kubeconfig and the proxy, and log in", what, c.host, err.Error())
	case apierrors.IsForbidden(err):
		return denial(fmt.Sprintf("cannot %s: forbidden; %s (%s: %s)", what, grant, c.host, cause))
	case apierrors.IsUnauthorized(err):
		return fmt.Errorf("cannot %s: the API server at %s does not accept the credentials; "+
			"log in again, or use another --kubeconfig or --context", what, c.host)
	case errors.As(err, new(*tls.CertificateVerificationError)):
		return fmt.Errorf("cannot %s: the API server at %s is not trusted (%s); "+
			"check --kubeconfig, --certificate-authority and --tls-server-name", what, c.host, cause)
	case isUnreachable && !errors.As(err, new(apierrors.APIStatus)): // the API server did not answer
		return fmt.Errorf("cannot %s: the API server at %s is unreachable (%s); "+
			"check the network, --kubeconfig and --context", what, c.host, cause)
	}
	return fmt.Errorf("%s at %s: %w", what, c.host, err)
}

// denial is the text of an error that is an apply.ErrForbidden.
type denial string

func (d denial) Error() string { return string(d) }

// Is is for errors.Is.
func (d denial) Is(target error) bool { return target == apply.ErrForbidden } //nolint:errorlint // not wrapped

// forbiddenList is the error of a LIST that RBAC forbids. Its text is the same for each account.
type forbiddenList struct {
	kind string
	err  error
}

func (e forbiddenList) Error() string { return "cannot list " + e.kind + ": forbidden" }
func (e forbiddenList) Unwrap() error { return e.err }

// innermost returns the last of a chain of errors, which repeat the address.
func innermost(err error) error {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err
		}
		err = next
	}
}

// isTransient reports whether an error may be gone at the next try. Such an error is never an answer.
func isTransient(err error) bool {
	return apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) ||
		apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, io.ErrUnexpectedEOF) ||
		utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err) ||
		utilnet.IsTimeout(err)
}

// isForeign reports whether an error has another form than the API server's, as of a load balancer or a login page.
func isForeign(err error) bool {
	return apierrors.HasStatusCause(err, metav1.CauseTypeUnexpectedServerResponse)
}

// isAbsent reports whether the API server, and not something in between, answers that an object does not exist.
func isAbsent(err error) bool { return apierrors.IsNotFound(err) && !isForeign(err) }

var errWebPage = errors.New("it answers with a web page") // though successfully

// checkAnswer refuses a successful answer with a web page, which client-go would take for the success of a DELETE.
func checkAnswer(answer *http.Response) error {
	kind, _, _ := mime.ParseMediaType(answer.Header.Get("Content-Type"))
	if answer.StatusCode/100 != 2 || kind != "text/html" {
		return nil
	}
	answer.Body.Close()
	return errWebPage
}

// writeError wraps ErrConflict for a lost race, and ErrForbidden where RBAC, a policy or a schema denies the write.
func (c *Cluster) writeError(what string, err error, isConflict bool) error {
	kind := apply.ErrConflict
	switch {
	case err == nil:
		return nil
	case isConflict:
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err):
		c.OnDenied()
		kind = apply.ErrForbidden
	default:
		return fmt.Errorf("%s: %w", what, err)
	}
	return fmt.Errorf("%s: %w: %v", what, kind, err) //nolint:errorlint // only text
}

const (
	// warnAfter is how long a request must fail again and again until that is logged.
	warnAfter = 10 * time.Second
	// warnEvery is the pause between two such logs. A failure that is older than that is another one.
	warnEvery = time.Minute
)

// failing is a request that the API server refuses for now, or does not answer, in each try since.
type failing struct {
	request             string // method and path; "" for none
	since, last, warned time.Time
}

// noteAnswer warns of a request that fails again and again. The error of its caller comes only when that gives up.
func (c *Cluster) noteAnswer(r *http.Request, sent time.Time, resp *http.Response, err error) {
	request, now, answer := r.Method+" "+r.URL.Path, time.Now(), ""
	switch {
	case errors.Is(r.Context().Err(), context.Canceled): // nobody waits for the answer
		return
	case err != nil:
		answer = err.Error()
	case resp.StatusCode == http.StatusTooManyRequests || resp.StatusCode >= http.StatusInternalServerError:
		answer = resp.Status
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	f := &c.failing
	isOther := f.request != request
	switch {
	case answer == "" && isOther, isOther && f.request != "" && now.Sub(f.last) < warnEvery:
		return
	case answer == "":
		f.request = ""
		return
	case isOther || now.Sub(f.last) >= warnEvery:
		f.request, f.since = request, sent
	}
	f.last = now
	if now.Sub(f.since) >= warnAfter && now.Sub(f.warned) >= warnEvery {
		f.warned = now
		c.Log.Warn("A request to the API server fails again and again", "request", request, "answer", answer,
			"since", f.since.UTC().Format(time.RFC3339), "for", now.Sub(f.since).Round(time.Second))
	}
}
