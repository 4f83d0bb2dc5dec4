package servecmd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/ip-reconcile/ip-reconcile/reconciler/serve"
)

// events returns the writer of Events. Those about the process are about its pod, if known, or its namespace.
func (o *Options) events(ctx context.Context, config *rest.Config, log *slog.Logger) (*serve.Events, error) {
	core, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("create a client of %s: %w", config.Host, err)
	}
	broadcaster := record.NewBroadcaster(record.WithContext(ctx))
	broadcaster.StartRecordingToSink(patientSink{&typedcorev1.EventSinkImpl{Interface: core.CoreV1().Events("")}})
	context.AfterFunc(ctx, broadcaster.Shutdown)
	self := &corev1.ObjectReference{APIVersion: "v1", Kind: "Namespace", Namespace: o.Namespace(), Name: o.Namespace()}
	if name := os.Getenv("POD_NAME"); name != "" {
		self.Kind, self.Name, self.UID = "Pod", name, types.UID(os.Getenv("POD_UID"))
	}
	return &serve.Events{
		EventRecorder: broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: serve.Component}),
		Self:          self,
		Waiting:       serve.NewWaitingRecorder(ctx, core.CoreV1(), log),
	}, nil
}

// patientSink has client-go try again what an API server refuses for a moment, for two minutes. Otherwise client-go
// drops an Event at any answer that is an error (v0.37, tools/record/event.go), and each Event is made once.
type patientSink struct{ record.EventSink }

// Create implements EventSink.
func (s patientSink) Create(e *corev1.Event) (*corev1.Event, error) {
	written, err := s.EventSink.Create(e)
	return written, notYet(err)
}

// Update implements EventSink.
func (s patientSink) Update(e *corev1.Event) (*corev1.Event, error) {
	written, err := s.EventSink.Update(e)
	return written, notYet(err)
}

// Patch implements EventSink.
func (s patientSink) Patch(e *corev1.Event, patch []byte) (*corev1.Event, error) {
	written, err := s.EventSink.Patch(e, patch)
	return written, notYet(err)
}

// notYet hides the type of an error that may be gone soon, at which client-go tries again. An API server that has just
// started forbids for a moment what RBAC grants.
func notYet(err error) error {
	isForbidden := apierrors.IsForbidden(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause)
	if isForbidden || apierrors.IsInternalError(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsTooManyRequests(err) {
		return errors.New(err.Error())
	}
	return err
}
