package harness

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/client-go/util/retry"
)

// The custom resources that tests read.
var (
	IPPools = schema.GroupVersionResource{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1",
		Resource: "ippools"}
	Reservations = schema.GroupVersionResource{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1",
		Resource: "overlappingrangeipreservations"}
	NodeSlicePools = schema.GroupVersionResource{Group: "whereabouts.cni.cncf.io", Version: "v1alpha1",
		Resource: "nodeslicepools"}
	NADs = schema.GroupVersionResource{Group: "k8s.cni.cncf.io", Version: "v1", Resource: "network-attachment-definitions"}
	crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}
)

// installCRDs applies the custom resource definitions of whereabouts, of network attachments and of this project's
// deploy/crds, and waits until each is served.
func (c *ControlPlane) installCRDs(ctx context.Context) error {
	toInstall, err := c.ownCRDs()
	if err != nil {
		return err
	}
	for _, crd := range toInstall {
		if _, err := c.dynamic.Resource(crds).Create(ctx, crd, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating the CRD %s: %w", crd.GetName(), err)
		}
	}
	for _, crd := range toInstall {
		if err := c.waitServed(ctx, crd); err != nil {
			return err
		}
		if err := c.ageEstablished(ctx, crd.GetName()); err != nil {
			return fmt.Errorf("backdating the CRD %s: %w", crd.GetName(), err)
		}
	}
	return nil
}

// ownCRDs reads the definitions that installCRDs applies.
func (c *ControlPlane) ownCRDs() (all []*unstructured.Unstructured, err error) {
	e2e, err := e2eDir()
	if err != nil {
		return nil, err
	}
	for _, pattern := range []string{
		filepath.Join(c.bin, "manifests", "whereabouts", "*.yaml"),
		filepath.Join(c.bin, "manifests", "network-attachment-definition-client", "networks-crd.yaml"),
		filepath.Join(e2e, "..", "deploy", "crds", "*.yaml"),
	} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			found, err := readObjects(file, "CustomResourceDefinition")
			if err != nil {
				return nil, fmt.Errorf("reading %s: %w", file, err)
			}
			all = append(all, found...)
		}
	}
	return all, nil
}

// LeaseNamespace is where node agents renew their Leases.
const LeaseNamespace = "ip-reconcile-node-lease"

// installLeases applies this project's deploy/leases: the namespace of the node agents' Leases, and the permissions in
// it.
func (c *ControlPlane) installLeases(ctx context.Context) error {
	e2e, err := e2eDir()
	if err != nil {
		return err
	}
	file := filepath.Join(e2e, "..", "deploy", "leases", "leases.yaml")
	return errors.Join(c.install(ctx, file, "Namespace", "", "namespaces", ""),
		c.install(ctx, file, "Role", rbac, "roles", ""), c.install(ctx, file, "RoleBinding", rbac, "rolebindings", ""))
}

// installPluginRights grants the plugin's ServiceAccount the rules of whereabouts' manifest, by objects of other names:
// tests apply that manifest themselves.
func (c *ControlPlane) installPluginRights(ctx context.Context) error {
	file := filepath.Join(c.bin, "manifests", "whereabouts", "daemonset-install.yaml")
	return errors.Join(c.install(ctx, file, "ClusterRole", rbac, "clusterroles", "e2e-"),
		c.install(ctx, file, "ClusterRoleBinding", rbac, "clusterrolebindings", "e2e-"))
}

const rbac = "rbac.authorization.k8s.io"

// install creates a file's objects of a kind, under names with a prefix.
func (c *ControlPlane) install(ctx context.Context, file, kind, group, resource, prefix string) error {
	found, err := readObjects(file, kind)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	for _, o := range found {
		o.SetName(prefix + o.GetName())
		if role, bound, _ := unstructured.NestedString(o.Object, "roleRef", "name"); bound {
			_ = unstructured.SetNestedField(o.Object, prefix+role, "roleRef", "name")
		}
		r := schema.GroupVersionResource{Group: group, Version: "v1", Resource: resource}
		if _, err := c.dynamic.Resource(r).Namespace(o.GetNamespace()).Create(ctx, o, metav1.CreateOptions{}); err != nil {
			return fmt.Errorf("creating %s %s of %s: %w", kind, o.GetName(), file, err)
		}
	}
	return nil
}

// readObjects reads the objects of a kind among the documents of a file.
func readObjects(path, kind string) ([]*unstructured.Unstructured, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	all, err := Documents(string(text))
	return slices.DeleteFunc(all, func(o *unstructured.Unstructured) bool { return o.GetKind() != kind }), err
}

// Documents are the objects of a YAML text.
func Documents(text string) (objects []*unstructured.Unstructured, err error) {
	for documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err != nil {
			return nil, err
		}
		if len(o.Object) > 0 {
			objects = append(objects, o)
		}
	}
}

// waitServed waits until every version of a resource can be listed, which is later than the condition Established, and
// until discovery has it, which is later still.
func (c *ControlPlane) waitServed(ctx context.Context, crd *unstructured.Unstructured) error {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	plural, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "plural")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok || version["served"] != true {
			continue
		}
		resource := schema.GroupVersionResource{Group: group, Version: fmt.Sprint(version["name"]), Resource: plural}
		var last error // also of a stream that the server interrupts while it takes over a definition
		err := poll(ctx, func(ctx context.Context) (bool, error) {
			if _, last = c.dynamic.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1}); last == nil {
				_, last = c.client.Discovery().ServerResourcesForGroupVersion(resource.GroupVersion().String())
			}
			return last == nil, nil
		})
		if err != nil {
			return fmt.Errorf("waiting for %s to be served: %w (last answer: %w)", resource, err, last)
		}
	}
	return nil
}

// ageEstablished makes a CRD a minute old. The API server delays creates for two seconds after a CRD was established,
// for the sake of other API servers. There is none, and each test would wait for it.
func (c *ControlPlane) ageEstablished(ctx context.Context, name string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		crd, err := c.dynamic.Resource(crds).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		conditions, _, err := unstructured.NestedSlice(crd.Object, "status", "conditions")
		if err != nil {
			return err
		}
		for _, condition := range conditions {
			condition.(map[string]any)["lastTransitionTime"] = time.Now().Add(-time.Minute).UTC().Format(time.RFC3339)
		}
		if err := unstructured.SetNestedSlice(crd.Object, conditions, "status", "conditions"); err != nil {
			return err
		}
		_, err = c.dynamic.Resource(crds).UpdateStatus(ctx, crd, metav1.UpdateOptions{})
		return err
	})
}
