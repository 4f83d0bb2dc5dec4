package podstate_test

import (
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/ip-reconcile/ip-reconcile/podstate"
)

func TestNetworkStatus(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       podstate.NetworkStatus
		addresses  []string // of all interfaces
	}{
		{"empty", "", podstate.StatusMissing, nil},
		{"white space", " \n\t", podstate.StatusMissing, nil},
		{"an empty list", "[]", podstate.StatusMissing, nil},
		{"null", "null", podstate.StatusMissing, nil},
		{"cut off (A4)", `[{"ips":["10.0.0.5"]`, podstate.StatusUnreadable, nil},
		{"garbage", "not json", podstate.StatusUnreadable, nil},
		{"an object instead of a list", `{"ips":["10.0.0.5"]}`, podstate.StatusUnreadable, nil},
		{"a good list with something behind it", `[{"ips":["10.0.0.5"]}] x`, podstate.StatusUnreadable, nil},
		{"one entry", `[{"name":"default/macvlan","interface":"net1","ips":["10.0.0.5"]}]`, podstate.StatusReadable,
			[]string{"10.0.0.5"}},
		{"an entry without addresses", `[{"name":"default/bridge","interface":"net1"}]`, podstate.StatusReadable, nil},
		{"null for addresses", `[{"name":"default/bridge","ips":null}]`, podstate.StatusReadable, nil},
		{"an empty entry", `[{}]`, podstate.StatusReadable, nil},
		{"fields that are not known", `[{"ips":["10.0.0.5"],"mac":"a:b","dns":{},"later":[1]}]`, podstate.StatusReadable,
			[]string{"10.0.0.5"}},
		{"one bad entry among good ones", `[{"ips":["10.0.0.5"]},"x",{"ips":["10.0.0.6"]}]`, podstate.StatusUnreadable,
			[]string{"10.0.0.5", "10.0.0.6"}},
		{"null among good ones", `[{"ips":["10.0.0.5"]},null]`, podstate.StatusUnreadable, []string{"10.0.0.5"}},
		{"a field of the wrong type", `[{"ips":"10.0.0.5"},{"ips":["10.0.0.6"]}]`, podstate.StatusUnreadable,
			[]string{"10.0.0.6"}},
		{"a name that is no text", `[{"ips":["10.0.0.7"]},{"name":7}]`, podstate.StatusUnreadable, []string{"10.0.0.7"}},
		{"one bad address among good ones", `[{"ips":["10.0.0.5","10.0.0.256","10.0.0.7"]}]`, podstate.StatusUnreadable,
			[]string{"10.0.0.5", "10.0.0.7"}},
		{"names in any case, the last of two", `[{"ips":["10.0.0.4"],"IPs":["10.0.0.5"]}]`, podstate.StatusReadable,
			[]string{"10.0.0.5"}},
		{"null for an address", `[{"ips":[null,"10.0.0.5"]}]`, podstate.StatusUnreadable, []string{"10.0.0.5"}},
		{"129 addresses", `[{"ips":[` + strings.Repeat(`"10.0.0.5",`, 128) + `"10.0.0.5"]}]`, podstate.StatusUnreadable,
			slices.Repeat([]string{"10.0.0.5"}, 128)},
		{"65 entries without any", "[" + strings.Repeat("{},", 64) + "{}]", podstate.StatusUnreadable, nil},
		{"an empty address", `[{"ips":[""]}]`, podstate.StatusUnreadable, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := podstate.ReadPod(pod(status(c.text)))
			equal(t, "status", p.Status, c.want)
			var got []string
			for _, i := range p.Interfaces {
				for _, a := range i.Addresses {
					got = append(got, a.String())
				}
			}
			if len(got) != len(c.addresses) {
				t.Fatalf("addresses %v; want %v", got, c.addresses)
			}
			for i := range got {
				equal(t, "address", got[i], c.addresses[i])
			}
		})
	}
}

