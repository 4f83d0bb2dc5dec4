package document

// Level is how much a line of a status asks for.
type Level string

const (
	LevelOK      Level = "OK"      // as it should be
	LevelWarning Level = "Warning" // works, but somebody should know or decide
	LevelError   Level = "Error"   // something does not work
	LevelUnknown Level = "Unknown" // it could not be read, or is not in use; nothing is concluded
)

// Status is what status prints.
type Status struct {
	Header
	// Level is the worst of the lines that say something: OK, Warning or Error.
	Level Level `json:"level"`
	// Lines are what was checked, in no order that matters.
	Lines []StatusLine `json:"lines"`
}

// StatusLine is one thing that was checked.
type StatusLine struct {
	// ID names what was checked, as in leader; later versions may check more.
	ID    string `json:"id"`
	Level Level  `json:"level"`
	// Message is a sentence, or two.
	Message string `json:"message"`
	// Next is the command to type next, left out where nothing is to be done.
	Next string `json:"next,omitempty"`
}

// OfStatus is the status that the lines come to.
func OfStatus(h Header, lines []StatusLine) *Status {
	s := &Status{Header: h, Level: LevelOK, Lines: append([]StatusLine{}, lines...)}
	for _, l := range lines {
		if l.Level == LevelError || l.Level == LevelWarning && s.Level == LevelOK {
			s.Level = l.Level
		}
	}
	return s
}

// IDs name all that was checked.
func (s *Status) IDs() (ids []string) {
	for _, l := range s.Lines {
		ids = append(ids, l.ID)
	}
	return ids
}
