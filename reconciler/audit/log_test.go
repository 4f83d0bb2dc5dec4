package audit

import (
	"strings"
	"testing"
)

// A file that lacks the first records of a process says so, as one that lacks others does.
func TestVerify_WithoutItsBeginning(t *testing.T) {
	text := `{"seq":1,"run":"a","what":"Paused"}` + "\n" + `{"seq":2,"run":"a","what":"Resumed"}` + "\n" +
		`{"seq":1,"run":"b","what":"Paused"}` + "\n"
	byRun := func(r *Record) string { return r.Run }
	for without, want := range map[string]string{"": "", `{"seq":1,"run":"a","what":"Paused"}` + "\n": "audit.log:1"} {
		lines, err := ReadLog("audit.log", strings.NewReader(strings.Replace(text, without, "", 1)))
		check(t, err)
		faults := Verify(lines, false, byRun)
		if want == "" && len(faults) > 0 || want != "" && (len(faults) != 1 || faults[0].Place != want) {
			t.Errorf("without %q: %v", without, faults)
		}
		if faults := Verify(lines, true, byRun); len(faults) > 0 {
			t.Errorf("of the ring, without %q: %v", without, faults)
		}
	}
}

// endless is a file that does not end.
type endless byte

func (c endless) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = byte(c)
	}
	return len(p), nil
}

func TestReadLog_Limits(t *testing.T) {
	for c, want := range map[endless]string{'\n': "audit.log is too large to be read", 'x': "audit.log:1: "} {
		if _, err := ReadLog("audit.log", c); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%q without an end: %v", byte(c), err)
		}
	}
}