// A7: addresses are compared as addresses in any spelling.
func TestNetworkStatus_SpellingsOfAddresses(t *testing.T) {
	for text, want := range map[string]string{
		"10.0.0.5":    "10.0.0.5",
		"10.0.0.5/24": "10.0.0.5",
		" 10.0.0.5 ":  "10.0.0.5",
		"2001:DB8::A": "2001:db8::a",
		"2001:0db8:0000:0000:0000:0000:0000:000a": "2001:db8::a",
		"2001:db8::a/64":     "2001:db8::a",
		"::ffff:10.0.0.5":    "10.0.0.5",
		"::ffff:a00:5":       "10.0.0.5",
		"fe80::1%eth0":       "fe80::1",
		"2001:db8::10.0.0.5": "2001:db8::a00:5",
	} {
		p := podstate.ReadPod(pod(status(`[{"ips":["` + text + `"]}]`)))
		if p.Status != podstate.StatusReadable || len(p.Interfaces) != 1 {
			t.Errorf("%q: status %v, %d interfaces", text, p.Status, len(p.Interfaces))
			continue
		}
		sameAddrs(t, text, p.Interfaces[0].Addresses, want)
	}
}

// A6: the default network counts like any other.
func TestNetworkStatus_Interfaces(t *testing.T) {
	p := podstate.ReadPod(pod(status(`[
		{"name":"cbr0","interface":"eth0","ips":["192.168.0.9"],"default":true,"dns":{}},
		{"name":"default/macvlan","interface":"net1","ips":["10.0.0.5","fd00::5"]}]`)))
	if len(p.Interfaces) != 2 {
		t.Fatalf("%d interfaces", len(p.Interfaces))
	}
	first, second := p.Interfaces[0], p.Interfaces[1]
	equal(t, "default", first.Default, true)
	equal(t, "network", first.Network, "cbr0")
	equal(t, "interface", first.Name, "eth0")
	sameAddrs(t, "addresses of the default network", first.Addresses, "192.168.0.9")
	equal(t, "default", second.Default, false)
	equal(t, "interface", second.Name, "net1")
	sameAddrs(t, "addresses", second.Addresses, "10.0.0.5", "fd00::5")
}

func TestInterface_NAD(t *testing.T) {
	for _, c := range []struct {
		network, namespace, name string
		ok                       bool
	}{
		{"default/macvlan", "default", "macvlan", true},
		{"macvlan", "", "", false},
		{"", "", "", false},
		{"/macvlan", "", "", false},
		{"default/", "", "", false},
	} {
		namespace, name, ok := podstate.Interface{Network: c.network}.NAD()
		if ok != c.ok || ok && (namespace != c.namespace || name != c.name) {
			t.Errorf("%q names %q/%q, %v", c.network, namespace, name, ok)
		}
	}
}

// Multus before version 4 wrote networks-status, for a while in addition.
func TestNetworkStatus_OldAnnotation(t *testing.T) {
	const old = `[{"ips":["10.0.0.4"]}]`
	for _, c := range []struct{ name, text, want string }{
		{"no new one", "", "10.0.0.4"},
		{"a new one", `[{"ips":["10.0.0.5"]}]`, "10.0.0.5"},
	} {
		p := podstate.ReadPod(pod(status(c.text),
			func(o *corev1.Pod) { o.Annotations["k8s.v1.cni.cncf.io/networks-status"] = old }))
		if p.Status != podstate.StatusReadable || len(p.Interfaces) != 1 {
			t.Fatalf("%s: status %v", c.name, p.Status)
		}
		sameAddrs(t, c.name, p.Interfaces[0].Addresses, c.want)
	}
	p := podstate.ReadPod(pod(status("garbage"),
		func(o *corev1.Pod) { o.Annotations["k8s.v1.cni.cncf.io/networks-status"] = old }))
	equal(t, "a new one that cannot be read is not mended by the old", p.Status, podstate.StatusUnreadable)
}
