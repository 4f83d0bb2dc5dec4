package view_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
	"github.com/ip-reconcile/ip-reconcile/reconciler"
	"github.com/ip-reconcile/ip-reconcile/reconciler/facts"
	. "github.com/ip-reconcile/ip-reconcile/reconciler/judgetest"
)

// What is written row by row is what encodes the whole document.
func TestWrite_RowByRow(t *testing.T) {
	all := []Part{UsualPool, Pod("bystander"), Reservation("10.0.0.9", "default/web-9", LongAgo),
		Reservation("10.0.0.10", "default/a<b>\n  \"allocations\": []", LongAgo)}
	for _, parts := range [][]Part{all, all[:2], all[1:], {Pod("bystander")}} {
		out := &reconciler.Result{Assessment: Judged(Observe(parts...), facts.Policy{})}
		check, run := view.NewCheckReport(out, view.Filter{}), view.NewRunReport(out, true, view.Filter{})
		for _, d := range []view.Document{check, run} {
			var got, want bytes.Buffer
			enc := json.NewEncoder(&want)
			enc.SetEscapeHTML(false)
			enc.SetIndent("", "  ")
			if err := enc.Encode(view.Full(d)); err != nil {
				t.Fatal(err)
			}
			if err := view.Write(&got, "json", d); err != nil || got.String() != want.String() {
				t.Errorf("%v, written is\n%s\nwant\n%s", err, &got, &want)
			}
			got.Reset()
			text, err := yaml.Marshal(view.Full(d))
			if err = errors.Join(err, view.Write(&got, "yaml", d)); err != nil || got.String() != string(text) {
				t.Errorf("%v, written is\n%s\nwant\n%s", err, &got, text)
			}
		}
	}
	if err := view.Write(brokenWriter{}, "json", view.NewCheckReport(
		&reconciler.Result{Assessment: Judged(Observe(all...), facts.Policy{})}, view.Filter{})); err == nil {
		t.Error("no error")
	}
}

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, fmt.Errorf("no space left on device") }
