package fakeapi_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ip-reconcile/ip-reconcile/internal/fakeapi"
)

// What kube-apiserver answers to writes: tests of the product rest on it.
func TestServer_Writes(t *testing.T) {
	const lease = "/apis/coordination.k8s.io/v1/namespaces/a/leases"
	body := func(metadata string) string {
		return `{"apiVersion":"v1","kind":"X","metadata":{` + metadata + `},"spec":{"holderIdentity":"me"}}`
	}
	options := func(p string) string { return `{"preconditions":{` + p + `}}` }
	c := &fakeapi.Client{Server: fakeapi.NewServer(), Name: "me"}
	for _, x := range []struct {
		says, method, path, body string
		want                     int
	}{
		{"an update of nothing", "PUT", lease + "/x", body(`"name":"x"`), 404},
		{"a create at a version", "POST", lease, body(`"name":"x","resourceVersion":"7"`), 400},
		{"a create", "POST", lease, body(`"name":"x","uid":"of mine"`), 201},
		{"another create", "POST", lease, body(`"name":"x"`), 409},
		{"an update without a version", "PUT", lease + "/x", body(`"name":"x"`), 422},
		{"an update of an old version", "PUT", lease + "/x", body(`"name":"x","resourceVersion":"100"`), 409},
		{"an update", "PUT", lease + "/x", body(`"name":"x","resourceVersion":"101"`), 200},
		{"a patch whose test fails", "PATCH", lease + "/x",
			`[{"op":"test","path":"/metadata/resourceVersion","value":"101"},{"op":"remove","path":"/spec"}]`, 422},
		{"a patch", "PATCH", lease + "/x",
			`[{"op":"test","path":"/metadata/resourceVersion","value":"102"},{"op":"remove","path":"/spec"}]`, 200},
		{"a patch of nothing", "PATCH", lease + "/y", `[]`, 404},
		{"a delete of an old version", "DELETE", lease + "/x", options(`"resourceVersion":"102"`), 409},
		{"a delete of another object", "DELETE", lease + "/x", options(`"uid":"of mine"`), 409},
		{"a delete", "DELETE", lease + "/x", options(`"resourceVersion":"103","uid":"00000065-me"`), 200},
		{"another delete", "DELETE", lease + "/x", "", 404},
	} {
		r, err := http.NewRequestWithContext(t.Context(), x.method, "http://api"+x.path, strings.NewReader(x.body))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.RoundTrip(r)
		if err != nil || resp.StatusCode != x.want {
			t.Errorf("%s: got %v, %v, want %d", x.says, resp, err, x.want)
		}
	}
	if c.Revision != 104 {
		t.Errorf("refused writes count, too: the revision is %d", c.Revision)
	}
}

// A watch from the revision of a list has all later changes, and none of before.
func TestServer_WatchFollowsAList(t *testing.T) {
	c := &fakeapi.Client{Server: fakeapi.NewServer()}
	put := func(name string) {
		c.Put(fakeapi.At(fakeapi.Pods, "a", name), map[string]any{"kind": "Pod", "apiVersion": "v1"}, c.Now(), "kubelet")
	}
	get := func(path string) io.Reader {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://api"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := c.RoundTrip(r)
		if err != nil {
			t.Fatal(err)
		}
		return resp.Body
	}
	put("before")
	list, _ := io.ReadAll(get("/api/v1/pods"))
	if !strings.Contains(string(list), `"metadata":{"resourceVersion":"101"}`) {
		t.Errorf("the list is %s", list)
	}
	put("between")
	watch := get("/api/v1/pods?watch=true&resourceVersion=101")
	put("after")
	c.Delete(fakeapi.At(fakeapi.Pods, "a", "before"))
	c.CutWatches("")
	text, _ := io.ReadAll(watch)
	got := []string{}
	for line := range strings.Lines(string(text)) {
		e := fakeapi.Decode([]byte(line))
		meta := e["object"].(map[string]any)["metadata"].(map[string]any)
		got = append(got, fmt.Sprint(e["type"], " ", meta["name"], " ", meta["resourceVersion"]))
	}
	if want := "[ADDED between 102 ADDED after 103 DELETED before 104]"; fmt.Sprint(got) != want {
		t.Errorf("got %v, want %s", got, want)
	}
}
