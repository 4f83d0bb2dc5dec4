package reconciler

import (
	"github.com/ip-reconcile/ip-reconcile/reconciler/judge"
)

// Document lists a result as run prints it.
func (out *Result) Document() *judge.Document {
	d := out.Judgement.Document()
	released, failed := []any{}, []any{}
	for _, it := range judge.Sorted(out.Released) {
		released = append(released, it.Row(it.Message()))
	}
	for _, x := range out.Refused {
		failed = append(failed, x.Row(x.Message()+"; not released: "+x.Detail))
	}
	d.Released, d.Failed = &released, &failed
	return d
}
