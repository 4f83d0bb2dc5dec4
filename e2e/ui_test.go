//go:build slow

package e2e

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// A browser is a headless Chromium with one page.
type browser struct {
	t       *testing.T
	ctx     context.Context
	console buffer
}

func newBrowser(t *testing.T) *browser {
	t.Helper()
	path, err := exec.LookPath("chromium")
	if err != nil && os.Getenv("IP_RECONCILE_REAL") == "" {
		t.Skip("needs Debian's package chromium")
	}
	check(t, err)
	opts := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path), chromedp.NoSandbox,
		chromedp.DisableGPU, chromedp.IgnoreCertErrors)
	allocator, end := chromedp.NewExecAllocator(t.Context(), opts...)
	t.Cleanup(end)
	ctx, closePage := chromedp.NewContext(allocator)
	t.Cleanup(closePage)
	b := &browser{t: t, ctx: ctx}
	b.do(chromedp.EmulateViewport(1280, 900))
	messages := chromedp.Console(ctx)
	go func() {
		for m, err := range messages {
			if err != nil {
				return
			}
			fmt.Fprintln(&b.console, m)
		}
	}()
	return b
}

func (b *browser) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	check(b.t, chromedp.Do(b.ctx, steps...))
}

// dropped is what Chromium says of the requests of a moment at which another test adds or removes an interface.
const dropped = "ERR_NETWORK_CHANGED"

// open opens a view of the page at an address. It does so again if Chromium drops the request of the page, or those of
// its scripts.
func (b *browser) open(url string) {
	b.t.Helper()
	b.do(chromedp.Navigate("about:blank"))
	eventually(b.t, "the page of "+url, func() bool {
		before := strings.Count(b.console.String(), dropped)
		if err := chromedp.Do(b.ctx, chromedp.Navigate(url)); err != nil {
			if !strings.Contains(err.Error(), dropped) {
				b.t.Fatal(err)
			}
			return false
		}
		return within(20*time.Second, 50*time.Millisecond, func() bool {
			return b.text("h1") != "" || strings.Count(b.console.String(), dropped) > before
		}) && b.text("h1") != ""
	})
}

func evaluate[T any](b *browser, script string) T {
	b.t.Helper()
	return try(chromedp.Run(b.ctx, chromedp.Evaluate[T](script, chromedp.EvalAwaitPromise))).must(b.t)
}

// text is what a person sees of the elements.
func (b *browser) text(selector string) string {
	b.t.Helper()
	script := "[...document.querySelectorAll(%q)].map((e) => e.innerText).join('\\n')"
	return evaluate[string](b, fmt.Sprintf(script, selector))
}

// shows waits until an element shows all words.
func (b *browser) shows(selector string, words ...string) {
	b.t.Helper()
	text := ""
	if !within(20*time.Second, 50*time.Millisecond, func() bool {
		text = b.text(selector)
		return text != "" && !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) })
	}) {
		b.t.Fatalf("%s does not show %q, but:\n%s\n%s", selector, words, text, &b.console)
	}
}

// click clicks on the first link or summary with a text.
func (b *browser) click(text string) {
	b.t.Helper()
	b.shows("main a, main summary, nav a", text)
	clicked := evaluate[bool](b, fmt.Sprintf(`(() => {
		const e = [...document.querySelectorAll("main a, main summary, nav a")].find((e) => e.innerText.trim() === %q);
		e?.click();
		return Boolean(e);
	})()`, text))
	equal(b.t, "a link "+text, clicked, true)
}

func (b *browser) scheme(name string) {
	b.t.Helper()
	features := []*emulation.MediaFeature{{Name: "prefers-color-scheme", Value: name}}
	_, err := chromedp.Call(b.ctx, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: features})
	check(b.t, err)
}

// ui starts `ip-reconcile ui` and returns the page's address.
func ui(t *testing.T, args ...string) (*command, string) {
	t.Helper()
	c := begin(t, append([]string{"ui"}, args...)...)
	eventually(t, "the address of the page", func() bool { return strings.HasSuffix(c.stdout.String(), "\n") })
	return c, strings.TrimSpace(c.stdout.String())
}

const sampleCluster = "../samples/cluster"

// snapshotOf is the folder of a snapshot.
func snapshotOf(t *testing.T, objects ...string) string {
	t.Helper()
	dir := t.TempDir()
	check(t, os.WriteFile(filepath.Join(dir, "cluster.yaml"), []byte(strings.Join(objects, "\n---\n")), 0o600))
	return dir
}

