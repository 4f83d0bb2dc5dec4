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
	// probeName is the name of a report that belongs to no node.
	probeName = "ip-reconcile-checks-its-admission-policy"
	// expectedRefusal is part of the message with which the policy refuses (deploy/agent/admission.yaml).
	expectedRefusal = "of its own node only"
)

// errPolicyNotEnforced means that an agent can write the report of another node.
var errPolicyNotEnforced = errors.New("the API server lets this agent write the report of another node: " +
	"the admission policy ip-reconcile-agent is missing, not bound, for another namespace, or does not deny; " +
	"apply deploy/agent/admission.yaml (Kubernetes 1.30 or newer), or accept this with --without-admission-policy")

// CheckPolicy returns nil if the admission policy refuses a report of another node. It sends a dry run to the API
// server, which stores nothing.
func (a *APIStore) CheckPolicy(ctx context.Context) error {
	report := &v1alpha1.SandboxReport{TypeMeta: reportType(), ObservedAt: apiTime(now(a.Now))}
	report.Name = probeName
	body, err := json.Marshal(report)
	if err != nil {
		return err
	}
	err = a.report.client.Post().AbsPath(reportsPath).Param("dryRun", metav1.DryRunAll).Body(body).Do(ctx).Error()
	switch {
	case err == nil:
		return errPolicyNotEnforced
	case apierrors.IsForbidden(err) && strings.Contains(err.Error(), expectedRefusal):
		return nil
	default:
		return fmt.Errorf("check the admission policy ip-reconcile-agent: %w", err)
	}
}
