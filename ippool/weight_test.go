package ippool_test

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

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
			if err != nil {
				t.Fatal(err)
			}
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
