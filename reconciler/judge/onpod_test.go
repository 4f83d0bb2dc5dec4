package judge_test

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judge/judgetest"
)

// Whether an address is on the pod is seen by the verdict: a live pod whose
// sandbox is in no report keeps what it carries, and nothing else.
var (
	carried    = Want(judge.InUse, judge.AddressOnPod, false, judge.Absent)
	notCarried = Want(judge.Stale, judge.AddressNotOnPod, false, judge.Absent)
	notKnown   = Want(judge.Held, judge.NetworkStatusMissing, false, judge.Absent)
)

func TestTheAddressIsOnThePod(t *testing.T) {
	v6 := func(key string) Part {
		return Pool("2001-db8---64", "2001:db8::/64", Alloc(key, "default/web-0", "box-1", "net1"))
	}
	for _, c := range []struct {
		says string
		want Outcome
		ip   string // of the allocation, 10.0.0.5 if empty
		pool Part
		pod  Part
	}{
		{"in the entry of an attached network", carried, "", UsualPool, UsualPod(Carrying("10.0.0.5"))},
		{"in the default network's entry", carried, "", UsualPool,
			UsualPod(NetworkStatus(`[{"name":"default/macvlan","interface":"eth0","ips":["10.0.0.5"],"default":true}]`))},
		{"in a default network's entry that names no definition", carried, "", UsualPool,
			UsualPod(NetworkStatus(`[{"name":"cbr0","interface":"eth0","ips":["10.0.0.5"],"default":true}]`))},
		{"among the podIPs", carried, "", UsualPool, UsualPod(PodIPs("10.244.0.9", "10.0.0.5"))},
		{"among the podIPs, without any network-status", carried, "", UsualPool, UsualPod(NoNetworkStatus, PodIPs("10.0.0.5"))},
		{"the second address of an entry", carried, "", UsualPool, UsualPod(NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["2001:db8::1","10.0.0.5"]}]`))},
		{"another address that begins alike", notCarried, "", UsualPool, UsualPod(Carrying("10.0.0.50"))},
		{"no address at all in a status that can be read", notCarried, "", UsualPool, UsualPod(NetworkStatus(`[{"name":"default/wb","interface":"net1"}]`))},
		{"v4-mapped", carried, "", UsualPool, UsualPod(Carrying("::ffff:10.0.0.5"))},
		{"v4-mapped, in hexadecimal, among the podIPs", carried, "", UsualPool, UsualPod(PodIPs("::ffff:a00:5"))},
		{"another spelling of IPv6", carried, "2001:db8::a", v6("10"), UsualPod(Carrying("2001:DB8:0:0::000A"))},
		{"another address of the IPv6 pool", notCarried, "2001:db8::a", v6("10"), UsualPod(Carrying("2001:db8::b"))},
		{"a key with leading zeros", carried, "2001:db8::a", v6("0010"), UsualPod(Carrying("2001:db8::a"))},
		{"a negative key, the upper half of a /64", carried, "2001:db8::ffff:ffff:ffff:fff1", v6("-15"), UsualPod(Carrying("2001:db8::ffff:ffff:ffff:fff1"))},
		{"the same upper half, written unsigned", carried, "2001:db8::ffff:ffff:ffff:fff1", v6("18446744073709551601"), UsualPod(Carrying("2001:db8::ffff:ffff:ffff:fff1"))},
		{"a range written with a host address: the key counts from there", carried, "10.10.10.6",
			Pool("10.10.10.5-16", "10.10.10.5/16", Alloc("1", "default/web-0", "box-1", "net1")), UsualPod(Carrying("10.10.10.6"))},
		{"a range written with a host address: the key does not count from the mask", notCarried, "10.10.10.6",
			Pool("10.10.10.5-16", "10.10.10.5/16", Alloc("1", "default/web-0", "box-1", "net1")), UsualPod(Carrying("10.10.0.1"))},
		{"a range wider than /64: any address with that key", carried, "193::2",
			Pool("193---24", "193::/24", Alloc("2", "default/web-0", "box-1", "net1")), UsualPod(Carrying("193:21:4::2"))},
		{"a range wider than /64: the address that reads back", carried, "193::2",
			Pool("193---24", "193::/24", Alloc("2", "default/web-0", "box-1", "net1")), UsualPod(PodIPs("193::2"))},
		{"a range wider than /64: an address with another key", notCarried, "193::2",
			Pool("193---24", "193::/24", Alloc("2", "default/web-0", "box-1", "net1")), UsualPod(Carrying("193:21:4::3"))},
		{"a range wider than /64: that key in another range", notCarried, "193::2",
			Pool("193---24", "193::/24", Alloc("2", "default/web-0", "box-1", "net1")), UsualPod(Carrying("2001:db8::2"))},
		{"a /64: the same low half elsewhere is another address", notCarried, "2001:db8::2", v6("2"), UsualPod(Carrying("2001:db9::2"))},
	} {
		t.Run(c.says, func(t *testing.T) {
			ip := c.ip
			if ip == "" {
				ip = "10.0.0.5"
			}
			if got := OutcomeOf(AllocationOf(t, Judged(Observe(c.pool, c.pod, ReportingWorker()), judge.Policy{}), ip)); got != c.want {
				t.Errorf("got  %v\nwant %v", got, c.want)
			}
		})
	}
}

// A status of which anything cannot be read is no proof that an address is not
// there.
func TestNetworkStatusThatCannotBeRead(t *testing.T) {
	for says, text := range map[string]string{
		"cut off":                            `[{"name":"default/wb","interface":"net1","ips":["10.0.0.7"]`,
		"not a list":                         `{"name":"default/wb","interface":"net1","ips":["10.0.0.7"]}`,
		"one address of it":                  `[{"name":"default/wb","interface":"net1","ips":["10.0.0.7","10.0.0"]}]`,
		"one entry of it":                    `[{"name":"default/wb","interface":"net1","ips":["10.0.0.7"]},{"name":7}]`,
		"one entry of it is null":            `[{"name":"default/wb","interface":"net1","ips":["10.0.0.7"]},null]`,
		"the addresses of it are not a list": `[{"name":"default/wb","interface":"net1","ips":"10.0.0.7"}]`,
		"an address of it is empty":          `[{"name":"default/wb","interface":"net1","ips":[""]}]`,
	} {
		t.Run(says, func(t *testing.T) {
			Expect(t, notKnown, UsualPool, UsualPod(NetworkStatus(text)), ReportingWorker())
			Expect(t, Want(judge.Held, judge.NetworkStatusMissing, false, judge.NoSource), UsualPool, UsualPod(NetworkStatus(text)), Node("worker-1"))
		})
	}
}

// The addresses of a finished pod stay in its status on purpose.
func TestAFinishedPodCarriesNothing(t *testing.T) {
	done := Want(judge.Stale, judge.PodFinished, false, judge.Absent)
	Expect(t, done, UsualPool, UsualPod(Phase("Succeeded"), Carrying("10.0.0.5"), PodIPs("10.0.0.5")), ReportingWorker())
	Expect(t, Want(judge.Stale, judge.PodFinished, true, judge.Gone), UsualPool, UsualPod(Phase("Failed"), Carrying("10.0.0.5"), PodIPs("10.0.0.5")), ReportingWorker(Gone("box-1", UsualUID)))
}

// An interface of another network does not count, where that other network's
// own pool vouches for it with an entry of its own.
func TestAnInterfaceOfAnotherPool(t *testing.T) {
	red := Pool("red-10.0.0.0-24", "10.0.0.0/24", Alloc("5", "default/web-0", "box-2", "net1"))
	redWith := func(a Allocation) Part { return Pool("red-10.0.0.0-24", "10.0.0.0/24", a) }
	carrier := UsualPod(Carrying("10.0.0.5"))
	of := func(config string) Part { return NAD("wb", config) }
	for _, c := range []struct {
		says  string
		want  Outcome
		parts []Part
	}{
		{"its definition is of the other pool, which has the entry", notCarried, []Part{carrier, red, of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"its definition was edited: no other pool has such an entry", carried, []Part{carrier, of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"its definition was edited to another range", carried, []Part{carrier, of(WhereaboutsConfig("10.9.0.0/24", ""))}},
		{"its definition is of this pool", carried, []Part{carrier, red, of(WhereaboutsConfig("10.0.0.0/24", ""))}},
		{"its definition is of both pools", carried, []Part{carrier, red,
			of(`{"plugins":[{"ipam":{"type":"whereabouts","range":"10.0.0.0/24"}},{"ipam":{"type":"whereabouts","range":"10.0.0.0/24","network_name":"red"}}]}`)}},
		{"its definition is gone", carried, []Part{carrier, red}},
		{"its definition cannot be read", carried, []Part{carrier, red, of(`{"ipam":{`)}},
		{"its definition is configured on the nodes", carried, []Part{carrier, red, of("")}},
		{"its definition uses another IPAM", carried, []Part{carrier, red, of(`{"type":"macvlan","ipam":{"type":"static"}}`)}},
		{"its network names no definition", carried, []Part{UsualPod(CarryingOn("wb", "net1", "10.0.0.5")), red, of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the other pool's entry is another pod's", carried,
			[]Part{carrier, redWith(Alloc("5", "default/web-1", "box-2", "net1")), of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the other pool's entry is another interface's", carried,
			[]Part{carrier, redWith(Alloc("5", "default/web-0", "box-2", "net2")), of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the other pool's entry is of before there were interfaces", carried,
			[]Part{carrier, redWith(Alloc("5", "default/web-0", "box-2", "")), of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the other pool's entry is another address", carried,
			[]Part{carrier, redWith(Alloc("6", "default/web-0", "box-2", "net1")), of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"the other pool has the entry, and the podIPs have the address too", carried,
			[]Part{UsualPod(Carrying("10.0.0.5"), PodIPs("10.0.0.5")), red, of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
		{"a second interface, of this pool, has it too", carried, []Part{
			UsualPod(NetworkStatus(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]},{"name":"default/plain","interface":"net2","ips":["10.0.0.5"]}]`)), red,
			of(WhereaboutsConfig("10.0.0.0/24", "red")), NAD("plain", WhereaboutsConfig("10.0.0.0/24", ""))}},
		// The ifname in the rule is the interface's, not this entry's.
		{"this entry is of another interface than the one that carries it", notCarried, []Part{
			UsualPod(CarryingOn("default/wb", "net2", "10.0.0.5")), redWith(Alloc("5", "default/web-0", "box-2", "net2")), of(WhereaboutsConfig("10.0.0.0/24", "red"))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			j := Judged(Observe(append([]Part{UsualPool, ReportingWorker()}, c.parts...)...), judge.Policy{})
			for _, it := range j.Allocations {
				if it.Pool.Name != "10.0.0.0-24" {
					continue
				}
				if got := OutcomeOf(it); got != c.want {
					t.Errorf("got  %v\nwant %v", got, c.want)
				}
			}
		})
	}
	t.Run("the entry of the pool whose interface it is stays", func(t *testing.T) {
		j := Judged(Observe(UsualPool, red, carrier, of(WhereaboutsConfig("10.0.0.0/24", "red")), ReportingWorker()), judge.Policy{})
		for _, it := range j.Allocations {
			if it.Pool.Name == "red-10.0.0.0-24" && it.Reason != judge.AddressOnPod {
				t.Errorf("got %v", OutcomeOf(it))
			}
		}
	})
}

// The range of a definition is compared as a network, not as a text.
func TestMapsToComparesMaskedNetworks(t *testing.T) {
	carrier := UsualPod(Carrying("10.0.0.5"))
	red := func(cidr string) Part {
		return Pool("red-10.0.0.0-24", cidr, Alloc("5", "default/web-0", "box-2", "net1"))
	}
	for _, text := range []string{"10.0.0.0/24", "10.0.0.77/24", "10.0.0.5-10.0.0.9/24"} {
		j := Judged(Observe(UsualPool, red("10.0.0.0/24"), carrier, NAD("wb", WhereaboutsConfig(text, "red")), ReportingWorker()), judge.Policy{})
		if it := j.Allocations[0]; it.Reason != judge.AddressNotOnPod {
			t.Errorf("range %s: %v", text, OutcomeOf(it))
		}
	}
}
