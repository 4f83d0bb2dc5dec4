package ippool_test

import (
	"fmt"
	"net/netip"
	"runtime"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

const anyPool = `
apiVersion: whereabouts.cni.cncf.io/v1alpha1
kind: IPPool
metadata:
  namespace: kube-system
  name: blue-10.0.0.0-24
  uid: pool-uid
  resourceVersion: "123"
  annotations: {ip-reconcile.dev/paused: "true"}
  labels: {later: field}
spec:
  range: 10.0.0.0/24
  later: {nested: [1, 2.5, "x"]}
  allocations:
    "10": {id: c10, podref: default/b, ifname: net2}
    "9": {id: c9, podref: default/a, ifname: net1}
    "09": {id: c09, podref: default/c}
`

func TestAPoolIsReadWithItsEntriesOrderedByAddressThenKey(t *testing.T) {
	p := ippool.Read[ippool.Pool](object(t, anyPool))
	equal(t, "ref", p.Ref(), "kube-system/blue-10.0.0.0-24")
	equal(t, "UID", p.UID, "pool-uid")
	equal(t, "resourceVersion", p.ResourceVersion, "123")
	equal(t, "range as written", p.RangeText, "10.0.0.0/24")
	equal(t, "network", p.Range.Prefix(), netip.MustParsePrefix("10.0.0.0/24"))
	equal(t, "paused", p.Paused, true)
	equal(t, "problem", p.Problem, "")
	var keys []string
	for _, a := range p.Allocations {
		keys = append(keys, a.Key)
		equal(t, "problem of "+a.Key, a.Problem, "")
	}
	equal(t, "order", strings.Join(keys, " "), "09 9 10")
	a := p.Find("10")
	if a == nil {
		t.Fatal("key 10 is not found")
	}
	equal(t, "id", a.ContainerID, "c10")
	equal(t, "podref", a.PodRef, "default/b")
	equal(t, "ifname", a.IfName, "net2")
	equal(t, "owner", a.Owner, ippool.PodRef{Namespace: "default", Name: "b"})
	equal(t, "address", a.Address, netip.MustParseAddr("10.0.0.10"))
	equal(t, "offset", a.Offset, 10)
	if p.Find("010") != nil {
		t.Error("a key is found by its text, not by its number")
	}
}

func TestAnyValueButThoseThatSayNoPauses(t *testing.T) {
	for value, want := range map[string]bool{
		"true": true, "True": true, "yes": true, "1": true, "": true, "until Monday": true, "false": false, "False": false,
		"no": false, "off": false, " 0": false,
	} {
		o := object(t, anyPool)
		o.SetAnnotations(map[string]string{ippool.PausedAnnotation: value})
		p := ippool.Read[ippool.Pool](o)
		equal(t, value, p.Paused, want)
		equal(t, "alerts that a pause switches off", p.NoUsageAlerts, false)
		o.SetAnnotations(map[string]string{ippool.NoUsageAlertsAnnotation: value})
		p = ippool.Read[ippool.Pool](o)
		equal(t, "without alerts by "+value, p.NoUsageAlerts, want)
		equal(t, "paused by that", p.Paused, false)
	}
	o := object(t, anyPool)
	o.SetAnnotations(nil)
	equal(t, "no annotation", ippool.Read[ippool.Pool](o).Paused, false)
}

func TestAnEntryThatCannotBeJudgedSaysWhy(t *testing.T) {
	for _, c := range []struct {
		name, key, entry string
		problem          ippool.Problem
		detail           string
	}{
		{"no podref", "5", `{id: c5}`, ippool.Malformed, "missing"},
		{"an empty podref", "5", `{id: c5, podref: ""}`, ippool.Malformed, "missing"},
		{"a podref that names no pod", "5", `{id: c5, podref: weird}`, ippool.Malformed, "weird"},
		{"a string", "5", `"default/a"`, ippool.Malformed, "not an object"},
		{"a list", "5", `[default/a]`, ippool.Malformed, "not an object"},
		{"null", "5", `null`, ippool.Malformed, "not an object"},
		{"a number for an id", "5", `{id: 5, podref: default/a}`, ippool.Malformed, "id"},
		{"null for an ifname", "5", `{id: c5, podref: default/a, ifname: null}`, ippool.Malformed, "ifname"},
		{"an object for a podref", "5", `{id: c5, podref: {a: b}}`, ippool.Malformed, "podref"},
		{"a key that is no number", "five", `{id: c5, podref: default/a}`, ippool.Malformed, "five"},
		{"an address for a key", "10.0.0.5", `{id: c5, podref: default/a}`, ippool.Malformed, "10.0.0.5"},
		{"a key beyond the range", "256", `{id: c5, podref: default/a}`, ippool.Malformed, "256"},
		{"a negative key in IPv4 (B3)", "-1", `{id: c5, podref: default/a}`, ippool.Malformed, "-1"},
		{"a field of a later version", "5", `{id: c5, podref: default/a, ifname: net1, ipamclaimref: claim}`,
			ippool.UnknownField, "ipamclaimref"},
		{"a known field in another case", "5", `{id: c5, podref: default/a, PodRef: default/b}`, ippool.UnknownField,
			"PodRef"},
		{"an unknown field and no podref: the graver one", "5", `{id: c5, ipamclaimref: claim}`, ippool.Malformed, "missing"},
		{"an unknown field and a key outside the range", "300", `{podref: default/a, ipamclaimref: claim}`, ippool.Malformed,
			"300"},
		{"an unknown field and a broken one", "5", `{id: 1, podref: default/a, ipamclaimref: claim}`, ippool.Malformed, "id"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := ippool.Read[ippool.Pool](object(t, `{kind: IPPool, metadata: {name: p}, spec: {range: 10.0.0.0/24, `+
				`allocations: {"`+c.key+`": `+c.entry+`, "7": {id: c7, podref: default/z}}}}`))
			equal(t, "the pool's problem", p.Problem, "")
			a := p.Find(c.key)
			if a == nil {
				t.Fatal("the allocation is gone")
			}
			equal(t, "problem", a.Problem, c.problem)
			if !strings.Contains(a.Detail, c.detail) {
				t.Errorf("detail %q does not say %q", a.Detail, c.detail)
			}
			if good := p.Find("7"); good == nil || good.Problem != "" || good.Address != netip.MustParseAddr("10.0.0.7") {
				t.Errorf("the allocation beside it is %+v", good)
			}
		})
	}
}

