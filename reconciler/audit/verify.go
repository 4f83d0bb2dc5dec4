package audit

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
)

// Line is a record as it is stored.
type Line struct {
	Record
	Place string // the object or file, and the line
	Err   error  // it cannot be read
}

// maxLine and maxValues limit the text of a record, which somebody else may have written, before it is decoded: a value
// of three bytes takes some hundred. A record has some hundred values, and a name for each node.
const maxLine, maxValues = 1 << 20, 100_000

func newLine(place string, text []byte) Line {
	l := Line{Place: place}
	if len(text) > maxLine || bytes.Count(text, []byte(","))+bytes.Count(text, []byte("[")) > maxValues {
		l.Err = fmt.Errorf("it is no record: it has more than %d bytes or %d values", maxLine, maxValues)
		return l
	}
	l.Err = json.Unmarshal(text, &l.Record)
	return l
}

// maxLines and maxLog limit what is read of a file, which somebody else may have written: each line is kept.
const maxLines, maxLog = 500_000, 1 << 30

// ReadLog reads records, one a line.
func ReadLog(name string, r io.Reader) (all []Line, err error) {
	text := &io.LimitedReader{R: r, N: maxLog + 1}
	lines := bufio.NewScanner(text)
	for lines.Buffer(nil, maxLine); lines.Scan(); {
		if len(all) == maxLines || text.N == 0 {
			return nil, fmt.Errorf("%s is too large to be read: it may have %d lines and %d bytes: split it", name, maxLines,
				maxLog)
		}
		all = append(all, newLine(fmt.Sprintf("%s:%d", name, len(all)+1), lines.Bytes()))
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s:%d: %w", name, len(all)+1, err)
	}
	return all, nil
}

// Fault is what is wrong with a record.
type Fault struct {
	Place   string `json:"place"` // the object or file, and the line
	Message string `json:"message"`
}

// Verify judges the evidence of each record again, and finds missing numbers. seriesOf names the records that are
// numbered together. The first number of a series is 1 if no record expires, as in a file. Otherwise it is not checked.
func Verify(lines []Line, expires bool, seriesOf func(*Record) string) []Fault {
	faults, lastOf := []Fault{}, map[string]uint64{}
	for i := range lines {
		l := &lines[i]
		fault := func(format string, args ...any) {
			faults = append(faults, Fault{l.Place, fmt.Sprintf(format, args...)})
		}
		if l.Err != nil {
			fault("It cannot be read: %v.", l.Err)
			continue
		}
		series := seriesOf(&l.Record)
		switch last, isKnown := lastOf[series]; {
		case isKnown && l.Seq != last+1:
			fault("Records are missing: record %d follows record %d.", l.Seq, last)
		case !isKnown && !expires && l.Seq != 1:
			fault("Records are missing: the first one of its process is record %d. An older file may have them.", l.Seq)
		}
		lastOf[series] = l.Seq
		if l.Evidence == nil {
			continue
		}
		switch d, err := l.Evidence.Judge(); {
		case err != nil:
			fault("The evidence of record %d cannot be judged: %v.", l.Seq, err)
		case d.Verdict != l.Verdict || d.Reason.String() != l.Reason || d.Proven != l.Proven:
			fault("The evidence of record %d is judged %s, %s, proven %v; the record has %s, %s, proven %v.",
				l.Seq, d.Verdict, d.Reason, d.Proven, l.Verdict, l.Reason, l.Proven)
		}
	}
	return faults
}
