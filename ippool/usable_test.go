package ippool_test

import (
	"encoding/json"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/k8snetworkplumbingwg/whereabouts/pkg/allocate"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/config"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/storage/kubernetes"
	"github.com/k8snetworkplumbingwg/whereabouts/pkg/types"
	"go4.org/netipx"
	"pgregory.net/rapid"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

func TestWhatWhereaboutsRefusesIsSaidAndIsStillANetwork(t *testing.T) {
	for _, c := range []struct{ name, ipam, says string }{
		{"an exclude that is nothing", `"range":"10.0.0.0/24","exclude":["10.0.0.300"]`, `exclude "10.0.0.300"`},
		{"an exclude that is no text", `"range":"10.0.0.0/24","exclude":[5]`, `exclude "5"`},
		{"a first address outside", `"range":"10.0.1.5-10.0.0.9/24"`, `"10.0.1.5" is not an address of 10.0.0.0/24`},
		{"a first address that is none", `"range":"x-10.0.0.9/24"`, `"x" is not an address`},
		{"a gateway that is none", `"range":"10.0.0.0/24","gateway":"10.0.0"`, `gateway "10.0.0" is not an address`},
		{"a gateway that is no text", `"range":"10.0.0.0/24","gateway":5`, `gateway "5" is not an address`},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := nadOf(`{"ipam":{"type":"whereabouts",` + c.ipam + `}}`)
			if n.Problem != "" || len(n.Networks) != 1 || len(n.Networks[0].Ranges) != 1 {
				t.Fatalf("%+v", n)
			}
			if !strings.Contains(n.Networks[0].Refused, c.says) {
				t.Errorf("refused: %q, want %q in it", n.Networks[0].Refused, c.says)
			}
		})
	}
	routed := nadOf(`{"ipam":{"type":"whereabouts","range":"10.0.0.0/24","gateway":"10.0.0.001"}}`)
	equal(t, "a gateway", routed.Networks[0].Gateway, netip.MustParseAddr("10.0.0.1"))
	equal(t, "refused for a range_start that is none",
		nadOf(`{"ipam":{"type":"whereabouts","range":"10.0.0.0/24","range_start":"x"}}`).Networks[0].Refused, "")
}

