package ippool_test

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/ippool"
)

// largePool is the JSON of a pool with n entries as the API server sends it:
// managedFields name every one of them.
func largePool(n int) string {
	var entries, fields []string
	keys := make([]string, n)
	for i := range keys {
		keys[i] = strconv.Itoa(i)
	}
	slices.Sort(keys) // as the API server does
	for i, key := range keys {
		entries = append(entries, fmt.Sprintf(`"%s":{"id":"%064x","ifname":"net1","podref":"namespace-%d/app-%08x-%05x"}`, key, i, i%20, i%50, i))
		fields = append(fields, fmt.Sprintf(`"f:%s":{".":{},"f:id":{},"f:ifname":{},"f:podref":{}}`, key))
	}
	return fmt.Sprintf(`{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","metadata":{"creationTimestamp":"2026-11-20T10:00:00Z","generation":%d,`+
		`"managedFields":[{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:allocations":{%s},"f:range":{}}},"manager":"whereabouts","operation":"Update","time":"2026-11-20T10:00:00Z"}],`+
		`"name":"10.0.0.0-16","namespace":"kube-system","resourceVersion":"41","uid":"33d3bd2e-6ae0-4f2f-8c63-7e9a0a3c0b11"},"spec":{"allocations":{%s},"range":"10.0.0.0/16"}}`,
		n, strings.Join(fields, ","), strings.Join(entries, ","))
}

func reservationPage(n int) []byte {
	var items []string
	for i := range n {
		items = append(items, fmt.Sprintf(`{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"OverlappingRangeIPReservation","metadata":{"creationTimestamp":"2026-11-20T10:00:00Z","generation":1,`+
			`"managedFields":[{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","fieldsType":"FieldsV1","fieldsV1":{"f:spec":{".":{},"f:ifname":{},"f:podref":{}}},"manager":"whereabouts","operation":"Update","time":"2026-11-20T10:00:00Z"}],`+
			`"name":"10.0.%d.%d","namespace":"kube-system","resourceVersion":"%d","uid":"33d3bd2e-6ae0-4f2f-8c63-%012x"},"spec":{"ifname":"net1","podref":"namespace-%d/app-%08x-%05x"}}`,
			i/256, i%256, i, i, i%20, i%50, i))
	}
	return []byte(`{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","items":[` + strings.Join(items, ",") + `],"kind":"OverlappingRangeIPReservationList","metadata":{"continue":"","resourceVersion":"50000"}}`)
}

// Guards against building managedFields, which take more than all that is read.
func TestReadingAllocatesOnlyWhatIsKept(t *testing.T) {
	pool := []byte(largePool(1000))
	if n := testing.AllocsPerRun(5, func() { _, _ = ippool.DecodePool(pool) }); n > 16*1000 {
		t.Errorf("%.0f allocations for a pool of 1000 entries", n)
	}
	page := reservationPage(1000)
	if n := testing.AllocsPerRun(5, func() { _, _, _ = ippool.DecodeReservations(page) }); n > 60*1000 {
		t.Errorf("%.0f allocations for 1000 reservations", n)
	}
}
