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

// Default is the expression without any configuration: daily at 04:30 UTC, as in whereabouts v0.9.4
// (script/lib.sh, doc/crds/daemonset-install.yaml).
const Default = "30 4 * * *"

// Next returns the first time after a moment at which an expression is due, in UTC. The expression is one of robfig's
// standard parser: five fields, a descriptor such as @daily, or @every with a duration of whole seconds. TZ= or
// CRON_TZ= and a zone before it replace UTC. An hour that the zone's clocks skip is not due, a repeated one twice.
func Next(expression string, after time.Time) (time.Time, error) {
	parsed, err := parse(expression)
	if err != nil {
		return time.Time{}, err
	}
	return parsed.Next(after.UTC()).UTC(), nil
}

const maxLength = 1024 // of an expression in bytes; the parser needs seventy times as much memory

// parse reads an expression. An expression that is never due, such as one for February 30, is an error.
func parse(expression string) (parsed cron.Schedule, err error) {
	expression = strings.TrimSpace(expression)
	hasZone := strings.HasPrefix(expression, "TZ=") || strings.HasPrefix(expression, "CRON_TZ=")
	switch {
	case len(expression) > maxLength:
		err = fmt.Errorf("it is longer than %d bytes", maxLength)
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
		return nil, fmt.Errorf(`invalid cron expression %.80q: %w; write five fields as in "30 4 * * *", or @daily, `+
			`or @every 5m, in UTC or with TZ=Area/City before it`, expression, err)
	}
	return parsed, nil
}
