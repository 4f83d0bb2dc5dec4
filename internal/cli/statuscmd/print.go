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

// levels are what stands for the levels on a terminal, what needs attention first.
var levels = []struct {
	document.Level
	mark  string
	paint table.Level
}{
	{document.LevelError, "✗", table.Bad},
	{document.LevelWarning, "!", table.Warn},
	{document.LevelOK, "✓", table.Good},
	{document.LevelUnknown, "–", table.Plain},
}

// write writes a document in the form asked for.
func write(w io.Writer, form string, d *document.Status, style table.Style) (err error) {
	var text bytes.Buffer
	switch form {
	case "json":
		enc := json.NewEncoder(&text)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		err = enc.Encode(d)
	case "yaml":
		var all []byte
		all, err = yaml.Marshal(d)
		text.Write(all)
	default:
		writeText(&text, d, style)
	}
	if err != nil {
		return err
	}
	_, err = text.WriteTo(w)
	return err
}

// writeText writes the lines by level, each with the command to type next.
func writeText(out *bytes.Buffer, d *document.Status, style table.Style) {
	count := map[document.Level]int{}
	for _, l := range d.Lines {
		count[l.Level]++
	}
	fmt.Fprintf(out, "%s: %s, %s\n", d.Cluster.Server, plural(count[document.LevelError], "error"), plural(count[document.LevelWarning], "warning"))
	for _, level := range levels {
		for _, l := range d.Lines {
			if l.Level != level.Level {
				continue
			}
			var text bytes.Buffer
			style.Wrapped(&text, level.mark+" ", l.Message)
			out.WriteString(style.Paint(level.paint, level.mark))
			out.Write(text.Bytes()[len(level.mark):])
			if l.Next != "" {
				fmt.Fprintf(out, "    %s\n", l.Next)
			}
		}
	}
}
