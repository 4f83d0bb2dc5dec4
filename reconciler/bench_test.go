package reconciler

import (
	"fmt"
	"testing"
)

// B7: judging takes as long as there is to judge, not its square. See that the
// time per allocation stays about the same from row to row.
func BenchmarkJudge(b *testing.B) {
	for _, n := range []int{1000, 4000, 16000} {
		var allocs []alloc
		parts := []part{aNode("worker-1"), aNAD("wb", whereabouts("10.0.0.0/16", ""))}
		for i := range n {
			name := fmt.Sprint("web-", i)
			allocs = append(allocs, alloc{fmt.Sprint(i), "default/" + name, "box-" + name, "net1"})
			ip := fmt.Sprintf("10.0.%d.%d", i/256, i%256)
			parts = append(parts, aPod(name, carrying(ip)), aReservation(ip, "default/"+name, old))
		}
		o := observe(append(parts, aPool("10.0.0.0-16", "10.0.0.0/16", allocs...))...)
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			for b.Loop() {
				Judge(o, Policy{})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/allocation")
		})
	}
}