// whereabouts reads each definition, too. With a first range that is read, it is refused by both or by neither.
func TestNetwork_RefusedAsByWhereabouts(t *testing.T) {
	flat := filepath.Join(t.TempDir(), "whereabouts.conf")
	check(t, os.WriteFile(flat, []byte("{}"), 0o600))
	for _, ipam := range []string{
		`"range":"10.9.0.0/24"`,
		`"range":"010.9.0.0/24"`,
		`"range":"10.9.0.010-010.9.0.0/24"`,
		`"range":"10.9.0.0/24","range_start":"10.9.0.50/24"`,
		`"range":"10.9.0.0/24","range_start":"10.9.0.050","range_end":"x"`,
		`"ipRanges":[{"range":"10.9.0.0/24","range_start":"10.9.0.50"}]`,
		`"ipRanges":[{"range":"10.9.0.0/24","range_start":"","range_end":null}]`,
		`"ipRanges":[{"range":"10.9.0.0/24","range_start":"10.9.0.50/24"}]`,
		`"ipRanges":[{"range":"10.9.0.0/24","range_start":"10.9.0.050"}]`,
		`"ipRanges":[{"range":"10.9.0.0/24","range_end":"x"}]`,
		`"ipRanges":[{"range":"10.9.0.5-10.9.0.9/24","range_end":"x"}]`,
		`"range":"10.9.0.0/24","ipRanges":[{"range":"10.8.0.0/24","range_end":"x"}]`,
		`"range":"10.9.0.0/24","addresses":[{"address":"10.9.0.5/24"}]`,
		`"range":"10.9.0.0/24","addresses":[{"address":"10.9.0.5"}]`,
		`"range":"10.9.0.0/24","addresses":[{"address":"10.9.0.5/24","gateway":"x"}]`,
		`"range":"10.9.0.0/24","addresses":"10.9.0.5/24"`,
		`"range":"10.9.0.0/24","routes":[{"dst":"10.8.0.0/16","gw":"10.9.0.1"},null,{}]`,
		`"range":"10.9.0.0/24","routes":[{"dst":"x"}]`,
		`"range":"10.9.0.0/24","routes":[{"dst":""}]`,
		`"range":"10.9.0.0/24","routes":[{"dst":"010.8.0.0/16"}]`,
		`"range":"10.9.0.0/24","routes":[{"dst":"10.8.0.0/16","gw":"x"}]`,
		`"range":"10.9.0.0/24","routes":[{"dst":"10.8.0.0/16","mtu":"1500"}]`,
		`"range":"10.9.0.0/24","dns":{"nameservers":["10.9.0.1"]}`,
		`"range":"10.9.0.0/24","dns":{"nameservers":"10.9.0.1"}`,
		`"range":"10.9.0.0/24","leader_lease_duration":1500,"log_level":"debug"`,
		`"range":"10.9.0.0/24","leader_lease_duration":"1500"`,
		`"range":"10.9.0.0/24","leader_renew_deadline":1.5`,
		`"range":"10.9.0.0/24","leader_retry_period":"500"`,
		`"range":"10.9.0.0/24","sleep_for_race":"0"`,
		`"range":"10.9.0.0/24","log_file":5`,
		`"range":"10.9.0.0/24","gateway":"10.9.0.1/24"`,
		`"range":"10.9.0.0/24","gateway":""`,
		`"range":"10.9.0.0/24","exclude":[5]`,
	} {
		text := `{"cniVersion":"0.3.1","name":"net","type":"macvlan","ipam":{"type":"whereabouts",` +
			`"kubernetes":{"kubeconfig":"/etc/x"},` + ipam + `}}`
		_, _, err := config.LoadIPAMConfig([]byte(text), "", flat)
		n := nadOf(text)
		if n.Problem != "" || len(n.Networks) != 1 || !n.Networks[0].Ranges[0].IsValid() {
			t.Errorf("%s is not read: %+v", ipam, n)
		} else if refused := n.Networks[0].Refused; (refused != "") != (err != nil) {
			t.Errorf("%s: refused %q, by whereabouts %v", ipam, refused, err)
		}
	}
}

func TestADefinitionAssignsFromThePoolThatItNames(t *testing.T) {
	plain := `"range":"10.0.0.0/16"`
	for _, c := range []struct {
		ipam, name, poolRange string
		node                  string
		want                  bool
	}{
		{plain, "10.0.0.0-16", "10.0.0.0/16", "", true},
		{`"range":"10.0.3.4/16"`, "10.0.0.0-16", "10.0.0.0/16", "", true},
		{plain, "blue-10.0.0.0-16", "10.0.0.0/16", "", false},
		{plain, "10.0.3.4-16", "10.0.3.4/16", "", false}, // whereabouts before 0.6 named it so
		{plain + `,"network_name":"blue"`, "blue-10.0.0.0-16", "10.0.0.0/16", "", true},
		{plain + `,"network_name":"blue"`, "10.0.0.0-16", "10.0.0.0/16", "", false},
		{plain, "10.0.0.0-24", "10.0.0.0/24", "", false},
		{plain, "10.0.0.0-16", "x", "", false},
		{`"range":"fd00::/64"`, "fd00---64", "fd00::/64", "", true},
		{plain + `,"node_slice_size":"/24"`, "10.0.0.0-16", "10.0.0.0/16", "", false},
		{plain + `,"node_slice_size":"/24"`, "w-1-10.0.5.0-24", "10.0.5.0/24", "w-1", true},
		{plain + `,"node_slice_size":"24"`, "w-1-10.0.5.0-24", "10.0.5.0/24", "w-1", true},
		{plain + `,"node_slice_size":"/25"`, "w-1-10.0.5.0-24", "10.0.5.0/24", "", false},
		{plain + `,"node_slice_size":"/24"`, "w-1-10.1.5.0-24", "10.1.5.0/24", "", false},
		{plain + `,"node_slice_size":"/24","network_name":"blue"`, "blue-w-1-10.0.5.0-24", "10.0.5.0/24", "w-1", true},
	} {
		n := nadOf(`{"ipam":{"type":"whereabouts",` + c.ipam + `}}`)
		if len(n.Networks) != 1 {
			t.Fatalf("%s: %+v", c.ipam, n)
		}
		if node, ok := n.Networks[0].Assigns(poolNamed(c.name, c.poolRange)); ok != c.want || node != c.node {
			t.Errorf("%s and the pool %s: %q, %v; want %q, %v", c.ipam, c.name, node, ok, c.node, c.want)
		}
	}
}

