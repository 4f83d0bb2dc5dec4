package podstate

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// A name of 200 kB is not kept. The addresses of its interface are in use all the same.
func TestNetworkStatus_LongNames(t *testing.T) {
	long := strings.Repeat("x", 200_000)
	for _, text := range []string{`[{"name":"` + long + `","interface":"net1","ips":["10.0.0.5"]}]`,
		`[{"name":"default/wb","interface":"` + long + `","ips":["10.0.0.5"]}]`} {
		status, interfaces := readNetworkStatus(map[string]string{statusAnnotation: text})
		if status != StatusUnreadable || len(interfaces) != 1 || len(interfaces[0].Addresses) != 1 ||
			interfaces[0].Network != "" || interfaces[0].Name != "" {
			t.Errorf("%s, %d interfaces", status, len(interfaces))
		}
	}
	tooLong := `[{"name":"default/wb","interface":"net1","ips":["` + strings.Repeat(" ", maxAnnotation) + `10.0.0.5"]}]`
	if status, interfaces := readNetworkStatus(map[string]string{statusAnnotation: tooLong}); status != StatusUnreadable {
		t.Errorf("%s, %d interfaces", status, len(interfaces))
	}
	for _, text := range []string{long, `[{"name":"` + long + `"}]`, strings.Repeat(",", maxAnnotation+1)} {
		o := &corev1.Pod{}
		o.Annotations = map[string]string{selectionAnnotation: text}
		if selected := readSelection(o); len(selected) > 0 {
			t.Errorf("%d networks of %.20s", len(selected), text)
		}
	}
}
