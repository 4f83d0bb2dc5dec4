package screen

import (
	"cmp"
	"strings"
	"time"

	"github.com/ip-reconcile/ip-reconcile/internal/cli/view"
)

// History writes a row for each record, with its evidence if hasWords. With isVerify it writes only the faults.
func (s *Screen) History(d *view.HistoryReport, hasWords, isVerify bool) {
	s.List()
	if len(d.Faults) > 0 {
		s.Title("FAULTS", len(d.Faults))
		for _, f := range d.Faults {
			if s.onlyRows() {
				s.row(f.Place + "  " + view.Clean(f.Message))
			}
			s.Text(f.Place+"  ", f.Message)
		}
	}
	switch {
	case isVerify:
		s.Line("%s checked, %s.", Count(d.Checked, "record"), Count(len(d.Faults), "fault"))
		return
	case len(d.Records) == 0:
		s.Line("No such record is kept.")
		return
	}
	s.Title("HISTORY", len(d.Records))
	columns := []string{"TIME", "WHAT", "ADDRESS", "POD", "REASON", "ACTOR"}
	if s.Wide {
		columns = append(columns, "POOL OR RESERVATION", "INTERFACE", "CONTAINER", "RULE", "COMMAND", "PROCESS")
	}
	var rows [][]string
	for i, actor := range d.Actors() {
		r := d.Records[i]
		rows = append(rows, []string{r.Time.Format(time.RFC3339), string(r.What), r.IP, r.PodRef, cmp.Or(r.Refusal, r.Reason),
			strings.TrimPrefix(actor, "system:serviceaccount:"), cmp.Or(r.Pool, strings.Join(r.Reservations, ", ")), r.IfName,
			r.ContainerID, r.Row, r.Command, cmp.Or(r.Pod, r.Run)}[:len(columns)])
	}
	s.Table(columns, rows, func(i int) {
		if r := d.Records[i]; hasWords || r.IP == "" {
			s.Text("    ", r.Message)
			if r.Because != "" {
				s.Text("    because: ", r.Because)
			}
		}
	})
}
