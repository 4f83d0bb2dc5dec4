package ippool_test

import (
	"encoding/json"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

func TestReducedConfig(t *testing.T) {
	for config, want := range map[string]string{
		"":        "",
		"hunter2": "h",
		`{"cniVersion":"1","name":"a","type":"macvlan","token":"hunter2","ipam":{"type":"whereabouts",` +
			`"range":"10.0.0.0/24","kubernetes":{"kubeconfig":"hunter2"},"exclude":["10.0.0.1/32"]}}`: `{"name":"a",` +
			`"type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24","exclude":["10.0.0.1/32"]}}`,
		`{"token":"hunter2","ipam":{"type":"whereabouts","range":"10.0.0.0/24","secret":"hunter2","Range":"10.1.0.0/24"}, ` +
			`"type":"a", "type":"multus", "delegate" : "hunter2"}`: `{"ipam":{"type":"whereabouts","range":"10.0.0.0/24",` +
			`"Range":"10.1.0.0/24"},"type":"a","type":"multus"}`,
		`{"plugins":[{"type":"bridge","password":"hunter2","ipam":{"type":"static","addresses":["hunter2"]}},` +
			`"hunter2"]}`: `{"plugins":[{"type":"bridge","ipam":{"type":"static"}},""]}`,
		`{"delegate":{"ipam":{"type":"whereabouts","secret":"hunter2"}}}`: `{"delegate":"whereabouts "}`,
	} {
		got := ippool.ReducedConfig(config)
		if got != want {
			t.Errorf("%s\ngot  %s\nwant %s", config, got, want)
		}
		if before, after := nadOf(config), nadOf(got); before.Problem != after.Problem {
			t.Errorf("%s: %q, and before %q", config, after.Problem, before.Problem)
		}
	}
}

func TestReducedSpecs(t *testing.T) {
	names := ippool.Names{PodRef: strings.ToUpper, Claim: func(name types.NamespacedName) types.NamespacedName {
		return types.NamespacedName{Namespace: "x", Name: name.Name}
	}}
	for spec, want := range map[string][2]string{ // as that of a pool, and as that of a reservation
		`"hunter2"`: {`""`, `""`}, `5`: {`5`, `5`},
		`{"range":"10.0.0.0/24","allocations":{"1":{"id":"c","podref":"a/b","ifname":"net1","owner":"hunter2"},` +
			`"2":"hunter2","3":{"id":{"a":"hunter2"},"podref":["hunter2"],"ipamclaimref":"a/c"},` +
			`"4":{"ipamclaimref":"hunter2"}}}`: {
			`{"allocations":{"1":{"id":"c","ifname":"net1","owner":"","podref":"A/B"},"2":"","3":{"id":{},` +
				`"ipamclaimref":"x/c","podref":[]},"4":{"ipamclaimref":""}},"range":"10.0.0.0/24"}`,
			`{"allocations":{},"range":""}`},
		`{"range":["hunter2"],"allocations":"hunter2","more":"hunter2"}`: {`{"allocations":"","range":[]}`,
			`{"allocations":"","more":"","range":[]}`},
		`{"podref":"a/b","containerid":"c","ifname":null,"id":"hunter2"}`: {`{}`,
			`{"containerid":"c","id":"","ifname":null,"podref":"A/B"}`},
	} {
		for i, reduce := range []func(any, ippool.Names) any{ippool.ReducedPoolSpec, ippool.ReducedReservationSpec} {
			var value any
			check(t, json.Unmarshal([]byte(spec), &value))
			got, err := json.Marshal(reduce(value, names))
			if err != nil || string(got) != want[i] {
				t.Errorf("%s (%v)\ngot  %s\nwant %s", spec, err, got, want[i])
			}
		}
	}
}
