package servecmd

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/go-logr/logr"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
)

// authorized lets those have the metrics whom the API server knows by their
// bearer token (TokenReview) and who may get the path (SubjectAccessReview).
// controller-runtime's filter of the same purpose brings the API server's own
// libraries with it, a fifth of the program; and a scrape now and then needs no
// cache. Whatever the API server does not answer is refused.
func authorized(config *rest.Config, client *http.Client) (server.Filter, error) {
	api, err := kubernetes.NewForConfigAndClient(config, client)
	if err != nil {
		return nil, fmt.Errorf("set up a client to ask who may have the metrics: %w", err)
	}
	return func(log logr.Logger, metrics http.Handler) (http.Handler, error) {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if status, err := reviewed(api, r); status != http.StatusOK {
				if err != nil {
					log.Error(err, "who asks for metrics could not be told")
				}
				http.Error(w, http.StatusText(status), status)
				return
			}
			metrics.ServeHTTP(w, r)
		}), nil
	}, nil
}

// reviewed is the status that a request deserves.
func reviewed(api kubernetes.Interface, r *http.Request) (status int, err error) {
	scheme, token, _ := strings.Cut(strings.TrimSpace(r.Header.Get("Authorization")), " ")
	if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
		return http.StatusUnauthorized, nil
	}
	who, err := api.AuthenticationV1().TokenReviews().Create(r.Context(), &authenticationv1.TokenReview{
		Spec: authenticationv1.TokenReviewSpec{Token: token},
	}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("create a TokenReview: %w", err)
	}
	if !who.Status.Authenticated {
		return http.StatusUnauthorized, nil
	}
	user := who.Status.User
	extra := map[string]authorizationv1.ExtraValue{}
	for key, values := range user.Extra {
		extra[key] = authorizationv1.ExtraValue(values)
	}
	may, err := api.AuthorizationV1().SubjectAccessReviews().Create(r.Context(), &authorizationv1.SubjectAccessReview{
		Spec: authorizationv1.SubjectAccessReviewSpec{
			User: user.Username, UID: user.UID, Groups: user.Groups, Extra: extra,
			NonResourceAttributes: &authorizationv1.NonResourceAttributes{Path: r.URL.Path, Verb: strings.ToLower(r.Method)},
		},
	}, metav1.CreateOptions{})
	if err != nil {
		return http.StatusInternalServerError, fmt.Errorf("create a SubjectAccessReview: %w", err)
	}
	if !may.Status.Allowed || may.Status.Denied {
		return http.StatusForbidden, nil
	}
	return http.StatusOK, nil
}
