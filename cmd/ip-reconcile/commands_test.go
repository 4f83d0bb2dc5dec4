package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/flags"
)

const commandsFile = "../../docs/reference/commands.md"

// ofSnapshots are the flags that say how --snapshot is judged, in each command that has it.
var ofSnapshots = []string{"`--now`", "`--pods-complete`"}

// ofInspection are the flags that say how --cri inspects a node, in each command that has it.
var ofInspection = []string{"`--boot-id-file`", "`--cni-multus`", "`--cni-results`", "`--netns-dir`", "`--node`"}

// flagsOf are the flags of a command, as they are typed.
func flagsOf(c *cobra.Command) (names []string) {
	c.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Hidden || f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name = "`-" + f.Shorthand + "`/" + name
		}
		names = append(names, name)
	})
	return names
}

// everyCommand are the commands of a program, each followed by those below it.
func everyCommand(root *cobra.Command) (all []*cobra.Command) {
	for _, c := range root.Commands() {
		all = append(append(all, c), everyCommand(c)...)
	}
	return all
}

// everywhere are the flags that all commands have which read the cluster.
func everywhere(commands []*cobra.Command) (names []string) {
	n := map[string]int{}
	for _, c := range commands {
		for _, name := range flagsOf(c) {
			n[name]++
		}
	}
	for name, count := range n {
		if count >= len(commands)-2 { // agent and version do not read it
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// commandsPage has what --help does not show at one glance: every synopsis, and which flag is whose.
func commandsPage() string {
	root := newRoot(terminal())
	commands := slices.DeleteFunc(everyCommand(root), func(c *cobra.Command) bool {
		return c.Name() == "help" || c.Name() == "completion"
	})
	var b strings.Builder
	b.WriteString("# Commands\n\n<!-- Generated from the code by `make generate`. -->\n\n" +
		"`ip-reconcile COMMAND --help` has the whole help of a command with examples. All [exit codes]" +
		"(exit-codes.md) are on\none page, and so is [how to export what `--snapshot` reads]" +
		"(../operate/must-gather.md#export-a-cluster). `completion`\ngenerates the script for bash, zsh, fish or " +
		"powershell.\n")
	shared := everywhere(commands)
	for _, c := range commands {
		name := strings.TrimPrefix(c.CommandPath(), root.Name()+" ")
		fmt.Fprintf(&b, "\n## %s\n\n    %s\n\n%s.", name, c.UseLine(), c.Short)
		inspects := c.Name() != "agent" && c.Flags().Lookup("cri") != nil
		names := slices.DeleteFunc(flagsOf(c), func(name string) bool {
			return slices.Contains(shared, name) || inspects && slices.Contains(ofInspection, name) ||
				slices.Contains(ofSnapshots, name)
		})
		if len(names) > 0 {
			fmt.Fprintf(&b, " Flags: %s.", strings.Join(names, ", "))
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(&b, "\n## Flags of all commands\n\nAll commands that read the cluster have %s.\n\nkubectl's other flags "+
		"for the cluster and the user work, too: see `kubectl options`.\n", strings.Join(shared, ", "))
	fmt.Fprintf(&b, "\nCommands with `--cri` have %s,\nas `agent` has. Commands with `--snapshot` have %s.\n",
		strings.Join(ofInspection, ", "), strings.Join(ofSnapshots, " and "))
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
	for _, c := range everyCommand(newRoot(terminal())) {
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
	for _, c := range everyCommand(newRoot(terminal())) {
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
