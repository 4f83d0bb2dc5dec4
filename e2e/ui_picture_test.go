//go:build slow

package e2e

import (
	"encoding/base64"
	"html"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
)

// terminalStyle is that of a terminal, with the colours that status has there.
const terminalStyle = `<style>
:root { color-scheme: light dark; }
body { margin: 0; padding: 16px 20px; background: light-dark(#fff, #16181d); color: light-dark(#1b1d22, #e4e6eb); }
pre { margin: 0; font: 15px/1.45 "DejaVu Sans Mono", monospace; }
.ok { color: light-dark(#1a7f37, #4ac26b); }
.warning { color: light-dark(#9a6700, #d4a72c); }
.error { color: light-dark(#b42318, #ff7b72); }
</style>`

// terminalPage is a page that shows a command and its output as a terminal does.
func terminalPage(command, output string) string {
	text := html.EscapeString("$ " + command + "\n" + output)
	for mark, class := range map[string]string{"✓": "ok", "!": "warning", "✗": "error"} {
		text = regexp.MustCompile(`(?m)^`+mark+` `).ReplaceAllString(text, `<b class="`+class+`">`+mark+`</b> `)
	}
	return "<!doctype html><meta charset=utf-8>" + terminalStyle + "<h1 hidden>status</h1><pre>" + text + "</pre>"
}

// The picture of status in README.md is of the ticket that 'make tickets' plays in a whole cluster. With -update it is
// written, as 'make pictures' does.
func TestUI_PictureOfStatus(t *testing.T) {
	t.Parallel()
	output := string(try(os.ReadFile(statusOutput)).must(t))
	url := "data:text/html;base64," + base64.StdEncoding.EncodeToString([]byte(terminalPage(statusCommand, output)))
	b := newBrowser(t)
	for _, scheme := range []string{"light", "dark"} {
		b.scheme(scheme)
		b.do(chromedp.EmulateViewport(980, int64(50+22*(1+strings.Count(output, "\n")))))
		b.do(chromedp.Navigate(url))
		path := filepath.Join("../docs/pictures", "status-"+scheme+".png")
		if *update {
			picture := try(chromedp.Run(b.ctx, chromedp.CaptureScreenshot())).must(t)
			check(t, os.WriteFile(path, picture, 0o644))
		}
		if size := try(os.Stat(path)).must(t).Size(); size < 10<<10 || size > 200<<10 {
			t.Errorf("%s has %d bytes", path, size)
		}
	}
}
