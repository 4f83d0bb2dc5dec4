package podstate

import (
	"encoding/json"
	"net/netip"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/internal/lean"
)

// GuestResource is the resource of VirtualMachineInstances.
var GuestResource = schema.GroupVersionResource{Group: "kubevirt.io", Version: "v1",
	Resource: "virtualmachineinstances"}

// The labels of a virt-launcher pod (kubevirt, staging/src/kubevirt.io/api/core/v1/types.go). Only the target of a live
// migration has the second one.
const (
	createdByLabel = "kubevirt.io/created-by"
	migrationLabel = "kubevirt.io/migrationJobUID"
)

// MachineLabels are the labels of a pod that are read.
var MachineLabels = []string{createdByLabel, migrationLabel}

// Machine is the virtual machine of a virt-launcher pod.
type Machine struct {
	UID       string // of the VirtualMachineInstance
	Migration string // the UID of the migration whose target the pod is, "" for none
}

// readMachine returns the machine that controls the pod. Its label must name the same UID.
func readMachine(o *corev1.Pod) *Machine {
	owner := metav1.GetControllerOfNoCopy(o)
	if owner == nil || owner.Kind != "VirtualMachineInstance" || owner.UID == "" ||
		!strings.HasPrefix(owner.APIVersion, GuestResource.Group+"/") ||
		o.Labels[createdByLabel] != string(owner.UID) {
		return nil
	}
	return &Machine{UID: string(owner.UID), Migration: o.Labels[migrationLabel]}
}

// AreOneMigration reports whether pods are those of one machine that migrates: a pod on each of several nodes, of which
// each but the first is the target of a migration of its own.
func AreOneMigration(pods []*Pod) bool {
	nodes, migrations := map[string]bool{}, map[string]bool{}
	for _, p := range pods {
		first := pods[0]
		if p == nil || p.Machine == nil || p.Node == "" || p.Namespace != first.Namespace ||
			p.Machine.UID != first.Machine.UID {
			return false
		}
		nodes[p.Node], migrations[p.Machine.Migration] = true, true
	}
	return len(pods) > 1 && len(nodes) == len(pods) && len(migrations) == len(pods)
}

// Guest is a VirtualMachineInstance with the addresses that its status reports for networks of Multus. An interface's
// Network is "<namespace>/<NAD>".
type Guest struct {
	types.NamespacedName
	UID        string
	Interfaces []Interface
	// IsUnread: the status does not report an interface for each network of Multus, so others may have addresses.
	IsUnread bool
}

// DecodeGuests decodes a LIST of VirtualMachineInstances in JSON, and calls each with every one.
func DecodeGuests(body []byte, each func(*Guest)) (metav1.ListMeta, error) {
	return lean.List(body, "VirtualMachineInstance", func(object []byte, _ bool) error {
		g, err := DecodeGuest(object)
		if err == nil {
			each(g)
		}
		return err
	})
}

// DecodeGuest decodes a VirtualMachineInstance in JSON. It drops an interface of the pod network.
func DecodeGuest(text []byte) (*Guest, error) {
	var o struct {
		Metadata struct {
			types.NamespacedName
			UID string
		}
		Spec struct {
			Networks []struct {
				Name   string
				Multus *struct{ NetworkName string }
			}
		}
		Status struct {
			Interfaces []struct {
				Name, IPAddress string
				IPAddresses     []string
			}
		}
	}
	if err := json.Unmarshal(text, &o); err != nil {
		return nil, err
	}
	g := &Guest{NamespacedName: o.Metadata.NamespacedName, UID: o.Metadata.UID}
	networks := map[string]string{}
	for _, n := range o.Spec.Networks {
		if n.Multus == nil {
			continue
		}
		networks[n.Name] = n.Multus.NetworkName
		if !strings.Contains(n.Multus.NetworkName, "/") {
			networks[n.Name] = g.Namespace + "/" + n.Multus.NetworkName
		}
	}
	reported := map[string]bool{}
	for _, i := range o.Status.Interfaces {
		network, isMultus := networks[i.Name]
		reported[i.Name] = true
		if !isMultus {
			continue
		}
		var all []netip.Addr
		for _, ip := range append(i.IPAddresses, i.IPAddress) {
			if a, err := parseAddr(ip); err == nil && len(all) < maxAddresses {
				all = append(all, a)
			}
		}
		g.Interfaces = append(g.Interfaces, Interface{Network: intern(network), Name: i.Name, Addresses: all})
	}
	for name := range networks {
		g.IsUnread = g.IsUnread || !reported[name]
	}
	return g, nil
}
