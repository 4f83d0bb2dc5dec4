package podstate_test

import (
	"fmt"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

// guest is a VirtualMachineInstance after a live migration, whose guest kept the address of its first pod. It is
// recorded from KubeVirt's user guide (network/interfaces_and_networks.md) and its types (VirtualMachineInstance in
// staging/src/kubevirt.io/api/core/v1/types.go; kubevirt issue 13709).
const guest = `{"apiVersion":"kubevirt.io/v1","kind":"VirtualMachineInstance",
"metadata":{"name":"vm-1","namespace":"vms","uid":"vmi-1"},
"spec":{"domain":{"devices":{"interfaces":[{"name":"default","masquerade":{}},{"name":"storage","bridge":{}}]}},
"networks":[{"name":"default","pod":{}},{"name":"storage","multus":{"networkName":"wb"}},
{"name":"other","multus":{"networkName":"nets/blue"}}]},
"status":{"activePods":{"uid-b":"worker-2"},"interfaces":[
{"name":"default","ipAddress":"10.244.1.7","ipAddresses":["10.244.1.7"],"infoSource":"domain, guest-agent"},
{"name":"storage","interfaceName":"eth1","ipAddress":"10.0.0.5","ipAddresses":["10.0.0.5","fd00::5/64","fe80::1%eth1"],
"mac":"02:00:00:00:00:01","infoSource":"domain, guest-agent, multus-status"},
{"name":"other","ipAddress":""},{"interfaceName":"docker0","ipAddress":"172.17.0.1"}]}}`

func TestDecodeGuest(t *testing.T) {
	g, err := podstate.DecodeGuest([]byte(guest))
	if err != nil {
		t.Fatal(err)
	}
	want := "{vms/vm-1 [{vms/wb storage false [10.0.0.5 fd00::5 fe80::1 10.0.0.5]} {nets/blue other false []}]}"
	if got := fmt.Sprintf("{%s %v}", g, g.Interfaces); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	var names []string
	list := `{"kind":"VirtualMachineInstanceList","metadata":{"resourceVersion":"7"},"items":[` + guest +
		`,{"metadata":{"name":"new","namespace":"vms"}}]}`
	_, err = podstate.DecodeGuests([]byte(list), func(g *podstate.Guest) { names = append(names, g.String()) })
	if err != nil || fmt.Sprint(names) != "[vms/vm-1 vms/new]" {
		t.Errorf("a list: %v, %v", names, err)
	}
	if _, err := podstate.DecodeGuest([]byte(`{"metadata":{"name":7}}`)); err == nil {
		t.Error("a name that is no text is no error")
	}
}