func TestTheSizeOfAWideRangeIsExact(t *testing.T) {
	n := nadOf(`{"ipam":{"type":"whereabouts","range":"fd00::/48"}}`).Networks[0]
	equal(t, "addresses of a /48", ippool.Size(n.Usable(poolNamed("fd00---48", "fd00::/48"))).String(),
		"1208925819614629174706174")
	n = nadOf(`{"ipam":{"type":"whereabouts","range":"fd00::/64","exclude":["fd00::/65"]}}`).Networks[0]
	equal(t, "addresses of half a /64", ippool.Size(n.Usable(poolNamed("fd00---64", "fd00::/64"))).String(),
		"9223372036854775807")
}

func TestTheRangeOfACommandIsReadAsThatOfADefinition(t *testing.T) {
	for _, c := range []struct {
		text    string
		exclude []string
		want    string
	}{
		{"10.0.0.0/29", nil, "10.0.0.0/29 [10.0.0.1-10.0.0.6]"},
		{"10.0.0.2-10.0.0.4/29", nil, "10.0.0.0/29 [10.0.0.2-10.0.0.4]"},
		{"10.0.0.0/29", []string{"10.0.0.3", "10.0.0.4/31"}, "10.0.0.0/29 [10.0.0.1-10.0.0.2 10.0.0.6-10.0.0.6]"},
		{"10.0.0.7/32", nil, "10.0.0.7/32 []"},
		{"fd00::/126", []string{"fd00::2"}, "fd00::/126 [fd00::1-fd00::1]"},
		{"10.0.0.0", nil, "error"}, {"", nil, "error"},
		{"10.1.0.1-10.0.0.4/29", nil, "error"},
		{"10.0.0.0/29", []string{"x"}, "error"},
	} {
		got := "error"
		if prefix, set, err := ippool.UsableIn(c.text, c.exclude); err == nil {
			got = fmt.Sprint(prefix, " ", set.Ranges())
		}
		if got != c.want {
			t.Errorf("%s without %v: %s, want %s", c.text, c.exclude, got, c.want)
		}
	}
}

// smallRangeGen draws a range that can be assigned to the last address.
func smallRangeGen() *rapid.Generator[netip.Prefix] {
	return rapid.Custom(func(t *rapid.T) netip.Prefix {
		base := addressGen(rapid.Bool().Draw(t, "v4")).Draw(t, "base")
		return netip.PrefixFrom(base, base.BitLen()-rapid.IntRange(0, 6).Draw(t, "host bits"))
	})
}

// nearGen draws an address in or beside a range, in the spellings that there are.
func nearGen(p netip.Prefix) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		all := netipx.RangeOfPrefix(p.Masked())
		a := rapid.SampledFrom([]netip.Addr{all.From(), all.To(), all.From().Prev(), all.To().Next(), all.To().Prev(),
			all.From().Next()}).Draw(t, "edge")
		if !a.IsValid() || rapid.Bool().Draw(t, "inside") {
			a = insideGen(p).Draw(t, "address")
		}
		if a.Is4() && rapid.IntRange(0, 5).Draw(t, "mapped") == 0 {
			return "::ffff:" + a.String()
		}
		return a.String()
	})
}

