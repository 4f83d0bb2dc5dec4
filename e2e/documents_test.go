package e2e

import (
	"encoding/json"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/jsonschema-go/jsonschema"
)

// usedPool is a pool in the document of `pools`, by the field names that scripts read.
type usedPool struct {
	Range        string
	Usable, Free any // a number, a string, or nil if unknown
	Used         int
	Waiting      []string
	Definitions  []struct{ Ranges []string }
	Workloads    []struct {
		Name    string
		Entries int
	}
	FreeRanges []string
}

// usage is how full a pool is.
func (s *stage) usage(t testing.TB, name string) usedPool {
	t.Helper()
	out := product(t, "pools", name, "-ojson", "--kubeconfig", s.Kubeconfig())
	out.exits(t, 0)
	var d struct{ Pools []usedPool }
	if err := json.Unmarshal([]byte(out.stdout), &d); err != nil || len(d.Pools) != 1 {
		t.Fatalf("no document of one pool %s: %v: %s%s", name, err, out.stderr, out.stdout)
	}
	return d.Pools[0]
}

// usable are all addresses that the definitions assign, in order.
func (p usedPool) usable(t testing.TB) (all []netip.Addr) {
	t.Helper()
	for _, d := range p.Definitions {
		all = append(all, addressesIn(t, d.Ranges)...)
	}
	slices.SortFunc(all, netip.Addr.Compare)
	return slices.Compact(all)
}

// addressesIn are the addresses of ranges in the document's form: "10.0.0.1-10.0.0.4" or "10.0.0.1".
func addressesIn(t testing.TB, ranges []string) (all []netip.Addr) {
	t.Helper()
	for _, text := range ranges {
		from, to, several := strings.Cut(text, "-")
		if !several {
			to = from
		}
		last := try(netip.ParseAddr(to)).must(t)
		for a := try(netip.ParseAddr(from)).must(t); a.Compare(last) <= 0; a = a.Next() {
			all = append(all, a)
		}
	}
	return all
}

// publishedSchemas are the schemas of the documents by kind. Unknown fields are errors.
var publishedSchemas = sync.OnceValues(func() (map[string]*jsonschema.Resolved, error) {
	text, err := os.ReadFile("../docs/reference/schema/output-v1.json")
	if err != nil {
		return nil, err
	}
	var all jsonschema.Schema
	if err := json.Unmarshal(text, &all); err != nil {
		return nil, err
	}
	found := map[string]*jsonschema.Resolved{}
	for kind, s := range all.Defs {
		onlyKnownFields(s)
		if found[kind], err = s.Resolve(nil); err != nil {
			return nil, err
		}
	}
	return found, nil
})

func onlyKnownFields(s *jsonschema.Schema) {
	if s == nil {
		return
	}
	if len(s.Properties) > 0 {
		s.AdditionalProperties = &jsonschema.Schema{Not: &jsonschema.Schema{}}
	}
	for _, p := range s.Properties {
		onlyKnownFields(p)
	}
	for _, p := range s.AnyOf {
		onlyKnownFields(p)
	}
	onlyKnownFields(s.Items)
}
