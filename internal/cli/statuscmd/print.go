package statuscmd

import (
	"bytes"
	"fmt"
	"io"

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
func write(w io.Writer, form string, d *document.Status, style table.Style) error {
	var text bytes.Buffer
	if form == "json" || form == "yaml" {
		encoded, err := document.Encode(form, d)
		if err != nil {
			return err
		}
		text.Write(encoded)
	} else {
		writeText(&text, d, style)
	}
	_, err := text.WriteTo(w)
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
