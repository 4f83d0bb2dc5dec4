package flags

import (
	"fmt"

	"github.com/spf13/pflag"
)

// RefuseWithout returns an error if one of some flags was given without the flag that gives it an effect. hint says
// what may be meant; it may be "".
func RefuseWithout(f *pflag.FlagSet, needed, hint string, names ...string) error {
	if f.Lookup(needed) == nil || f.Changed(needed) {
		return nil
	}
	for _, name := range names {
		if f.Changed(name) {
			return fmt.Errorf("--%s does nothing without --%s%s", name, needed, hint)
		}
	}
	return nil
}

// RefuseWith returns an error if one of some flags was given together with a flag that takes its effect away. why says
// how it does.
func RefuseWith(f *pflag.FlagSet, other, why string, names ...string) error {
	if !f.Changed(other) {
		return nil
	}
	for _, name := range names {
		if f.Changed(name) {
			return fmt.Errorf("--%s does nothing with --%s, %s", name, other, why)
		}
	}
	return nil
}