func poolYAML(name, cidr, annotations string, pods ...string) string {
	var text strings.Builder
	fmt.Fprintf(&text, "apiVersion: whereabouts.cni.cncf.io/v1alpha1\nkind: IPPool\nmetadata: {name: %q, "+
		"namespace: kube-system, annotations: {%s}}\nspec:\n  range: %q\n  allocations:\n", name, annotations, cidr)
	for i, pod := range pods {
		fmt.Fprintf(&text, "    '%d': {id: box-%d, podref: %q, ifname: net1}\n", i+1, i+1, "default/"+pod)
	}
	return text.String()
}

func networkYAML(name, cidr string) string {
	config, _ := json.Marshal(fmt.Sprintf(`{"cniVersion":"0.3.1","name":%q,"type":"macvlan",`+
		`"ipam":{"type":"whereabouts","range":%q}}`, name, cidr))
	return fmt.Sprintf("apiVersion: k8s.cni.cncf.io/v1\nkind: NetworkAttachmentDefinition\n"+
		"metadata: {name: %s, namespace: default}\nspec: {config: %s}", name, config)
}

// full is a full pool for which a pod waits; the pool is paused.
func fullPool(t *testing.T) string {
	pod := func(name, phase string) string {
		return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: %s, namespace: default, uid: uid-%s, "+
			"creationTimestamp: '2026-11-20T09:00:00Z', annotations: {k8s.v1.cni.cncf.io/networks: small}}\n"+
			"spec: {nodeName: worker-1}\nstatus: {phase: %s}", name, name, phase)
	}
	return snapshotOf(t, poolYAML("10.2.0.0-30", "10.2.0.0/30", `ip-reconcile.dev/paused: "true"`, "one", "two"),
		networkYAML("small", "10.2.0.0/30"), pod("one", "Running"), pod("two", "Running"), pod("three", "Pending"))
}

// The answers of docs/operate/tickets.md to which a snapshot leads. TestUI_AnswersAfterARestore has that of a restore,
// and TestUI_ServeAsksForAToken the history.
func TestUI_AnswersWithinThreeClicks(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, sample := ui(t, "--snapshot", sampleCluster)
	_, full := ui(t, "--snapshot", fullPool(t), "--now", "2026-11-20T10:00:00Z")
	for _, x := range []struct {
		ticket, url string
		clicks      []string
		words       []string
	}{
		{"The range is full", full, []string{"Show the pool kube-system/10.2.0.0-30"},
			[]string{"Pods that wait for an address (1)", "default/three", "10.2.0.0/30"}},
		{"Can the range shrink?", sample, []string{"kube-system/10.0.0.0-24"},
			[]string{"See what another range would mean, before you edit a definition."}},
		{"Two pods answer at one address", sample, []string{"Explain 10.0.0.1"},
			[]string{"Conflict: 10.0.0.1 is carried by default/twin and default/web-0",
				"Conflict at 10.0.0.1: the allocation names default/web-0", "delete pod -n default twin"}},
		{"A node died, and its addresses are needed now", sample, []string{"worker-4"},
			[]string{"kubectl --context=CONTEXT_OF_THAT_CLUSTER taint nodes worker-4 node.kubernetes.io/out-of-service"}},
		{"Nothing is released: why?", full, nil, []string{"Releases are paused in 1 pool: kube-system/10.2.0.0-30."}},
		{"Release this address now", sample, []string{"10.0.0.22"},
			[]string{"ip-reconcile release 10.0.0.22", "the verdict is confirmed at 2026-11-20T10:00:40Z",
				"The row that decided"}},
		{"Somebody must review releases first", sample, nil, []string{"ip-reconcile plan --output-file plan.json"}},
		{"Machines are imported with their addresses: which are free?", sample, nil,
			[]string{"ip-reconcile explain -f addresses.txt"}},
		{"Is everything consistent before an upgrade?", sample, nil,
			[]string{"Pools, reservations and pods disagree: 1 Conflict",
				"ip-reconcile check --fail-on=Conflict,Unrecorded"}},
	} {
		b.open(x.url)
		for _, text := range x.clicks {
			b.click(text)
		}
		if len(x.clicks) > 3 {
			t.Errorf("%s: %d clicks", x.ticket, len(x.clicks))
		}
		b.shows("main", x.words...)
	}
	said := slices.DeleteFunc(strings.Split(b.console.String(), "\n"), func(line string) bool {
		return line == "" || strings.Contains(line, dropped)
	})
	equal(t, "what the console has", strings.Join(said, "\n"), "")
}

