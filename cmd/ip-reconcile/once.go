package main

import (
	"errors"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// givenOnce are the flags of one value that say what a command is about. A second value would replace the first one,
// and the command would say that everything is done.
var givenOnce = []string{"pod", "on-node", "filename", "output-file", "snapshot", "override", "because", "new-range",
	"range-start", "range-end", "definition"}

// onceValue is the value of a flag that cannot be given twice. The same value can, since cobra parses a command line
// several times to complete it.
type onceValue struct {
	pflag.Value
	isSet bool
}

func (v *onceValue) Set(text string) error {
	if v.isSet && text != v.String() {
		return errors.New("the flag is given twice, and takes one value")
	}
	v.isSet = true
	return v.Value.Set(text)
}

// refuseRepeated has a command refuse a second value of the flags that have one. --snapshot of check takes two.
func refuseRepeated(c *cobra.Command) {
	for _, name := range givenOnce {
		f := c.Flags().Lookup(name)
		if f == nil || f.Value.Type() != "string" {
			continue
		}
		if _, takesTwo := f.Value.(*snapshots); !takesTwo {
			f.Value = &onceValue{Value: f.Value}
		}
	}
}
