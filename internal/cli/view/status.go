package view

import (
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/lists"
)

// Level is the level of a line of a status.
type Level string

const (
	LevelOK      Level = "OK"      // as it should be
	LevelWarning Level = "Warning" // works, but needs attention
	LevelError   Level = "Error"   // something does not work
	LevelUnknown Level = "Unknown" // could not be read, or is not in use
)

// StatusReport is the document of status.
type StatusReport struct {
	Header
	// Level is the worst level of the lines, without Unknown: OK, Warning or Error.
	Level Level `json:"level"`
	// Lines are the checks, in no particular order.
	Lines []StatusLine `json:"lines"`
}

// StatusLine is the result of one check.
type StatusLine struct {
	// ID is the name of the check, for example leader. Later versions may have more checks.
	ID    string `json:"id"`
	Level Level  `json:"level"`
	// Message is one or two sentences.
	Message string `json:"message"`
	// Next is the command to type next; absent where nothing is to be done.
	Next string `json:"next,omitempty"`
	// Advice has the steps that end what the line says, where that takes more than one command; absent otherwise.
	Advice []Advice `json:"advice,omitempty"`
}

// NewStatusReport returns the document of status.
func NewStatusReport(at time.Time, lines []StatusLine) *StatusReport {
	s := &StatusReport{Header: headerOf(KindStatus, at), Level: LevelOK, Lines: lists.Clone(lines)}
	for _, l := range lines {
		if l.Level == LevelError || l.Level == LevelWarning && s.Level == LevelOK {
			s.Level = l.Level
		}
	}
	return s
}

// IDs returns the names of all checks.
func (s *StatusReport) IDs() []string {
	return lists.Map(s.Lines, func(l StatusLine) string { return l.ID })
}