func TestUI_IsAccessible(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, url := ui(t, "--snapshot", sampleCluster)
	axe := axeCore(t)
	for _, view := range []string{"", "#/explain/10.0.0.22", "#/explain/node%2Fworker-3", "#/explain/10.0.0.200",
		"#/pool/kube-system%2F10.0.0.0-24"} {
		for width, scheme := range map[int64]string{400: "light", 1600: "dark"} {
			b.scheme(scheme)
			b.do(chromedp.EmulateViewport(width, 900))
			b.open(url + view)
			b.shows("#time", "judged at 2026-11-20 10:00:00 UTC")
			evaluate[chromedp.Void](b, axe)
			found := evaluate[string](b, `axe.run().then((r) => JSON.stringify(r.violations.map((v) =>
				[v.id, v.help, v.nodes.slice(0, 3).map((n) => n.html + n.failureSummary)])))`)
			equal(t, fmt.Sprint("violations of ", view, " ", scheme, " ", width), found, "[]")
			wide := evaluate[int](b, "document.documentElement.scrollWidth - document.documentElement.clientWidth")
			equal(t, fmt.Sprint("pixels beside the window of ", view, " ", width), wide, 0)
		}
	}
}

// axeCore is the script of axe-core, from npm's registry.
func axeCore(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	npm := exec.CommandContext(t.Context(), "npm", "install", "--no-save", "--no-audit", "--ignore-scripts",
		"--prefix", dir, "axe-core@4.14.1")
	out, err := npm.CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return string(try(os.ReadFile(filepath.Join(dir, "node_modules/axe-core/axe.min.js"))).must(t))
}

// Everything works with the keyboard alone: the form, the map and its cells.
func TestUI_Keyboard(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, url := ui(t, "--snapshot", sampleCluster)
	b.open(url)
	b.do(chromedp.SendKeys("#subject", "default/web-0\r"))
	b.shows("h1", "Pod default/web-0")
	b.open(url + "#/pool/kube-system%2F10.0.0.0-24")
	b.do(chromedp.Focus("#map"), chromedp.KeyEvent("\u0303")) // right
	b.shows(".said", "10.0.0.1: in use by default/web-0 (SandboxReady)")
	b.do(chromedp.KeyEvent("\u0301")) // down
	b.shows(".said", "10.0.0.33: free")
	b.do(chromedp.KeyEvent("\u0304"), chromedp.KeyEvent("\u0303"), chromedp.KeyEvent("\r")) // up, right, Enter
	b.shows("h1", "Address 10.0.0.2")
}

func TestUI_HostileNamesChangeNothing(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	hostile := `x</script><img src=x onerror='window.hacked=1'><svg onload="window.hacked=1">`
	dir := snapshotOf(t, poolYAML(hostile, "10.3.0.0/30", "", hostile), networkYAML("hostile", "10.3.0.0/30"),
		poolYAML("x", hostile, ""))
	_, url := ui(t, "--snapshot", dir, "--now", "2026-11-20T10:00:00Z", "--pods-complete")
	for _, view := range []string{"", "#/explain/10.3.0.1", "#/pool/kube-system/" + hostile, "#/explain/" + hostile,
		"#/" + hostile, "#/explain/%ff", "#/history"} {
		b.open(url + view)
		b.shows("main")
		found := evaluate[int](b, `document.querySelectorAll("main img, main svg, main script").length`)
		equal(t, "what a name made in "+view, found, 0)
	}
	equal(t, "a script of a name", evaluate[string](b, "String(window.hacked)"), "undefined")
	if strings.Contains(b.console.String(), "Content Security Policy") {
		t.Errorf("the page breaks its own policy: %s", &b.console)
	}
}

func TestUI_LostConnectionHeals(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	c, url := ui(t, "--snapshot", sampleCluster)
	b.open(url)
	b.shows("#time", "judged at 2026-11-20 10:00:00 UTC")
	check(t, c.cmd.Process.Kill())
	_ = c.cmd.Wait()
	b.shows("#connection", "Connection lost", "what is shown may be old")
	b.shows("#time", "judged at 2026-11-20 10:00:00 UTC")
	_, port, err := net.SplitHostPort(strings.Split(url, "/")[2])
	check(t, err)
	_, again := ui(t, "--snapshot", sampleCluster, "--port", port, "--now", "2026-11-20T11:00:00Z")
	b.shows("h1", "Sign in") // with the token of this start
	b.do(chromedp.SendKeys("#token", again[strings.Index(again, "=")+1:]+"\r"))
	b.shows("#time", "judged at 2026-11-20 11:00:00 UTC")
	equal(t, "the line about the connection", b.text("#connection"), "")
}

