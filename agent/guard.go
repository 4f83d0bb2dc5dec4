package agent

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

const (
	// notANode is the name of a report that belongs to no node.
	notANode = "ip-reconcile-checks-its-admission-policy"
	// refusal is in what the policy answers (deploy/agent/admission.yaml).
	refusal = "of its own node only"
)

// errUnguarded means that every agent may write the report of every node.
var errUnguarded = errors.New("nothing is published: the API server lets this agent write the report of another node, " +
	"because the admission policy ip-reconcile-agent is missing, not bound, for another namespace, or does not deny; " +
	"apply deploy/agent/admission.yaml (Kubernetes 1.30 or newer), or accept this with --without-admission-policy")

// CheckPolicy returns an error unless the admission policy refuses that this agent writes a report that is not
// its own node's. It asks with a dry run on the API server, which stores nothing.
func (a *APIStore) CheckPolicy(ctx context.Context) error {
	report := &v1alpha1.SandboxReport{TypeMeta: reportType(), ObservedAt: apiTime(now(a.Now))}
	report.Name = notANode
	body, err := json.Marshal(report)
	if err != nil {
		return err
	}
	err = a.report.client.Post().AbsPath(reportsPath).Param("dryRun", metav1.DryRunAll).Body(body).Do(ctx).Error()
	switch {
	case err == nil:
		return errUnguarded
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), refusal):
		return nil
	default:
		return fmt.Errorf("find out whether the admission policy ip-reconcile-agent is enforced: %w", err)
	}
}
