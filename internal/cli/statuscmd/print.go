package statuscmd

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
)

// symbol stands for a level on a terminal.
func symbol(level document.Level) (text string, paint table.Level) {
	switch level {
	case document.LevelOK:
		return "✓", table.Good
	case document.LevelWarning:
		return "!", table.Warn
	case document.LevelError:
		return "✗", table.Bad
	}
	return "–", table.Plain
}

// write writes a document in the form asked for.
func write(w io.Writer, form string, d *document.Status, style table.Style) error {
	var text []byte
	var err error
	switch form {
	case "json":
		var buf bytes.Buffer
		enc := json.NewEncoder(&buf)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		err = enc.Encode(d)
		text = buf.Bytes()
	case "yaml":
		text, err = yaml.Marshal(d)
	default:
		text = asText(d, style)
	}
	if err != nil {
		return err
	}
	_, err = w.Write(text)
	return err
}

// asText has what needs attention first, each line with what to type next.
func asText(d *document.Status, style table.Style) []byte {
	var out bytes.Buffer
	count := map[document.Level]int{}
	for _, l := range d.Lines {
		count[l.Level]++
	}
	fmt.Fprintf(&out, "%s: %s, %s\n", d.Cluster.Server, plural(count[document.LevelError], "error"), plural(count[document.LevelWarning], "warning"))
	for _, level := range []document.Level{document.LevelError, document.LevelWarning, document.LevelOK, document.LevelUnknown} {
		mark, paint := symbol(level)
		for _, l := range d.Lines {
			if l.Level != level {
				continue
			}
			var text bytes.Buffer
			style.Wrapped(&text, mark+" ", l.Message)
			out.WriteString(style.Paint(paint, mark))
			out.Write(text.Bytes()[len(mark):])
			if l.Next != "" {
				fmt.Fprintf(&out, "    %s\n", l.Next)
			}
		}
	}
	return out.Bytes()
}

func plural(n int, what string) string {
	switch n {
	case 0:
		return "no " + what + "s"
	case 1:
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