// The passes of 'serve --ui' fail. The overview of the last one that succeeded does not say that everything works.
func TestUI_OldDataIsNoAllClear(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, text := ui(t, "--snapshot", sampleCluster)
	page := try(url.Parse(text)).must(t)
	proxy, fails := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: page.Scheme, Host: page.Host}), make(chan bool)
	proxy.ModifyResponse = func(r *http.Response) error {
		if !strings.HasSuffix(r.Request.URL.Path, "/data/overview") {
			return nil
		}
		body := try(io.ReadAll(r.Body)).must(t)
		raw := map[string]json.RawMessage{}
		check(t, json.Unmarshal(body, &raw))
		for _, name := range []string{"status", "pools", "check"} {
			var part map[string]any
			check(t, json.Unmarshal(raw[name], &part))
			for field, value := range map[string]any{"level": "OK", "lines": []any{}, "pools": []any{}, "unknown": []any{},
				"findings": []any{}, "allocations": []any{}, "reservations": []any{}} {
				if _, has := part[field]; has {
					part[field] = value
				}
			}
			raw[name] = try(json.Marshal(part)).must(t)
		}
		body = try(json.Marshal(raw)).must(t)
		r.Body, r.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
		r.Header.Set("Content-Length", strconv.Itoa(len(body)))
		return nil
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/events") {
			r.Header.Del("Accept-Encoding")
			proxy.ServeHTTP(w, r)
			return
		}
		for _, problem := range []string{"", "The last pass has failed: no route to host"} {
			fmt.Fprintf(w, "data: {\"time\":\"2026-11-20T10:00:00Z\",\"problem\":%q}\n\n", problem)
			_ = http.NewResponseController(w).Flush()
			select {
			case <-fails:
			case <-r.Context().Done():
				return
			}
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(fails) })
	page.Scheme, page.Host = "http", strings.TrimPrefix(server.URL, "http://")
	b.open(page.String())
	b.shows(".verdict", "Everything works.")
	fails <- true
	b.shows("#connection", "The last pass has failed")
	b.shows(".verdict", "No fault was found, but not everything is known.")
	b.shows(".attention", "What is shown is old", "no route to host")
}

// A laptop's network changes: the requests of that moment get no answer, or a part of one, and the page asks again.
func TestUI_AsksAgainWithoutAnAnswer(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, text := ui(t, "--snapshot", sampleCluster)
	page := try(url.Parse(text)).must(t)
	proxy, drops := httputil.NewSingleHostReverseProxy(&url.URL{Scheme: page.Scheme, Host: page.Host}), atomic.Int32{}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.Contains(r.URL.Path, "/data/") && drops.Add(-1) >= 0 {
			_, _ = w.Write([]byte(`{"a part":`))
			_ = http.NewResponseController(w).Flush()
			panic(http.ErrAbortHandler)
		}
		proxy.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	drops.Store(3)
	page.Scheme, page.Host = "http", strings.TrimPrefix(server.URL, "http://")
	b.open(page.String())
	b.shows("main", "kube-system/10.0.0.0-24")
	drops.Store(2)
	b.click("kube-system/10.0.0.0-24")
	b.shows("h1", "10.0.0.0-24")
	if left := drops.Load(); left >= 0 {
		t.Errorf("%d answers were not dropped", left+1)
	}
}

// The pictures of the docs. With -update they are written, as 'make pictures' does.
func TestUI_Pictures(t *testing.T) {
	t.Parallel()
	b := newBrowser(t)
	_, url := ui(t, "--snapshot", sampleCluster)
	total := 0
	for name, view := range map[string]string{"overview": "", "map": "#/pool/kube-system%2F10.0.0.0-24",
		"explain": "#/explain/10.0.0.22"} {
		for _, scheme := range []string{"light", "dark"} {
			b.scheme(scheme)
			b.do(chromedp.EmulateViewport(1100, 900))
			b.open(url + view)
			b.shows("#time", "judged at")
			path := filepath.Join("../docs/pictures", name+"-"+scheme+".png")
			if *update {
				picture := try(chromedp.Run(b.ctx, chromedp.CaptureScreenshot())).must(t)
				check(t, os.MkdirAll(filepath.Dir(path), 0o755))
				check(t, os.WriteFile(path, picture, 0o644))
			}
			total += int(try(os.Stat(path)).must(t).Size())
		}
	}
	if total > 1<<20 {
		t.Errorf("the pictures have %d bytes", total)
	}
}
