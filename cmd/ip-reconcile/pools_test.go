package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
)

func TestPoolsSaysHowFullEachIsAndWhatIsNotKnown(t *testing.T) {
	code, out, errs := run(t, "pools", "--snapshot", sample)
	if code != exitClean {
		t.Fatalf("exit code %d; stderr: %s", code, errs)
	}
	text := strings.Join(strings.Fields(out), " ")
	for _, want := range []string{
		"POOL RANGE USABLE USED FREE FILL STALE HELD WAITING NETWORKS",
		"kube-system/10.0.0.0-24 10.0.0.0/24 254 22 230 9% 7 11 0 default/storage",
		"kube-system/worker-1-10.1.0.0-26 10.1.0.0/26 62 4 58 6% 2 2 0 default/fast",
		"kube-system/broken 10.9.0.0 ? 0 ? ? 0 0 ? -",
		"? kube-system/broken: spec.range",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%q is missing in\n%s", want, out)
		}
	}
	if _, out, _ := run(t, "pools", "--snapshot", sample, "-o", "name"); out != "kube-system/10.0.0.0-24\nkube-system/worker-1-10.1.0.0-26\nkube-system/broken\n" {
		t.Errorf("names:\n%s", out)
	}
}

func TestPoolsOfOneSaysWhoHasItWhatIsFreeAndWhatIsReleasedWhen(t *testing.T) {
	for _, name := range []string{"10.0.0.0-24", "kube-system/10.0.0.0-24", "10.0.0.0/24", "10.0.0.77"} {
		code, out, errs := run(t, "pools", name, "--snapshot", sample, "-o", "json")
		var d document.PoolDetails
		if err := json.Unmarshal([]byte(out), &d); err != nil || code != exitClean || len(d.Pools) != 1 {
			t.Fatalf("%s: exit code %d, %v; stderr: %s", name, code, err, errs)
		}
		p := d.Pools[0]
		if d.Kind != document.KindPool || p.Pool != "kube-system/10.0.0.0-24" || p.Namespaces[0] != (document.PoolOwner{Name: "default", Entries: 21}) || p.FreeRanges[0] != "10.0.0.12-10.0.0.13" {
			t.Errorf("%s: %+v", name, p)
		}
		stale := map[string]document.AllocationRow{}
		for _, e := range p.StaleEntries {
			stale[e.IP] = e
		}
		if len(stale) != p.Stale || stale["10.0.0.20"].Refusal != "" || stale["10.0.0.22"].Refusal != "AwaitingConfirmation" || stale["10.0.0.22"].ReleasableAt == nil {
			t.Errorf("%s: what is stale: %+v", name, p.StaleEntries)
		}
	}
}

func TestAPoolThatThereIsNoneOfIsAClearError(t *testing.T) {
	refused(t, []string{"pools", "10.3.0.0/24", "--snapshot", sample}, []string{`"10.3.0.0/24"`, "kube-system/10.0.0.0-24", "kube-system/broken"})
	refused(t, []string{"pools", "a", "b", "--snapshot", sample}, []string{"at most 1 arg"})
}
