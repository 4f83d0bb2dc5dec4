package main

import (
	"cmp"
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

// row is a flag with its help, and the commands that have it.
type row struct{ flag, usage, commands string }

// allFlags are the flags of the commands, each once for each help that it has.
func allFlags(commands []*cobra.Command) (rows []row) {
	found := map[row][]string{}
	for _, c := range commands {
		c.LocalFlags().VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Name == "help" {
				return
			}
			name := "`--" + f.Name + "`"
			if f.Shorthand != "" {
				name = "`-" + f.Shorthand + "`, " + name
			}
			usage := strings.ReplaceAll(f.Usage, "|", `\|`)
			if f.DefValue != "" && f.DefValue != "false" && f.DefValue != "[]" && !strings.Contains(usage, "(default") {
				usage += " (default `" + f.DefValue + "`)"
			}
			found[row{flag: name, usage: usage}] = append(found[row{flag: name, usage: usage}], c.Name())
		})
	}
	for r, names := range found {
		r.commands = named(names, commands)
		rows = append(rows, r)
	}
	plain := func(r row) string { return r.flag[strings.Index(r.flag, "--"):] }
	slices.SortFunc(rows, func(a, b row) int {
		return cmp.Or(cmp.Compare(plain(a), plain(b)), cmp.Compare(a.commands, b.commands))
	})
	return rows
}

// named lists commands, or which ones lack a flag if that is shorter. `version` has no flags.
func named(names []string, commands []*cobra.Command) string {
	var others []string
	for _, c := range commands {
		if c.Name() != "version" && !slices.Contains(names, c.Name()) {
			others = append(others, c.Name())
		}
	}
	switch {
	case len(others) == 0:
		return "all"
	case len(others) < len(names):
		return "all but " + strings.Join(others, ", ")
	default:
		return strings.Join(names, ", ")
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
	for _, c := range commands {
		fmt.Fprintf(&b, "\n## %s\n\n    %s\n\n%s.\n", c.Name(), c.UseLine(), c.Short)
	}
	b.WriteString("\n## Flags\n\nkubectl's other flags for the cluster and the user work with all commands but " +
		"`version`: see `kubectl options`.\n\n")
	b.WriteString("| flag | meaning | commands |\n|---|---|---|\n")
	for _, r := range allFlags(commands) {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", r.flag, r.usage, r.commands)
	}
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
