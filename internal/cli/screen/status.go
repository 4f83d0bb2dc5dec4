package screen

import (
	"slices"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
)

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

// Sysdump writes where the bundle is, what it lacks, and the command that judges it.
func (s *Screen) Sysdump(d *document.Sysdump, path, flags string) {
	s.Line("Wrote %s: %s.", path, Count(len(d.Files), "file"))
	for _, text := range d.Missing {
		s.Text("! ", text)
	}
	if slices.Contains(d.Files, "objects-001.json") {
		s.Line("Judge it: ip-reconcile check --snapshot %s --all%s", path, flags)
	}
}