// B1: with whereabouts one such pool ends the run for the whole cluster.
func TestB1APoolThatCannotBeReadSaysSoAndMakesItsEntriesMalformed(t *testing.T) {
	for _, c := range []struct{ name, spec, says string }{
		{"a range without a mask", `{range: 10.0.0.0, allocations: {"5": {id: c5, podref: default/a}}}`, "10.0.0.0"},
		{"an empty range", `{range: "", allocations: {"5": {id: c5, podref: default/a}}}`, "range"},
		{"no range", `{allocations: {"5": {id: c5, podref: default/a}}}`, "range"},
		{"a number for a range", `{range: 10, allocations: {"5": {id: c5, podref: default/a}}}`, "range"},
		{"a later field, too", `{range: x, allocations: {"5": {id: c5, podref: default/a, later: y}}}`, "range"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := ippool.Read[ippool.Pool](object(t, `{kind: IPPool, metadata: {name: p}, spec: `+c.spec+`}`))
			if !strings.Contains(p.Problem, c.says) {
				t.Errorf("problem %q does not say %q", p.Problem, c.says)
			}
			a := p.Find("5")
			if a == nil {
				t.Fatal("the allocation is gone")
			}
			equal(t, "the allocation's problem", a.Problem, ippool.Malformed)
			equal(t, "its podref", a.PodRef, "default/a")
			equal(t, "its address", a.Address, netip.Addr{})
		})
	}
}

func TestAPoolWithoutAReadableMapOfEntriesIsEmpty(t *testing.T) {
	const sound, ranged = "", `{kind: IPPool, metadata: {name: p}, spec: {range: 10.0.0.0/24`
	for text, says := range map[string]string{
		ranged + `, allocations: []}}`: "allocations", ranged + `, allocations: "x"}}`: "allocations", ranged +
			`, allocations: [{id: c5}]}}`: "allocations",
		ranged + `}}`: sound, ranged + `, allocations: null}}`: sound, ranged + `, allocations: {}}}`: sound,
		`{kind: IPPool, metadata: {name: p}}`: "range", `{kind: IPPool, metadata: {name: p}, spec: x}`: "range",
		`{kind: IPPool}`: "range",
	} {
		p := ippool.Read[ippool.Pool](object(t, text))
		if (p.Problem == "") != (says == sound) || !strings.Contains(p.Problem, says) || len(p.Allocations) > 0 {
			t.Errorf("%s: problem %q, %d allocations", text, p.Problem, len(p.Allocations))
		}
	}
}

