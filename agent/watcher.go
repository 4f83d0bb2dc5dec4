package agent

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/api/v1alpha1"
)

// watchTimeout is how long a watch lasts without an interruption.
const watchTimeout = 30 * time.Minute

// Watcher follows the node's report. It is not safe for concurrent use.
type Watcher struct {
	onReconnect   func()
	node          string
	reports       metadata.ResourceInterface
	isInterrupted bool // the last watch failed or ended early
	isForbidden   bool // the last watch was forbidden
}

// NewWatcher returns a Watcher of the node's report. It calls onReconnect when a watch begins after one that failed
// or ended early, because the API server was unreachable.
func NewWatcher(config *rest.Config, node string, onReconnect func()) (*Watcher, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	return &Watcher{node: node, reports: client.Resource(v1alpha1.Resource()), onReconnect: onReconnect}, nil
}

// Watch calls changed with the resourceVersion of the report, and again for each change until the watch ends; ""
// means that it does not exist.
func (w *Watcher) Watch(ctx context.Context, changed func(resourceVersion string)) error {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, w.node).String()
	wasInterrupted, wasForbidden := w.isInterrupted, w.isForbidden
	w.isInterrupted, w.isForbidden = true, false // until this watch has lasted its full time
	list, err := w.reports.List(ctx, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		return fmt.Errorf("list SandboxReport %s: %w", w.node, err)
	}
	if wasInterrupted {
		w.onReconnect()
	}
	if len(list.Items) == 0 {
		changed("")
	}
	for i := range list.Items {
		changed(list.Items[i].ResourceVersion)
	}
	start := time.Now()
	events, err := w.reports.Watch(ctx, metav1.ListOptions{
		FieldSelector: only, ResourceVersion: list.ResourceVersion, TimeoutSeconds: ptr.To(int64(watchTimeout.Seconds())),
	})
	if err != nil {
		w.isForbidden = apierrors.IsForbidden(err)
		w.isInterrupted = !w.isForbidden || !wasForbidden // an API server that has just started forbids for a moment
		return fmt.Errorf("watch SandboxReport %s: %w", w.node, err)
	}
	defer events.Stop()
	for e := range events.ResultChan() {
		switch object, ok := e.Object.(*metav1.PartialObjectMetadata); {
		case e.Type == watch.Deleted:
			changed("")
		case e.Type == watch.Error || !ok:
			return fmt.Errorf("watch SandboxReport %s: %v", w.node, e.Object)
		default:
			changed(object.ResourceVersion)
		}
	}
	w.isInterrupted = time.Since(start) < watchTimeout
	return nil
}
