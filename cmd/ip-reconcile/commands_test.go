package main

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
)

const commandsFile = "../../docs/reference/commands.md"

// many is from how many commands on the flag of a command is not listed with it: kubectl's flags for the cluster, and
// what says how to judge.
const many = 8

// nameOf is a flag as it is typed.
func nameOf(f *pflag.Flag) string {
	if f.Shorthand != "" {
		return "`-" + f.Shorthand + "`, `--" + f.Name + "`"
	}
	return "`--" + f.Name + "`"
}

// flagsOf are the flags of the commands by name; of each its meanings, with the commands that have this meaning.
func flagsOf(commands []*cobra.Command) map[string]map[string][]string {
	found := map[string]map[string][]string{}
	for _, c := range commands {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			usage := f.Usage
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && !strings.Contains(usage, "(default") {
				usage += " (default `" + f.DefValue + "`)"
			}
			if found[nameOf(f)] == nil {
				found[nameOf(f)] = map[string][]string{}
			}
			found[nameOf(f)][usage] = append(found[nameOf(f)][usage], c.Name())
		})
	}
	return found
}

// writeFlags lists each flag once. Where it has several meanings, these begin with their commands.
func writeFlags(b *strings.Builder, all map[string]map[string][]string) {
	plain := func(name string) string { return name[strings.Index(name, "--"):] }
	names := slices.SortedFunc(maps.Keys(all), func(a, b string) int { return cmp.Compare(plain(a), plain(b)) })
	for _, name := range names {
		meanings := all[name]
		for _, usage := range slices.SortedFunc(maps.Keys(meanings), func(a, b string) int {
			return slices.Compare(meanings[a], meanings[b])
		}) {
			whose := ""
			if len(meanings) > 1 {
				whose = " (" + strings.Join(meanings[usage], ", ") + ")"
			}
			fmt.Fprintf(b, "- %s%s: %s\n", name, whose, usage)
		}
	}
}

// commandsPage has what --help does not show at one glance: every synopsis, and which flag is whose.
func commandsPage() string {
	root := newRoot(terminal())
	commands := slices.DeleteFunc(root.Commands(), func(c *cobra.Command) bool {
		return c.Name() == "help" || c.Name() == "completion"
	})
	var b strings.Builder
	fmt.Fprintf(&b, "# Commands\n\n<!-- Generated from the code by `make generate`. -->\n\n%s\n\n", root.Long)
	b.WriteString("`ip-reconcile COMMAND --help` has the whole help of a command with examples. All [exit codes]" +
		"(exit-codes.md) are on\none page, and so is [how to export what `--snapshot` reads]" +
		"(../operate/must-gather.md#export-a-cluster). `completion`\ngenerates the script for bash, zsh, fish or " +
		"powershell.\n")
	all := flagsOf(commands)
	for _, c := range commands {
		fmt.Fprintf(&b, "\n## %s\n\n    %s\n\n%s.\n", c.Name(), c.UseLine(), c.Short)
		var own []string
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			n := 0
			for _, names := range all[nameOf(f)] {
				n += len(names)
			}
			if n > 0 && n < many {
				own = append(own, "`--"+f.Name+"`")
			}
		})
		if len(own) > 0 {
			fmt.Fprintf(&b, "Its flags: %s.\n", strings.Join(own, ", "))
		}
	}
	b.WriteString("\n## Flags\n\nA flag that stands at no command is of all that read the cluster or inspect a node. " +
		"kubectl's other flags for\nthe cluster and the user work, too, except with `version`: see `kubectl options`.\n\n")
	writeFlags(&b, all)
	return b.String()
}

// docs/reference/commands.md is written by this test where UPDATE_DOCS is set, as 'make generate' does.
func TestCommands_Docs(t *testing.T) {
	t.Setenv("NODE_NAME", "")
	t.Setenv("POD_UID", "")
	page := commandsPage()
	if os.Getenv("UPDATE_DOCS") != "" {
		write(t, commandsFile, page)
		return
	}
	if got, err := os.ReadFile(commandsFile); err != nil || string(got) != page {
		t.Errorf("%s is not what the commands say (%v): run 'make generate'", commandsFile, err)
	}
}

func TestCommands_FirstFlags(t *testing.T) {
	for _, c := range newRoot(terminal()).Commands() {
		first := 0
		c.InitDefaultHelpFlag()
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden && !flags.IsAdvanced(c, f) {
				first++
			}
		})
		if first > 15 {
			t.Errorf("%s has %d flags in the first list of its help", c.Name(), first)
		}
	}
}

func TestCommands_NoReadOnlyFlagReleases(t *testing.T) {
	for _, c := range newRoot(terminal()).Commands() {
		if !strings.HasSuffix(c.Short, "read-only") {
			continue
		}
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			for _, word := range []string{"release ", "free ", "write "} {
				if strings.HasPrefix(f.Usage, word) {
					t.Errorf("%s --%s: %s", c.Name(), f.Name, f.Usage)
				}
			}
		})
	}
}

func TestRun_DryRunValues(t *testing.T) {
	_, want, _ := run(t, "run", "--dry-run", "--snapshot", sample)
	for _, value := range []string{"client", "true"} {
		if _, got, errs := run(t, "run", "--dry-run="+value, "--snapshot", sample); got != want {
			t.Errorf("--dry-run=%s: %s%s\nwant %s", value, got, errs, want)
		}
	}
	_, want, _ = run(t, "run", "--snapshot", sample)
	for _, value := range []string{"none", "false"} {
		if _, got, errs := run(t, "run", "--dry-run="+value, "--snapshot", sample); got != want {
			t.Errorf("--dry-run=%s: %s%s\nwant %s", value, got, errs, want)
		}
	}
	if code, _, _ := run(t, "run", "--dry-run=server", "--snapshot", sample); code != exitFailed {
		t.Errorf("--dry-run=server: exit code %d", code)
	}
}
