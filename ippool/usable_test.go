package ippool_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

func TestWhatWhereaboutsRefusesIsSaidAndIsStillANetwork(t *testing.T) {
	for _, c := range []struct{ name, ipam, says string }{
		{"an exclude that is nothing", `"range":"10.0.0.0/24","exclude":["10.0.0.300"]`, `exclude "10.0.0.300"`},
		{"an exclude that is no text", `"range":"10.0.0.0/24","exclude":[5]`, `exclude "5"`},
		{"a first address outside", `"range":"10.0.1.5-10.0.0.9/24"`, `"10.0.1.5" is not an address of 10.0.0.0/24`},
		{"a first address that is none", `"range":"x-10.0.0.9/24"`, `"x" is not an address`},
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
	equal(t, "refused for a range_start that is none",
		nadOf(`{"ipam":{"type":"whereabouts","range":"10.0.0.0/24","range_start":"x"}}`).Networks[0].Refused, "")
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
