//go:build cluster

package e2e

import (
	"cmp"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
)

// A match is a scenario with one contender.
type match struct {
	*installation
	saw []string // what the table adds in words
}

// remark is added to the table.
func (m *match) remark(text string) { m.saw = append(m.saw, text) }

// twoPasses is long enough for a schedule of "* * * * *".
const twoPasses = 2*time.Minute + 10*time.Second

// passes lets two passes go by, whose ends not every contender tells.
func (m *match) passes() { time.Sleep(twoPasses) }

// settled waits until what leaked is freed, or two passes were made.
func (m *match) settled() {
	within(twoPasses, time.Second, func() bool { return len(m.oracle.report().Leaked) == 0 })
}

// everyMinute is the shortest that a cron expression can say.
const everyMinute = "* * * * *"

// TestBesideUpstream plays the scenarios with the product and with
// whereabouts' own reconciler and control loop, and writes the table that the
// documentation has, where IP_RECONCILE_TABLE says.
func TestBesideUpstream(t *testing.T) {
	file := os.Getenv("IP_RECONCILE_TABLE")
	if file == "" {
		t.Skip("this is 45 minutes to fill a table, not a test of the product: make beside")
	}
	rows := make([][]string, len(besides))
	t.Run("match", func(t *testing.T) {
		for n, s := range besides {
			rows[n] = make([]string, len(contenders))
			for k, c := range contenders {
				if c.restores && !s.restores {
					continue
				}
				t.Run(strings.ReplaceAll(s.name, " ", "-")+"/"+c.name, func(t *testing.T) {
					t.Parallel()
					m := &match{installation: c.install(t, cmp.Or(s.schedule, everyMinute))}
					check(t, m.CreateNAD(t.Context(), blue))
					check(t, m.CreateNAD(t.Context(), simple("red", "10.2.0.0/24")))
					s.play(t, m)
					m.settled()
					saw := m.oracle.report()
					t.Log(saw)
					rows[n][k] = row(s.name, c.name, saw, m.saw)
					if k == 0 && len(saw.Wrong)+len(saw.Leaked) > 0 {
						t.Errorf("ours: %s", saw)
						for _, a := range saw.Wrong {
							t.Errorf("%s: %s\n%s", a, m.oracle.blamed(a), m.oracle.story(a))
						}
					}
				})
			}
		}
	})
	check(t, writeTable(file, rows))
}

// begins is how the row of a scenario with a contender begins.
func begins(scenario, contender string) string {
	return fmt.Sprintf("| %s | %s |", scenario, contender)
}

func row(scenario, contender string, saw oracleReport, remarks []string) string {
	took := "–"
	if n := len(saw.Freed); n > 0 {
		took = fmt.Sprintf("%.0f s", saw.Freed[n-1].Seconds())
		if first := fmt.Sprintf("%.0f", saw.Freed[0].Seconds()); n > 1 && first+" s" != took {
			took = first + "–" + took
		}
	}
	return fmt.Sprintf("%s %d | %d | %d | %s | %s |\n", begins(scenario, contender),
		len(saw.Wrong), len(saw.Duplicates), len(saw.Leaked), took, strings.Join(remarks, " "))
}

const (
	tableBegins = "<!-- the table is written by make beside -->\n"
	tableEnds   = "<!-- end of the table -->\n"
)

// writeTable puts the rows between the marks of a file. A scenario that was not played
// to its end this time keeps the row that it has there.
func writeTable(file string, rows [][]string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	before, rest, first := strings.Cut(string(text), tableBegins)
	old, after, last := strings.Cut(rest, tableEnds)
	if !first || !last {
		return fmt.Errorf("%s has no place for the table: it is between %q and %q", file, tableBegins, tableEnds)
	}
	table := "| Situation | Reconciler | Wrongly freed | On the wire twice | Leaked | Freed after | Remarks |\n|---|---|--:|--:|--:|--:|---|\n"
	for n, s := range besides {
		for k, c := range contenders {
			row := rows[n][k]
			for line := range strings.Lines(old) {
				if row == "" && strings.HasPrefix(line, begins(s.name, c.name)) {
					row = line
				}
			}
			table += row
		}
	}
	return os.WriteFile(file, []byte(before+tableBegins+table+tableEnds+after), 0o644)
}
