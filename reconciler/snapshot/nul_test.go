package snapshot

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const nulPools = `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"whereabouts.cni.cncf.io/v1alpha1","kind":"IPPool","metadata":{"name":"10.0.0.0-24","namespace":"kube-system","uid":"u","resourceVersion":"5"},
 "spec":{"range":"10.0.0.0/24","allocations":{"5":{"id":"aaa","podref":"default/web-0","ifname":"net1"}}}},
 {"apiVersion":"v1","kind":"Pod","metadata":{"name":"other","namespace":"default","uid":"o"},"spec":{"nodeName":"worker-1"},"status":{"phase":"Running"}}]}` + "\n"

const nulPod = `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web-0","namespace":"default","uid":"w"},"spec":{"nodeName":"worker-1"},"status":{"phase":"Running","podIP":"10.0.0.5"}}` + "\n"

// What stands after a NUL byte, as in a file of which a crash or a truncating rotation has left zeros, must not be
// left out in silence: the pod that runs would look as if it were gone.
func TestWhatStandsAfterANULByteIsNotLeftOut(t *testing.T) {
	for what, files := range map[string]map[string]string{
		"between two values of one file":        {"all.json": nulPools + "\x00" + nulPod},
		"before all of a file":                  {"a.json": nulPools, "rest.json": "\x00\x00" + nulPod},
		"UTF-16 without a mark, big endian":     {"a.json": nulPools, "rest.json": utf16BE(nulPod)},
		"YAML by its name and JSON in its text": {"all.yaml": nulPools + "\x00\x00\x00\x00" + nulPod},
	} {
		t.Run(what, func(t *testing.T) {
			dir := t.TempDir()
			for name, text := range files {
				if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s, err := Open(dir, time.Now(), "kube-system")
			if err == nil {
				t.Errorf("no error; %d pods were read, and not default/web-0 (skipped: %d files, %s)", len(s.pods), s.skipped, s.skippedFirst)
			} else {
				t.Log(err)
			}
		})
	}
	t.Run("a stream", func(t *testing.T) {
		s, err := OpenStream("stdin", strings.NewReader(nulPools+"\x00"+nulPod), time.Now(), "kube-system")
		if err == nil {
			t.Errorf("no error; %d pods were read, and not default/web-0", len(s.pods))
		}
	})
}

func utf16BE(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		b.WriteByte(0)
		b.WriteByte(s[i])
	}
	return b.String()
}
