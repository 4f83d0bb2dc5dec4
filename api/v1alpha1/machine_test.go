package v1alpha1

import "testing"

// One ID decides that two machines differ; both are needed to say that they are one.
func TestMachine(t *testing.T) {
	both := Machine{SystemUUID: "a", MachineID: "b"}
	for name, c := range map[string]struct {
		a, b          Machine
		same, differs bool
	}{
		"one machine":                    {both, both, true, false},
		"a disk that was cloned":         {both, Machine{SystemUUID: "other", MachineID: "b"}, false, true},
		"boards with one system UUID":    {both, Machine{SystemUUID: "a", MachineID: "other"}, false, true},
		"the machine ID is not known":    {both, Machine{SystemUUID: "a"}, false, false},
		"the system UUID is not known":   {both, Machine{MachineID: "b"}, false, false},
		"of two an ID each is known":     {Machine{SystemUUID: "a"}, Machine{MachineID: "b"}, false, false},
		"of two the same one is known":   {Machine{SystemUUID: "a"}, Machine{SystemUUID: "a"}, false, false},
		"the only known IDs differ":      {Machine{MachineID: "b"}, Machine{MachineID: "other"}, false, true},
		"nothing is known of one":        {both, Machine{}, false, false},
		"nothing is known of either one": {Machine{}, Machine{}, false, false},
	} {
		for _, m := range [][2]Machine{{c.a, c.b}, {c.b, c.a}} {
			if m[0].Same(m[1]) != c.same || m[0].Differs(m[1]) != c.differs {
				t.Errorf("%s: same %v, differs %v", name, m[0].Same(m[1]), m[0].Differs(m[1]))
			}
		}
	}
	for m, want := range map[Machine]bool{both: true, {SystemUUID: "a"}: false, {MachineID: "b"}: false, {}: false} {
		if m.IsKnown() != want {
			t.Errorf("%+v is known: %v", m, !want)
		}
	}
}
