package statuscmd

import (
	"fmt"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/document"
)

// lines collects what is said, in the order in which it was checked. next is the command to
// type next.
type lines []document.StatusLine

func (l *lines) ok(id, format string, args ...any) {
	l.add(document.LevelOK, id, "", fmt.Sprintf(format, args...))
}

func (l *lines) unknown(id, format string, args ...any) {
	l.add(document.LevelUnknown, id, "", fmt.Sprintf(format, args...))
}

func (l *lines) warn(id, next, format string, args ...any) {
	l.add(document.LevelWarning, id, next, fmt.Sprintf(format, args...))
}

func (l *lines) fail(id, next, format string, args ...any) {
	l.add(document.LevelError, id, next, fmt.Sprintf(format, args...))
}

func (l *lines) add(level document.Level, id, next, message string) {
	*l = append(*l, document.StatusLine{ID: id, Level: level, Message: message, Next: next})
}
