package screen

import (
	"strings"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

var levels = []struct {
	view.Level
	mark string
}{
	{view.LevelError, "✗ "}, {view.LevelWarning, "! "}, {view.LevelOK, "✓ "}, {view.LevelUnknown, "– "},
}

// Status writes the lines of a status by level, each with the command to type next.
func (s *Screen) Status(d *view.StatusReport) {
	s.List()
	count := map[view.Level]int{}
	for _, l := range d.Lines {
		count[l.Level]++
	}
	s.Line("%s, %s.", Count(count[view.LevelError], "error"), Count(count[view.LevelWarning], "warning"))
	for _, level := range levels {
		for _, l := range d.Lines {
			if l.Level != level.Level {
				continue
			}
			if s.onlyRows() {
				s.row(strings.TrimSpace(level.mark + view.Clean(l.Message) + "  " + l.Next))
			}
			s.Text(level.mark, l.Message)
			if l.Next != "" {
				s.Line("    %s", l.Next)
			}
			for _, step := range l.Advice {
				s.step("  ", step)
			}
		}
	}
}

// Sysdump writes where the bundle is, what it lacks, and the command that judges it.
func (s *Screen) Sysdump(d *view.Sysdump, path, check string) {
	s.Line("Wrote %s: %s.", path, Count(len(d.Files), "file"))
	for _, text := range d.Missing {
		s.Text("! ", text)
	}
	if len(d.Lists) > 0 {
		s.Line("Judge it: %s", check)
	}
}
