package reconciler

import (
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Whether an address is on the pod is seen by the verdict: a live pod whose
// sandbox is in no report keeps what it carries, and nothing else.
var (
	carried    = outcome{judge.InUse, judge.AddressOnPod, false, judge.Absent}
	notCarried = outcome{judge.Stale, judge.AddressNotOnPod, false, judge.Absent}
	notKnown   = outcome{judge.Held, judge.NetworkStatusMissing, false, judge.Absent}
)

func TestTheAddressIsOnThePod(t *testing.T) {
	v6 := func(key string) part {
		return aPool("2001-db8---64", "2001:db8::/64", alloc{key, "default/web-0", "box-1", "net1"})
	}
	for _, c := range []struct {
		says string
		want outcome
		ip   string // of the allocation, 10.0.0.5 if empty
		pool part
		pod  part
	}{
		{"in the entry of an attached network", carried, "", usualPool, web(carrying("10.0.0.5"))},
		{"in the default network's entry", carried, "", usualPool,
			web(status(`[{"name":"default/macvlan","interface":"eth0","ips":["10.0.0.5"],"default":true}]`))},
		{"in a default network's entry that names no definition", carried, "", usualPool,
			web(status(`[{"name":"cbr0","interface":"eth0","ips":["10.0.0.5"],"default":true}]`))},
		{"among the podIPs", carried, "", usualPool, web(podIPs("10.244.0.9", "10.0.0.5"))},
		{"among the podIPs, without any network-status", carried, "", usualPool, web(noStatusAtAll, podIPs("10.0.0.5"))},
		{"the second address of an entry", carried, "", usualPool, web(status(`[{"name":"default/wb","interface":"net1","ips":["2001:db8::1","10.0.0.5"]}]`))},
		{"another address that begins alike", notCarried, "", usualPool, web(carrying("10.0.0.50"))},
		{"no address at all in a status that can be read", notCarried, "", usualPool, web(status(`[{"name":"default/wb","interface":"net1"}]`))},
		{"v4-mapped", carried, "", usualPool, web(carrying("::ffff:10.0.0.5"))},
		{"v4-mapped, in hexadecimal, among the podIPs", carried, "", usualPool, web(podIPs("::ffff:a00:5"))},
		{"another spelling of IPv6", carried, "2001:db8::a", v6("10"), web(carrying("2001:DB8:0:0::000A"))},
		{"another address of the IPv6 pool", notCarried, "2001:db8::a", v6("10"), web(carrying("2001:db8::b"))},
		{"a key with leading zeros", carried, "2001:db8::a", v6("0010"), web(carrying("2001:db8::a"))},
		{"a negative key, the upper half of a /64", carried, "2001:db8::ffff:ffff:ffff:fff1", v6("-15"), web(carrying("2001:db8::ffff:ffff:ffff:fff1"))},
		{"the same upper half, written unsigned", carried, "2001:db8::ffff:ffff:ffff:fff1", v6("18446744073709551601"), web(carrying("2001:db8::ffff:ffff:ffff:fff1"))},
		{"a range written with a host address: the key counts from there", carried, "10.10.10.6",
			aPool("10.10.10.5-16", "10.10.10.5/16", alloc{"1", "default/web-0", "box-1", "net1"}), web(carrying("10.10.10.6"))},
		{"a range written with a host address: the key does not count from the mask", notCarried, "10.10.10.6",
			aPool("10.10.10.5-16", "10.10.10.5/16", alloc{"1", "default/web-0", "box-1", "net1"}), web(carrying("10.10.0.1"))},
		{"a range wider than /64: any address with that key", carried, "193::2",
			aPool("193---24", "193::/24", alloc{"2", "default/web-0", "box-1", "net1"}), web(carrying("193:21:4::2"))},
		{"a range wider than /64: the address that reads back", carried, "193::2",
			aPool("193---24", "193::/24", alloc{"2", "default/web-0", "box-1", "net1"}), web(podIPs("193::2"))},
		{"a range wider than /64: an address with another key", notCarried, "193::2",
			aPool("193---24", "193::/24", alloc{"2", "default/web-0", "box-1", "net1"}), web(carrying("193:21:4::3"))},
		{"a range wider than /64: that key in another range", notCarried, "193::2",
			aPool("193---24", "193::/24", alloc{"2", "default/web-0", "box-1", "net1"}), web(carrying("2001:db8::2"))},
		{"a /64: the same low half elsewhere is another address", notCarried, "2001:db8::2", v6("2"), web(carrying("2001:db9::2"))},
	} {
		t.Run(c.says, func(t *testing.T) {
			ip := c.ip
			if ip == "" {
				ip = "10.0.0.5"
			}
			if got := outcomeOf(allocation(t, judged(observe(c.pool, c.pod, onWorker()), judge.Policy{}), ip)); got != c.want {
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
			expect(t, notKnown, usualPool, web(status(text)), onWorker())
			expect(t, outcome{judge.Held, judge.NetworkStatusMissing, false, judge.NoSource}, usualPool, web(status(text)), aNode("worker-1"))
		})
	}
}

// The addresses of a finished pod stay in its status on purpose.
func TestAFinishedPodCarriesNothing(t *testing.T) {
	done := outcome{judge.Stale, judge.PodFinished, false, judge.Absent}
	expect(t, done, usualPool, web(phaseIs("Succeeded"), carrying("10.0.0.5"), podIPs("10.0.0.5")), onWorker())
	expect(t, outcome{judge.Stale, judge.PodFinished, true, judge.Gone}, usualPool, web(phaseIs("Failed"), carrying("10.0.0.5"), podIPs("10.0.0.5")), onWorker(gone("box-1", its1)))
}

// An interface of another network does not count, where that other network's
// own pool vouches for it with an entry of its own.
func TestAnInterfaceOfAnotherPool(t *testing.T) {
	red := aPool("red-10.0.0.0-24", "10.0.0.0/24", alloc{"5", "default/web-0", "box-2", "net1"})
	redWith := func(a alloc) part { return aPool("red-10.0.0.0-24", "10.0.0.0/24", a) }
	carrier := web(carrying("10.0.0.5"))
	of := func(config string) part { return aNAD("wb", config) }
	for _, c := range []struct {
		says  string
		want  outcome
		parts []part
	}{
		{"its definition is of the other pool, which has the entry", notCarried, []part{carrier, red, of(whereabouts("10.0.0.0/24", "red"))}},
		{"its definition was edited: no other pool has such an entry", carried, []part{carrier, of(whereabouts("10.0.0.0/24", "red"))}},
		{"its definition was edited to another range", carried, []part{carrier, of(whereabouts("10.9.0.0/24", ""))}},
		{"its definition is of this pool", carried, []part{carrier, red, of(whereabouts("10.0.0.0/24", ""))}},
		{"its definition is of both pools", carried, []part{carrier, red,
			of(`{"plugins":[{"ipam":{"type":"whereabouts","range":"10.0.0.0/24"}},{"ipam":{"type":"whereabouts","range":"10.0.0.0/24","network_name":"red"}}]}`)}},
		{"its definition is gone", carried, []part{carrier, red}},
		{"its definition cannot be read", carried, []part{carrier, red, of(`{"ipam":{`)}},
		{"its definition is configured on the nodes", carried, []part{carrier, red, of("")}},
		{"its definition uses another IPAM", carried, []part{carrier, red, of(`{"type":"macvlan","ipam":{"type":"static"}}`)}},
		{"its network names no definition", carried, []part{web(attached("wb", "net1", "10.0.0.5")), red, of(whereabouts("10.0.0.0/24", "red"))}},
		{"the other pool's entry is another pod's", carried,
			[]part{carrier, redWith(alloc{"5", "default/web-1", "box-2", "net1"}), of(whereabouts("10.0.0.0/24", "red"))}},
		{"the other pool's entry is another interface's", carried,
			[]part{carrier, redWith(alloc{"5", "default/web-0", "box-2", "net2"}), of(whereabouts("10.0.0.0/24", "red"))}},
		{"the other pool's entry is of before there were interfaces", carried,
			[]part{carrier, redWith(alloc{"5", "default/web-0", "box-2", ""}), of(whereabouts("10.0.0.0/24", "red"))}},
		{"the other pool's entry is another address", carried,
			[]part{carrier, redWith(alloc{"6", "default/web-0", "box-2", "net1"}), of(whereabouts("10.0.0.0/24", "red"))}},
		{"the other pool has the entry, and the podIPs have the address too", carried,
			[]part{web(carrying("10.0.0.5"), podIPs("10.0.0.5")), red, of(whereabouts("10.0.0.0/24", "red"))}},
		{"a second interface, of this pool, has it too", carried, []part{
			web(status(`[{"name":"default/wb","interface":"net1","ips":["10.0.0.5"]},{"name":"default/plain","interface":"net2","ips":["10.0.0.5"]}]`)), red,
			of(whereabouts("10.0.0.0/24", "red")), aNAD("plain", whereabouts("10.0.0.0/24", ""))}},
		// The ifname in the rule is the interface's, not this entry's.
		{"this entry is of another interface than the one that carries it", notCarried, []part{
			web(attached("default/wb", "net2", "10.0.0.5")), redWith(alloc{"5", "default/web-0", "box-2", "net2"}), of(whereabouts("10.0.0.0/24", "red"))}},
	} {
		t.Run(c.says, func(t *testing.T) {
			j := judged(observe(append([]part{usualPool, onWorker()}, c.parts...)...), judge.Policy{})
			for _, it := range j.Allocations {
				if it.Pool.Name != "10.0.0.0-24" {
					continue
				}
				if got := outcomeOf(it); got != c.want {
					t.Errorf("got  %v\nwant %v", got, c.want)
				}
			}
		})
	}
	t.Run("the entry of the pool whose interface it is stays", func(t *testing.T) {
		j := judged(observe(usualPool, red, carrier, of(whereabouts("10.0.0.0/24", "red")), onWorker()), judge.Policy{})
		for _, it := range j.Allocations {
			if it.Pool.Name == "red-10.0.0.0-24" && it.Reason != judge.AddressOnPod {
				t.Errorf("got %v", outcomeOf(it))
			}
		}
	})
}

// The range of a definition is compared as a network, not as a text.
func TestMapsToComparesMaskedNetworks(t *testing.T) {
	carrier := web(carrying("10.0.0.5"))
	red := func(cidr string) part {
		return aPool("red-10.0.0.0-24", cidr, alloc{"5", "default/web-0", "box-2", "net1"})
	}
	for _, text := range []string{"10.0.0.0/24", "10.0.0.77/24", "10.0.0.5-10.0.0.9/24"} {
		j := judged(observe(usualPool, red("10.0.0.0/24"), carrier, aNAD("wb", whereabouts(text, "red")), onWorker()), judge.Policy{})
		if it := j.Allocations[0]; it.Reason != judge.AddressNotOnPod {
			t.Errorf("range %s: %v", text, outcomeOf(it))
		}
	}
}
