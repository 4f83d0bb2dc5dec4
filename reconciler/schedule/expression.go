package schedule

import (
	"errors"
	"fmt"
	"strings"
	"time"
	// Time zones of TZ= and CRON_TZ= must be known in an image without files.
	_ "time/tzdata"

	"github.com/robfig/cron/v3"
)

// Default is in force where no other is configured: daily at 04:30 UTC, as in
// whereabouts v0.9.4 (script/lib.sh, doc/crds/daemonset-install.yaml).
const Default = "30 4 * * *"

// Next is when the expression is due for the first time after a moment, in UTC.
// The expression is one of robfig's standard parser: five fields, a descriptor
// such as @daily, or @every with a duration (of whole seconds, at least one),
// in UTC unless TZ= or CRON_TZ= and a zone stand before it. An hour that the
// zone's clocks skip is not due, one that they repeat is due twice.
func Next(expression string, after time.Time) (time.Time, error) {
	parsed, err := parse(expression)
	if err != nil {
		return time.Time{}, err
	}
	return parsed.Next(after.UTC()).UTC(), nil
}

// longest is how many bytes an expression has at most. All minutes one by one are 170; the parser
// takes seventy times the length, and repeats all of it in its errors.
const longest = 1024

// parse reads an expression. One that is never due, such as one for a 30th of
// February, is an error too: no timer can be set for it.
func parse(expression string) (parsed cron.Schedule, err error) {
	expression = strings.TrimSpace(expression)
	hasZone := strings.HasPrefix(expression, "TZ=") || strings.HasPrefix(expression, "CRON_TZ=")
	switch {
	case len(expression) > longest:
		err = fmt.Errorf("it is longer than %d bytes", longest)
	case hasZone && !strings.Contains(expression, " "): // the parser would panic
		err = errors.New("nothing follows the time zone")
	case hasZone:
		parsed, err = cron.ParseStandard(expression)
	default:
		parsed, err = cron.ParseStandard("CRON_TZ=UTC " + expression)
	}
	if err == nil && parsed.Next(time.Now().UTC()).IsZero() {
		err = errors.New("it is never due")
	}
	if err != nil {
		return nil, fmt.Errorf(`%.80q is no cron expression: %w; write five fields as in "30 4 * * *", or @daily, or @every 5m, in UTC or with TZ=Area/City before it`,
			expression, err)
	}
	return parsed, nil
}
