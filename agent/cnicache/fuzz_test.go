package cnicache

import (
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"net/netip"
	"path/filepath"
	"strings"
	"testing"
	"time"
	"unicode/utf8"
)

const fuzzID = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

// fileInfo is a FileInfo of which only ModTime is read.
type fileInfo struct{ fs.FileInfo }

func (fileInfo) ModTime() time.Time { return time.Unix(1_700_000_000, 0) }

// cached returns a result file with this config and result.
func cached(config, result string) []byte {
	text, _ := json.Marshal(map[string]any{"kind": cacheV1, "containerId": fuzzID, "config": []byte(config),
		"ifName": "net1", "networkName": "wb", "netns": "/run/netns/a", "cniArgs": [][2]string{{"K8S_POD_NAMESPACE",
			"default"}, {"K8S_POD_NAME", "web-0"}, {"K8S_POD_UID", "u"}}, "result": json.RawMessage(result)})
	return text
}

func fuzzConfigs() []string {
	return []string{
		`{"cniVersion":"1.0.0","name":"wb","type":"macvlan","ipam":{"type":"whereabouts","range":"10.0.0.0/24"}}`,
		`{"cniVersion":"1.0.0","name":"wb","plugins":[{"type":"bridge","ipam":{"type":"whereabouts",` +
			`"ipRanges":[{"range":"10.0.0.1-10.0.0.9/24"},{"range":"fd00::/64"}]}},{"type":"tuning"}]}`,
		`{"type":"multus","cniDir":"/var/lib/cni/multus"}`, `{"type":"ptp","ipam":{"type":"host-local"}}`,
		`{"type":"loopback"}`, `{"plugins":5}`, `{"ipam":{"type":"whereabouts","range":5}}`, `{}`, ``, `[`,
	}
}

func fuzzResults() []string {
	return []string{
		`{"cniVersion":"1.0.0","interfaces":[{"name":"net1","sandbox":"/run/netns/a"},null],` +
			`"ips":[{"address":"10.0.0.5/24"},null,{"address":"fd00::5/64"}]}`,
		`{"cniVersion":"0.4.0","ips":[{"version":"4","address":"10.0.0.5/24"}]}`, `{"cniVersion":"0.2.0",` +
			`"ip4":{"ip":"10.0.0.5/24"}}`, `{"cniVersion":"9.0.0"}`, `null`, `{"ips":[{"address":"x"}]}`, `5`,
	}
}

// FuzzCacheFile parses one file as the only one of its container. A file that mentions whereabouts never proves its
// absence, and an unreadable file proves nothing.
func FuzzCacheFile(f *testing.F) {
	for _, config := range fuzzConfigs() {
		for _, result := range fuzzResults() {
			f.Add(cached(config, result), false)
		}
		f.Add([]byte(`[{"Bytes":"`+base64.StdEncoding.EncodeToString([]byte(config))+`","Conf":{}}]`), true)
	}
	f.Add([]byte(fuzzResults()[0]), false)
	f.Add([]byte(`{"kind":"`+strings.Repeat("long", 100)+`"}`), false)
	f.Add([]byte(strings.Repeat("[", 12000)), true)
	for _, result := range []string{`{"cniVersion":"0.4.0","ips":[null],"interfaces":[null],"routes":[null]}`,
		`{"cniVersion":"0.2.0","ip4":{},"ip6":null}`,
		`{"cniVersion":"1.0.0","ips":[null,{}],"interfaces":[null]}`, `{"cniVersion":"0.4.0","ips":[{"address":null}]}`} {
		f.Add(cached(fuzzConfigs()[0], result), false)
		f.Add([]byte(`{"kind":"cniCacheV1","containerId":"`+fuzzID+`","config":"bnVsbA==","cniArgs":[["K8S_POD_UID","u",`+
			`"v"],["K8S_POD_UID"]],"result":`+result+`}`), false)
	}
	long := `{"name":"n","type":"x","ipam":{"type":"whereabouts","range":"10.0.0.0/24","network_name":"` +
		strings.Repeat("n", 300) + `"}}`
	f.Add(cached(long, fuzzResults()[1]), false)
	f.Add([]byte(`[{"Bytes":"`+base64.StdEncoding.EncodeToString([]byte(long))+`"}]`), true)
	f.Fuzz(func(t *testing.T, data []byte, own bool) {
		kind := runtimeResults
		if own {
			kind = multusDelegates
		}
		parsed := kind.parse(fuzzID, data)
		parsed.info = fileInfo{}
		b := &entryBuilder{}
		b.add(kind, parsed)
		e := b.build()
		if parsed.problem == nil && !json.Valid(data) {
			t.Fatalf("nothing is wrong with %q", data)
		}
		if parsed.problem != nil && (e.HasNoWhereabouts || e.HasAllAddresses) {
			t.Fatalf("%v, and yet %+v is proven by %q", parsed.problem, e, data)
		}
		if parsed.problem != nil && utf8.RuneCountInString(parsed.problem.Error()) > 310 {
			t.Fatalf("%d bytes say what is wrong", len(parsed.problem.Error()))
		}
		if e.HasNoWhereabouts && (len(e.Addresses) > 0 || strings.Contains(strings.ToLower(string(data)), whereabouts)) {
			t.Fatalf("%q proves that there is no whereabouts", data)
		}
		if len(e.Addresses) > MaxAddresses {
			t.Fatalf("%d addresses", len(e.Addresses))
		}
		if max(len(e.Namespace), len(e.Name), len(e.UID)) > maxName {
			t.Fatalf("a pod's name that no report takes: %+v", e)
		}
		for _, n := range e.MayCarry {
			if max(len(n.Range), len(n.NetworkName)) > maxName {
				t.Fatalf("a network that no report takes: %+v", n)
			}
		}
		for _, a := range e.Addresses {
			if max(len(a.IfName), len(a.Network), len(a.NetworkName), len(a.Range)) > maxName {
				t.Fatalf("an address that no report takes: %+v", a)
			}
			ip, err := netip.ParseAddr(a.IP)
			if err != nil || ip.Is4In6() {
				t.Fatalf("address %q of %q", a.IP, data)
			}
			if r, err := netip.ParsePrefix(a.Range); a.Range != "" && (err != nil || !r.Contains(ip)) {
				t.Fatalf("address %s of range %q", a.IP, a.Range)
			}
		}
		for _, path := range e.NetNS {
			if !filepath.IsAbs(path) || len(path) > 4096 {
				t.Fatalf("network namespace %q", path)
			}
		}
	})
}
