package view

import (
	"reflect"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/reconciler"
)

// A kind that Full forgets would be printed without its allocations, as if the cluster had none.
func TestFull_HasTheListsOfEachKind(t *testing.T) {
	picked := Pick(&reconciler.Result{Assessment: several()}, Filter{})
	n := 0
	for kind, of := range kinds() {
		d := reflect.New(of)
		check, has := d.Interface().(*CheckReport)
		if field := d.Elem().FieldByName("CheckReport"); field.IsValid() {
			check, has = field.Addr().Interface().(*CheckReport)
		}
		if !has {
			continue
		}
		n++
		*check = *picked.CheckReport()
		var text strings.Builder
		err := Write(&text, "json", d.Interface())
		if err != nil || !strings.Contains(text.String(), `"ip": "10.0.0.5"`) ||
			!strings.Contains(text.String(), `"reservation": "kube-system/10.0.0.9"`) {
			t.Errorf("%s lacks its lists (%v):\n%s", kind, err, &text)
		}
	}
	if n != 3 {
		t.Errorf("%d kinds have verdicts", n)
	}
	var text strings.Builder
	err := Write(&text, "json", NewExplainReports([]*ExplainReport{{CheckReport: CheckReport{picked: picked}}}))
	if err != nil || !strings.Contains(text.String(), `"ip": "10.0.0.5"`) {
		t.Errorf("several explanations lack their lists (%v):\n%s", err, &text)
	}
}
