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

// watchTimeout is how long a watch of the report lasts, unless it is cut off.
const watchTimeout = 30 * time.Minute

// A Watcher follows the node's report. It is for one goroutine.
type Watcher struct {
	reconnected func()
	node        string
	reports     metadata.ResourceInterface
	away        bool // the last watch was cut off, or failed
}

// NewWatcher makes a Watcher of the node's report. It calls reconnected when a watch
// begins after one that was cut off, or that failed: the API server was away, for
// however short a time.
func NewWatcher(config *rest.Config, node string, reconnected func()) (*Watcher, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	return &Watcher{node: node, reports: client.Resource(v1alpha1.Resource()), reconnected: reconnected}, nil
}

// Watch calls changed with the resourceVersion of each change of the report, ""
// for one that is not there, until the watch ends. It begins with what is there.
func (w *Watcher) Watch(ctx context.Context, changed func(resourceVersion string)) error {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, w.node).String()
	wasAway := w.away
	w.away = true // until a watch has lasted as long as it was asked to
	list, err := w.reports.List(ctx, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		return fmt.Errorf("list SandboxReport %s: %w", w.node, err)
	}
	if wasAway {
		w.reconnected()
	}
	if len(list.Items) == 0 {
		changed("")
	}
	for i := range list.Items {
		changed(list.Items[i].ResourceVersion)
	}
	began := time.Now()
	events, err := w.reports.Watch(ctx, metav1.ListOptions{
		FieldSelector: only, ResourceVersion: list.ResourceVersion, TimeoutSeconds: ptr.To(int64(watchTimeout.Seconds())),
	})
	if err != nil {
		w.away = !apierrors.IsForbidden(err) // which no attempt changes
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
	w.away = time.Since(began) < watchTimeout
	return nil
}
