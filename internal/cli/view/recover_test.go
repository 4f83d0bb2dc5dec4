package view

import "testing"

func TestRecoverReport_IsAllWritten(t *testing.T) {
	for _, c := range []struct {
		states []string
		want   bool
	}{
		{nil, true},
		{[]string{Written, Written}, true},
		{[]string{Written, Planned}, false},
		{[]string{"Paused", Written}, false},
		{[]string{"WriteFailed"}, false},
	} {
		d := &RecoverReport{}
		for _, state := range c.states {
			d.Writes = append(d.Writes, WriteRow{State: state})
		}
		if got := d.IsAllWritten(); got != c.want {
			t.Errorf("%v: got %t, want %t", c.states, got, c.want)
		}
	}
}
