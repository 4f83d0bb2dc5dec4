package agent

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	"github.com/ip-reconcile/ip-reconcile/podstate/v1alpha1"
)

const (
	reportsPath = "/apis/ip-reconcile.dev/v1alpha1/sandboxreports"
	// metadataOnly asks for the metadata of an object only: a report of hundreds
	// of sandboxes need not come back with every answer.
	metadataOnly = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1"
)

// reportsClient is a client for requests made by hand: encoding and decoding a
// report through unstructured objects costs several times as much.
func reportsClient(config *rest.Config) (rest.Interface, error) {
	client, err := rest.UnversionedRESTClientFor(metadata.ConfigFor(config))
	if err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	return client, nil
}

func (a *API) path(r *rest.Request) *rest.Request { return r.AbsPath(reportsPath, a.node) }

// A Watcher follows the node's report.
type Watcher struct {
	node    string
	reports metadata.ResourceInterface
}

// NewWatcher makes a Watcher.
func NewWatcher(config *rest.Config, node string) (*Watcher, error) {
	client, err := metadata.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	return &Watcher{node, client.Resource(v1alpha1.Resource())}, nil
}

// Watch calls changed with the resourceVersion of each change of the report, ""
// for one that is not there, until the watch ends. It begins with what is there.
func (w *Watcher) Watch(ctx context.Context, changed func(resourceVersion string)) error {
	only := fields.OneTermEqualSelector(metav1.ObjectNameField, w.node).String()
	list, err := w.reports.List(ctx, metav1.ListOptions{FieldSelector: only})
	if err != nil {
		return fmt.Errorf("list SandboxReport %s: %w", w.node, err)
	}
	if len(list.Items) == 0 {
		changed("")
	}
	for i := range list.Items {
		changed(list.Items[i].ResourceVersion)
	}
	events, err := w.reports.Watch(ctx, metav1.ListOptions{
		FieldSelector: only, ResourceVersion: list.ResourceVersion, TimeoutSeconds: ptr.To(int64((30 * time.Minute).Seconds())),
	})
	if err != nil {
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
	return nil
}

// NodeBootID reads the boot id of a Node object.
func NodeBootID(ctx context.Context, config *rest.Config, node string) (string, error) {
	client, err := corev1.NewForConfig(config)
	if err != nil {
		return "", fmt.Errorf("set up a client for %s: %w", config.Host, err)
	}
	n, err := client.Nodes().Get(ctx, node, metav1.GetOptions{})
	if err != nil {
		return "", fmt.Errorf("get Node %s: %w", node, err)
	}
	return n.Status.NodeInfo.BootID, nil
}
