package schedule

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"syscall"
)

// DefaultFile is where whereabouts v0.9.4 mounts the key of its ConfigMap that
// holds the expression (cmd/reconciler/main.go).
const DefaultFile = "/cron-schedule/config"

// DefaultFlatFiles are the places of whereabouts' own configuration file, in
// the order in which whereabouts v0.9.4 looks there (pkg/config/config.go:
// GetFlatIPAM).
func DefaultFlatFiles() []string {
	return []string{
		"/etc/kubernetes/cni/net.d/whereabouts.d/whereabouts.conf",
		"/etc/cni/net.d/whereabouts.d/whereabouts.conf",
		"/host/etc/cni/net.d/whereabouts.d/whereabouts.conf",
	}
}

// find reads the expression where it is to be read now, and does not judge it.
// A file that exists and cannot be read still decides: only its absence leaves it
// to the next, which may have another expression.
func (s *Schedule) find() (source, expression string, err error) {
	if s.Expression != "" {
		return SourceOption, strings.TrimSpace(s.Expression), nil
	}
	for _, file := range append([]string{s.File}, s.FlatFiles...) {
		content, err := os.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // also where no File is set
			continue
		case err != nil:
			return file, "", fmt.Errorf("cannot be read: %w; make it a file that may be read, or remove it", err)
		case file == s.File:
			return file, strings.TrimSpace(string(content)), nil
		}
		expression, err := fromFlat(content)
		if err == nil && expression == "" {
			return SourceDefault, Default, nil
		}
		return file, expression, err
	}
	return SourceDefault, Default, nil
}

// fromFlat is the expression in a whereabouts.conf, "" where there is none: the
// files of releases before v0.6 know no such field.
func fromFlat(content []byte) (string, error) {
	var flat struct {
		Expression string `json:"reconciler_cron_expression"`
	}
	if err := json.Unmarshal(content, &flat); err != nil {
		return "", fmt.Errorf("cannot be parsed: %w; write JSON with a reconciler_cron_expression as in %q, or remove it", err, Default)
	}
	return strings.TrimSpace(flat.Expression), nil
}