// boundedGen draws a range with bounds, as it stands beside the type or among ipRanges.
func boundedGen() *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		p := smallRangeGen().Draw(t, "range")
		r := map[string]any{"range": p.String()}
		if rapid.IntRange(0, 3).Draw(t, "from-to") == 0 {
			r["range"] = insideGen(p).Draw(t, "from").String() + "-" + insideGen(p).Draw(t, "to").String() +
				fmt.Sprintf("/%d", p.Bits())
		}
		for _, key := range []string{"range_start", "range_end"} {
			if rapid.Bool().Draw(t, key) {
				r[key] = nearGen(p).Draw(t, key)
			}
		}
		var exclude []string
		for range rapid.IntRange(0, 3).Draw(t, "excludes") {
			text := nearGen(p).Draw(t, "exclude")
			if a := netip.MustParseAddr(text); rapid.Bool().Draw(t, "a range") {
				text = fmt.Sprintf("%s/%d", a, a.BitLen()-rapid.IntRange(0, 7).Draw(t, "excluded bits"))
			}
			exclude = append(exclude, text)
		}
		if exclude != nil {
			r["exclude"] = exclude
		}
		return r
	})
}

// assignAll assigns addresses as whereabouts does until all are taken.
func assignAll(t tester, r types.RangeConfiguration) []netip.Addr {
	t.Helper()
	_, network, err := net.ParseCIDR(r.Range)
	if err != nil {
		t.Fatalf("%v", err)
	}
	var taken []types.IPReservation
	var all []netip.Addr
	for {
		a, more, err := allocate.IterateForAssignment(*network, r.RangeStart, r.RangeEnd, taken, r.OmitRanges, "id",
			"default/pod", "net1")
		if err != nil {
			return all
		}
		taken, all = more, append(all, addrOf(a))
		if len(all) > 1000 {
			t.Fatalf("whereabouts assigns without end from %+v", r)
		}
	}
}

func addresses(set *netipx.IPSet) []netip.Addr {
	var all []netip.Addr
	for _, r := range set.Ranges() {
		for a := r.From(); r.Contains(a); a = a.Next() {
			all = append(all, a)
		}
	}
	return all
}

// poolNamed is an empty pool as whereabouts makes it.
func poolNamed(name, rangeText string) *ippool.Pool {
	p := poolOf(rangeText, nil)
	p.Object.SetName(name)
	return ippool.Read[ippool.Pool](p.Object)
}

func TestUsableIsWhatWhereaboutsAssigns(t *testing.T) {
	flat := filepath.Join(t.TempDir(), "whereabouts.conf")
	check(t, os.WriteFile(flat, []byte("{}"), 0o600))
	rapid.Check(t, func(t *rapid.T) {
		ipam := map[string]any{"type": "whereabouts", "kubernetes": map[string]any{"kubeconfig": "/etc/x"}}
		if rapid.Bool().Draw(t, "single") {
			for key, value := range boundedGen().Draw(t, "range") {
				ipam[key] = value
			}
		} else {
			ipam["ipRanges"] = []any{boundedGen().Draw(t, "first"), boundedGen().Draw(t, "second")}
		}
		text, err := json.Marshal(map[string]any{"cniVersion": "0.3.1", "name": "net", "type": "macvlan", "ipam": ipam})
		check(t, err)
		theirs, _, err := config.LoadIPAMConfig(text, "", flat)
		if err != nil {
			t.Fatalf("whereabouts refuses %s: %v", text, err)
		}
		n := nadOf(string(text))
		if n.Problem != "" || len(n.Networks) != 1 || n.Networks[0].Refused != "" {
			t.Fatalf("%s: %+v", text, n)
		}
		known := map[string]bool{}
		for _, r := range theirs.IPRanges {
			if known[r.Range] {
				continue // an ADD finds its own allocation by podref and ifname
			}
			known[r.Range] = true
			p := poolNamed(kubernetes.IPPoolName(kubernetes.PoolIdentifier{IpRange: r.Range}), r.Range)
			if node, ok := n.Networks[0].Assigns(p); !ok || node != "" {
				t.Fatalf("%s does not assign from %s", text, p.Name)
			}
			want, got := assignAll(t, r), n.Networks[0].Usable(p)
			if !slices.Equal(addresses(got), want) || ippool.Size(got).Int64() != int64(len(want)) {
				t.Fatalf("%s: usable of %s are %v (%v); whereabouts assigns %v", text, r.Range, got.Ranges(), ippool.Size(got),
					want)
			}
		}
	})
}
