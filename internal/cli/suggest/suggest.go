// Package suggest finds which word may be meant by a mistyped one.
package suggest

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
)

// Words returns the known words that may be meant by a typed one, by cobra's rules for commands: those that differ in
// two letters at most, and those that begin with what was typed. It also returns those of which what was typed is a
// part between dashes, as of pod-namespace.
func Words(typed string, known ...string) (found []string) {
	if typed == "" {
		return nil
	}
	// A command with the words as subcommands is how cobra offers its rules. Of a short word two letters are too much.
	all := &cobra.Command{SuggestionsMinimumDistance: min(2, len(typed)/2)}
	for _, word := range known {
		all.AddCommand(&cobra.Command{
			Use: word, SuggestFor: strings.Split(word, "-"), Run: func(*cobra.Command, []string) {},
		})
	}
	for _, word := range all.SuggestionsFor(typed) {
		if !slices.Contains(found, word) {
			found = append(found, word)
		}
	}
	return found
}

// Question asks whether one of some words is meant, as in ": did you mean --pool or --pods?". It is "" without words.
// before is written before each word.
func Question(before string, words []string) string {
	if len(words) == 0 {
		return ""
	}
	return ": did you mean " + before + strings.Join(words, " or "+before) + "?"
}

// SeeHelp returns an error with a text, and with the command that prints the help of a command.
func SeeHelp(text, command string) error {
	see := fmt.Sprintf("; see '%s --help'", command)
	if strings.HasSuffix(text, "?") {
		see = fmt.Sprintf(" See '%s --help'", command)
	}
	return errors.New(text + see)
}