// allocatedBy is how many bytes work allocates, what it drops again included.
func allocatedBy(work func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	work()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

const objectLimit = 1_500_000 // bytes of an object that etcd takes

func repeatTo(n int, part func(i int) string) string {
	var out strings.Builder
	for i := 0; out.Len() < n; i++ {
		out.WriteString(part(i))
	}
	return strings.TrimSuffix(out.String(), ",")
}

// An allocation of three bytes is read as two hundred, of which most is where its fields are.
func TestAPoolTakesAMultipleOfItsLength(t *testing.T) {
	for what, c := range map[string]struct {
		text string
		most int // bytes for each of the text
	}{
		"entries": {`{"spec":{"range":"10.0.0.0/8","allocations":{` +
			repeatTo(objectLimit, func(i int) string {
				return fmt.Sprintf(`"%d":{"id":"c%d","podref":"default/p-%d"},`, i, i, i)
			}) + `}}}`, 40},
		"allocations that are none": {`{"spec":{"range":"10.0.0.0/8","allocations":{` +
			repeatTo(objectLimit, func(i int) string { return fmt.Sprintf(`"%d":0,`, i) }) + `}}}`, 150},
		"allocations in another order": {`{"spec":{"range":"10.0.0.0/8","allocations":{` +
			repeatTo(objectLimit, func(i int) string { return fmt.Sprintf(`"%d":{"podref":"a/b"},`, 1_000_000-i) }) + `}}}`, 80},
		"fields that are not known": {`{"spec":{"range":"10.0.0.0/8","allocations":{"1":{` +
			repeatTo(objectLimit, func(i int) string { return fmt.Sprintf(`"f%d":1,`, i) }) + `}}}}`, 40},
		"a range as long as the pool": {`{"spec":{"range":"` + strings.Repeat("x", objectLimit/2) + `","allocations":{` +
			repeatTo(objectLimit/2, func(i int) string { return fmt.Sprintf(`"%d":{"podref":"a/b"},`, i) }) + `}}}`, 60},
		"nested lists": {`{"spec":` + strings.Repeat("[", 9000) + strings.Repeat("]", 9000) + `}`, 40},
	} {
		bytes := allocatedBy(func() {
			p, err := ippool.Decode[ippool.Pool]([]byte(c.text))
			check(t, err)
			said := 0
			for i := range p.Allocations {
				said += len(p.Allocations[i].Detail)
			}
			if said > 20*len(c.text) {
				t.Errorf("%s: %d bytes say what is wrong with %d", what, said, len(c.text))
			}
		})
		if bytes > uint64(c.most*len(c.text)) {
			t.Errorf("%s: %d bytes are allocated for %d", what, bytes, len(c.text))
		}
	}
}

func TestADefinitionTakesAMultipleOfItsLength(t *testing.T) {
	section := `{"type":"whereabouts","range":"10.0.0.0/24"}`
	for what, config := range map[string]string{
		"nested lists":   strings.Repeat("[", objectLimit),
		"nested objects": strings.Repeat(`{"ipam":`, objectLimit/8),
		"ranges": `{"ipam":{"type":"whereabouts","ipRanges":[` +
			repeatTo(objectLimit, func(int) string { return `{"range":"10.0.0.0/24"},` }) + `]}}`,
		"plugins": `{"plugins":[` + repeatTo(objectLimit, func(int) string { return `{"ipam":` + section + `},` }) +
			`]}`,
		"empty plugins": `{"plugins":[` + repeatTo(objectLimit, func(int) string { return "{}," }) + `]}`,
		"excludes": `{"ipam":{"type":"whereabouts","range":"10.0.0.0/24","exclude":[` +
			repeatTo(objectLimit, func(int) string { return `"::1",` }) + `]}}`,
	} {
		bytes := allocatedBy(func() {
			n := nadOf(config)
			if len(n.Problem) > 300 {
				t.Errorf("%s: %d bytes say what is wrong", what, len(n.Problem))
			}
			if len(n.Networks) > ippool.MaxRanges {
				t.Errorf("%s: %d networks", what, len(n.Networks))
			}
		})
		if bytes > uint64(120*len(config)) {
			t.Errorf("%s: %d bytes are allocated for %d", what, bytes, len(config))
		}
	}
}
