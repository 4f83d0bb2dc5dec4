package screen

import (
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
	"github.com/ip-reconcile/ip-reconcile/internal/cli/table"
)

// levels are what stands for the levels of a status, what needs attention first.
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

// Status writes the lines of a status by level, each with the command to type next.
func (s *Screen) Status(d *document.Status) {
	count := map[document.Level]int{}
	for _, l := range d.Lines {
		count[l.Level]++
	}
	s.Line("%s: %s, %s", d.Cluster.Server, Count(count[document.LevelError], "error"), Count(count[document.LevelWarning], "warning"))
	for _, level := range levels {
		for _, l := range d.Lines {
			if l.Level != level.Level {
				continue
			}
			var text strings.Builder
			s.Wrapped(&text, level.mark+" ", l.Message)
			s.text.WriteString(s.Paint(level.paint, level.mark) + text.String()[len(level.mark):])
			if l.Next != "" {
				s.Line("    %s", l.Next)
			}
		}
	}
}
