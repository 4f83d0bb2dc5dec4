package screen

import "github.com/ip-reconcile/ip-reconcile/internal/cli/document"

var levels = []struct {
	document.Level
	mark string
}{
	{document.LevelError, "✗ "}, {document.LevelWarning, "! "}, {document.LevelOK, "✓ "}, {document.LevelUnknown, "– "},
}

// Status writes the lines of a status by level, each with the command to type next.
func (s *Screen) Status(d *document.Status) {
	count := map[document.Level]int{}
	for _, l := range d.Lines {
		count[l.Level]++
	}
	s.Line("%s, %s.", Count(count[document.LevelError], "error"), Count(count[document.LevelWarning], "warning"))
	for _, level := range levels {
		for _, l := range d.Lines {
			if l.Level != level.Level {
				continue
			}
			s.Text(level.mark, l.Message)
			if l.Next != "" {
				s.Line("    %s", l.Next)
			}
		}
	}
}
